"""Transcript files of Claude Code: the one of a session and those of its subagents.

A transcript is read from its end, for the current state; the rest follows in the background, for tokens, files and the
record of events. Until the beginning is read, tokens are unknown rather than too few.

Subagents write `<session>/subagents/agent-<id>.jsonl`, each a conversation of its own. One in the background goes on
after the main turn has ended. It works until its file, or the `.meta.json` beside it, says that it finished.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

from imi_monitor.model.agent import AgentEvent, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.claude.records import OpenCall, TokenLedger
from imi_monitor.sources.agents.claude.reducer import ClaudeReducer
from imi_monitor.sources.agents.foreign_files import RecordFile, Tail
from imi_monitor.sources.agents.session_reducer import TokenCounts

_WINDOW = 192 << 10
_WIDEST = 8 << 20
_SUBAGENT_WINDOW = 64 << 10
_MOST_SUBAGENTS = 32  # the newest ones of a session are followed
_LONGEST_META = 64 << 10


class Transcript(RecordFile[ClaudeReducer]):
    """One conversation."""

    def __init__(
        self, path: str, *, subagent: bool = False, window: int = _WINDOW, ledger: TokenLedger | None = None
    ) -> None:
        self._ledger = ledger or TokenLedger()
        self._window = window
        self._has_lines = False
        name = os.path.basename(path)
        super().__init__(path, lambda: ClaudeReducer(name, self._ledger, subagent=subagent), window)

    def read(self) -> bool:
        """Read what was added. Widens the window while it shows no state, only copies of what was sent to the model."""
        grew = super().read()
        while not self.reducer.has_state and self.has_older and self._window < _WIDEST:
            self._window *= 4
            self.tail = Tail(self.path, self._window)
            self.restart()
            grew = super().read()
        self._has_lines = self._has_lines or grew
        return grew

    def restart(self) -> None:
        for reducer in filter(None, (self.reducer, self._older)):
            for counter in filter(None, (reducer.tokens, reducer.older_tokens)):
                self._ledger.remove(counter)
        self._has_lines = False
        super().restart()

    @property
    def tokens(self) -> TokenCounts | None:
        """The tokens counted in this file; None until all of it is read."""
        if self.has_older or not self._has_lines:
            return None
        older = self.reducer.older_tokens.counted if self.reducer.older_tokens else (0, 0, 0)
        newer = self.reducer.tokens.counted
        return older[0] + newer[0], older[1] + newer[1], older[2] + newer[2]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self.reducer.files)


class Subagent:
    def __init__(self, path: str, ledger: TokenLedger) -> None:
        self.transcript = Transcript(path, subagent=True, window=_SUBAGENT_WINDOW, ledger=ledger)
        self._meta = path.removesuffix(".jsonl") + ".meta.json"
        self.name = os.path.basename(path).removesuffix(".jsonl")
        self.finished = False
        self.read_meta()

    def read_meta(self) -> None:
        try:
            with open(self._meta, "rb") as file:
                meta = fields.table(json.loads(file.read(_LONGEST_META)))
        except (OSError, ValueError, RecursionError):
            return  # not there yet, or being written
        self.finished = meta.get("finished") is True
        self.name = fields.text(meta.get("description"), 100) or fields.text(meta.get("agentType"), 100) or self.name

    @property
    def working(self) -> bool:
        return not self.finished and self.transcript.reducer.working

    def read(self) -> list[AgentEvent]:
        self.transcript.read()
        return self._take_events()

    def read_older(self) -> list[AgentEvent]:
        self.transcript.read_older()
        return self._take_events()

    def _take_events(self) -> list[AgentEvent]:
        """The tool calls, marked as a subagent's."""
        return [replace(one, subagent=self.name) for one in self.transcript.take_events() if one.tool is not None]


class Subagents:
    """The subagents of one session. Old ones are not followed, only their tokens are counted."""

    def __init__(self, transcript: str, ledger: TokenLedger) -> None:
        self.folder = f"{transcript.removesuffix('.jsonl')}/subagents"
        self._ledger = ledger
        self._followed: dict[str, Subagent] = {}  # by path without its ending
        self._to_count: list[str] = []
        self._counted: set[str] = set()
        self._counting: Transcript | None = None

    def read(self, touched: frozenset[str] | None) -> list[AgentEvent]:
        if touched is None:
            paths = self._list()
        else:
            inside = self.folder + "/"
            paths = {path for path in touched if path.startswith(inside)}
            if self.folder in touched:
                paths |= self._list()
        return [event for path in sorted(paths) for event in self._read(path)]

    def _list(self) -> set[str]:
        """The newest conversations. Older ones that are not followed have ended and are only counted."""
        try:
            with os.scandir(self.folder) as found:
                dated = [(one.stat().st_mtime, one.path) for one in found if one.name.endswith(".jsonl")]
        except OSError:
            return set()
        paths = [path for _, path in sorted(dated)]
        known = self._counted | {one.transcript.path for one in self._followed.values()}
        self._to_count = [path for path in paths[:-_MOST_SUBAGENTS] if path not in known]
        return set(paths[-_MOST_SUBAGENTS:])

    @property
    def has_older(self) -> bool:
        """True while something is not counted yet."""
        waits = self._counting is not None or bool(self._to_count)
        return waits or any(one.transcript.has_older for one in self._followed.values())

    def read_older(self) -> list[AgentEvent]:
        """Read another slice of what is not counted yet."""
        for one in self._followed.values():
            if one.transcript.has_older:
                return one.read_older()
        if self._counting is not None:
            self._counting.read_older()
        elif self._to_count:
            path = self._to_count.pop()
            self._counted.add(path)
            self._counting = Transcript(path, subagent=True, window=_SUBAGENT_WINDOW, ledger=self._ledger)
            self._counting.read()
        if self._counting is not None and not self._counting.has_older:
            self._counting = None
        return []

    def _read(self, path: str) -> list[AgentEvent]:
        stem = path.removesuffix(".meta.json").removesuffix(".jsonl")
        known = self._followed.get(stem)
        if path.endswith(".meta.json"):
            if known is not None:
                known.read_meta()
            return []
        if not path.endswith(".jsonl"):
            return []
        if known is None:
            known = self._followed[stem] = Subagent(path, self._ledger)
            self._forget_finished()
        return known.read()

    def _forget_finished(self) -> None:
        finished = [stem for stem, one in self._followed.items() if not one.working and not one.transcript.has_older]
        for stem in finished[: max(0, len(self._followed) - 2 * _MOST_SUBAGENTS)]:
            self._counted.add(self._followed.pop(stem).transcript.path)

    @property
    def count_working(self) -> int:
        return sum(1 for one in self._followed.values() if one.working)

    def asking(self) -> OpenCall | None:
        """The newest open call of a working subagent."""
        working = (one for one in self._followed.values() if one.working)
        calls = [call for one in working if (call := one.transcript.reducer.asking())]
        return max(calls, key=lambda call: call.at, default=None)

    def evidence(self, asked: bool) -> Evidence | None:
        """Return what the subagent that was active last does."""
        working = [one for one in self._followed.values() if one.working]
        pairs = [(one, said) for one in working if (said := one.transcript.reducer.evidence(asked)) is not None]
        if not pairs:
            return None
        one, said = max(pairs, key=lambda each: each[1].at)
        return replace(said, says=f"subagent {one.name}: {said.says}", detail=said.detail or f"subagent {one.name}")

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for one in self._followed.values() for path in one.transcript.files))
