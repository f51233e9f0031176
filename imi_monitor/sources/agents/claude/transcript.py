"""One transcript file: its end first, for what is so now; what lies before it later, for what was so far.

Tokens, files and the record of what happened are whole only when the beginning was read too; until then tokens are
unknown rather than too few.

The subagents of a session: `<session>/subagents/agent-<id>.jsonl`, each a conversation of its own.

A subagent in the background goes on when the main turn is over. It is at work until its file, or the `.meta.json`
beside it, says that it finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace

from imi_monitor.model.agent import AgentEvent, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.claude.records import Counts, OpenCall, TokenLedger, matters, parse
from imi_monitor.sources.agents.claude.reducer import ClaudeReducer
from imi_monitor.sources.agents.foreign_files import Tail

_WINDOW = 192 << 10
_WIDEST = 8 << 20
_MOST_NEWS = 2000  # of one reading of the end
_FEW = 2  # lines torn by a crash or two are no sign of a new format


class Transcript:
    """`read` gives what happened since the last time; `before` another piece of what lies in front of it."""

    def __init__(
        self, path: str, *, aside: bool = False, window: int = _WINDOW, ledger: TokenLedger | None = None
    ) -> None:
        self.path = path
        self.readings = 0  # grows when something new is known
        self._aside = aside
        self._window = window
        self._tail = Tail(path, window)
        self._ledger = ledger or TokenLedger()
        self._make()

    def _make(self) -> None:
        name = os.path.basename(self.path)
        self.talk = ClaudeReducer(name, self._ledger)
        self._earlier = ClaudeReducer(name, self._ledger)
        self._unreadable = 0
        self._opened = False

    def _begin(self) -> None:
        for talk in (self.talk, self._earlier):
            self._ledger.leave(talk.usage)
        self._make()

    @property
    def behind(self) -> bool:
        return self._tail.behind

    @property
    def size(self) -> int:
        return self._tail.size

    @property
    def has_older(self) -> bool:
        return self._tail.has_older

    def read(self) -> list[AgentEvent]:
        made = self._read()
        while not self.talk.knows and self.has_older and self._window < _WIDEST:  # nothing but snapshots at the end
            self._window *= 4
            self._tail = Tail(self.path, self._window)
            self._begin()
            made = self._read()
        return made[-_MOST_NEWS:]

    def _read(self) -> list[AgentEvent]:
        lines = self._tail.new()
        if self._tail.begun_anew:
            self._begin()
        self._opened = self._opened or bool(lines)
        return self._take(self.talk, lines)

    def before(self) -> list[AgentEvent]:
        """What happened in the next piece of the part before the end."""
        made = self._take(self._earlier, self._tail.older())
        if not self.has_older:
            self.readings += 1
            self.talk.inherit(self._earlier)
        return made

    @property
    def tokens(self) -> Counts | None:
        """That are counted in this file."""
        if self.has_older or not self._opened:
            return None
        earlier, now = self._earlier.usage.counted, self.talk.usage.counted
        return earlier[0] + now[0], earlier[1] + now[1], earlier[2] + now[2]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(path for path in self._earlier.calls.files if path not in self.talk.calls.files) + tuple(
            self.talk.calls.files
        )

    @property
    def strange(self) -> str | None:
        if self._unreadable > _FEW:
            return f"{self._unreadable} lines that cannot be read"
        return self.talk.strange

    def _take(self, talk: ClaudeReducer, lines: Iterable[bytes]) -> list[AgentEvent]:
        made: list[AgentEvent] = []
        for line in lines:
            self.readings += 1
            if not matters(line):
                continue
            record = parse(line)
            if record is None:
                self._unreadable += 1
            else:
                made += talk.take(record, aside=self._aside)
        return made


_MOST_SUBAGENTS = 32  # the last ones of a session are followed
_SUBAGENT_WINDOW = 64 << 10
_LONGEST_META = 64 << 10


class Subagent:
    def __init__(self, path: str, ledger: TokenLedger) -> None:
        self.transcript = Transcript(path, aside=True, window=_SUBAGENT_WINDOW, ledger=ledger)
        self._meta = path.removesuffix(".jsonl") + ".meta.json"
        self.name = os.path.basename(path).removesuffix(".jsonl")
        self.finished = False
        self.read_meta()

    def read_meta(self) -> None:
        try:
            with open(self._meta, "rb") as file:
                told = fields.table(json.loads(file.read(_LONGEST_META)))
        except (OSError, ValueError, RecursionError):
            return  # it comes later, or is being written
        self.finished = told.get("finished") is True
        self.name = fields.text(told.get("description"), 100) or fields.text(told.get("agentType"), 100) or self.name

    @property
    def working(self) -> bool:
        return not self.finished and self.transcript.talk.working

    def read(self) -> list[AgentEvent]:
        return self._told(self.transcript.read())

    def read_before(self) -> list[AgentEvent]:
        return self._told(self.transcript.before())

    def _told(self, news: list[AgentEvent]) -> list[AgentEvent]:
        return [replace(one, subagent=self.name) for one in news if one.tool is not None]


class Subagents:
    """Those of one session, found by its transcript's path. What they used is counted with it, also that of those who
    ended long ago."""

    def __init__(self, transcript: str, ledger: TokenLedger) -> None:
        self.folder = f"{transcript.removesuffix('.jsonl')}/subagents"
        self.readings = 0
        self._ledger = ledger
        self._found: dict[str, Subagent] = {}
        self._to_count: list[str] = []  # of those who ended long ago
        self._counted: set[str] = set()
        self._counting: Transcript | None = None

    def look(self, touched: frozenset[str] | None) -> list[AgentEvent]:
        if touched is None:
            paths = self._list()
        else:
            inside = self.folder + "/"
            paths = {path for path in touched if path.startswith(inside)}
            if self.folder in touched:
                paths |= self._list()
        return [happened for path in sorted(paths) for happened in self._read(path)]

    def _list(self) -> set[str]:
        """Their conversations, the last ones only: one that is old and unknown has ended long ago, and is only counted."""
        try:
            with os.scandir(self.folder) as found:
                dated = [(one.stat().st_mtime, one.path) for one in found if one.name.endswith(".jsonl")]
        except OSError:
            return set()
        paths = [path for _, path in sorted(dated)]
        known = self._counted | {one.transcript.path for one in self._found.values()}
        self._to_count = [path for path in paths[:-_MOST_SUBAGENTS] if path not in known]
        return set(paths[-_MOST_SUBAGENTS:])

    @property
    def has_older(self) -> bool:
        """Whether something is not counted yet."""
        waits = self._counting is not None or bool(self._to_count)
        return waits or any(one.transcript.has_older for one in self._found.values())

    def read_before(self) -> list[AgentEvent]:
        """Another piece of what was not read yet."""
        self.readings += 1
        for one in self._found.values():
            if one.transcript.has_older:
                return one.read_before()
        if self._counting is not None:
            self._counting.before()
        elif self._to_count:
            path = self._to_count.pop()
            self._counted.add(path)
            self._counting = Transcript(path, aside=True, window=_SUBAGENT_WINDOW, ledger=self._ledger)
            self._counting.read()
        if self._counting is not None and not self._counting.has_older:
            self._counting = None
        return []

    def _read(self, path: str) -> list[AgentEvent]:
        self.readings += 1
        stem = path.removesuffix(".meta.json").removesuffix(".jsonl")
        known = self._found.get(stem)
        if path.endswith(".meta.json"):
            if known is not None:
                known.read_meta()
            return []
        if not path.endswith(".jsonl"):
            return []
        if known is None:
            known = self._found[stem] = Subagent(path, self._ledger)
            self._forget()
        return known.read()

    def _forget(self) -> None:
        over = [stem for stem, one in self._found.items() if not one.working and not one.transcript.has_older]
        for stem in over[: max(0, len(self._found) - 2 * _MOST_SUBAGENTS)]:
            self._counted.add(self._found.pop(stem).transcript.path)

    @property
    def at_work(self) -> int:
        return sum(1 for one in self._found.values() if one.working)

    def asking(self) -> OpenCall | None:
        """The open call of one that works."""
        calls = [call for one in self._found.values() if one.working and (call := one.transcript.talk.asking())]
        return max(calls, key=lambda call: call.at, default=None)

    def evidence(self, asked: bool) -> Evidence | None:
        """What the one that did something last does."""
        working = [one for one in self._found.values() if one.working]
        said = [(one, told) for one in working if (told := one.transcript.talk.evidence(asked)) is not None]
        if not said:
            return None
        one, told = max(said, key=lambda each: each[1].at)
        return replace(told, says=f"subagent {one.name}: {told.says}", detail=told.detail or f"subagent {one.name}")

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for one in self._found.values() for path in one.transcript.files))
