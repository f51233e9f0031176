"""The rows by which a home shows its worktrees and agents to the other homes: JSON, one row each, at most 4 KB.

What leaves the machine is decided here: never paths outside of a worktree, processes, prompts or messages; names of files,
targets of tools and subjects of commits from the level `names`, titles from `titles`; all redacted. What comes in is
untrusted: sizes, types and text are checked, unknown fields are ignored, and a row that is wrong is counted, not shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from imi_monitor.fast.frozen_dataclass import asdict, dataclass
from imi_monitor.model.agent import STATES, UNKNOWN, WORKSPACE, Agent, ToolCall, Truth
from imi_monitor.model.change import Change
from imi_monitor.model.commit import Commit
from imi_monitor.model.home import HomeDescription
from imi_monitor.model.redact import redact
from imi_monitor.model.snapshot import (
    UNKNOWN_CLAIM,
    ClaimState,
    DayWork,
    FileState,
    GitState,
    Intent,
    Key,
    Snapshot,
    Worktree,
)
from imi_monitor.model.text import safe

NAMES, TITLES, PROMPTS = "names", "titles", "prompts"  # levels of `team.share` above counts; presence has no prompts
MOST_ROWS, MOST_BYTES, MOST_FILES = 1000, 4096, 20
_NAME, _TEXT = 200, 120
_COUNTS = ("ahead", "behind", "trunk_ahead", "trunk_behind", "stashes", "added", "removed")
_AMOUNTS = ("working", "waiting", "tokens", "cents")  # of a day's work; None: unknown
_COUNTED = ("sessions", "files", "failed")
_CLAIM_STATES = ("held", "stale", "dead", UNKNOWN_CLAIM)


@dataclass(frozen=True, slots=True)
class HomeRows:
    """The rows of one home, read. `rejected` counts those that are wrong."""

    worktrees: tuple[Worktree, ...]
    agents: tuple[Agent, ...]
    rejected: int
    day: tuple[DayWork, ...] = ()


class RowEncoder:
    """Makes the rows of a snapshot; the row of a worktree or agent that did not change is not made again."""

    def __init__(self, share: str, identity_of: Callable[[str], str]) -> None:
        self._names, self._titles = share in (NAMES, TITLES, PROMPTS), share in (TITLES, PROMPTS)
        self._identity_of = identity_of  # of a repository, by its name here
        self._made: dict[str, tuple[object, str]] = {}

    def rows(self, snapshot: Snapshot, day: Iterable[DayWork] = ()) -> dict[str, str]:
        """Field and row of each repository's work of the day, each worktree and each running agent, at most MOST_ROWS."""
        fields: dict[str, object] = {f"d:{_name(one.repo)}": one for one in day}
        fields |= {
            f"w:{_name(self._identity_of(tree.key.repo))}/{_name(tree.key.worktree)}": tree
            for tree in snapshot.worktrees
        }
        shared = [one for one in snapshot.agents if not one.truth.ended and one.truth.source != WORKSPACE]
        fields |= {f"a:{_name(agent.id)}": agent for agent in shared}
        kept = list(fields.items())[:MOST_ROWS]
        made: dict[str, tuple[object, str]] = {}
        for field, one in kept:
            known = self._made.get(field)
            made[field] = known if known is not None and known[0] is one else (one, self._row(one))
        self._made = made
        return {field: text for field, (_, text) in made.items()}

    def _row(self, one: object) -> str:
        if isinstance(one, DayWork):
            row = _work_row(one)
        else:
            row = self._worktree(one) if isinstance(one, Worktree) else self._agent(one)  # type: ignore[arg-type]
        text = _dumps(row)
        if len(text.encode()) > MOST_BYTES:
            text = _dumps({name: value for name, value in row.items() if name != "files"})
        return text

    def _worktree(self, tree: Worktree) -> dict[str, Any]:
        git, claim, change = tree.git, tree.claim, tree.last_change
        row: dict[str, Any] = {
            "repo": _out(self._identity_of(tree.key.repo), _NAME),
            "name": _out(tree.key.worktree, _NAME),
            "type": _out(tree.type, 40),
            "branch": _out(tree.branch, _NAME),
            "main": tree.is_main,
            "missing": tree.missing,
            "pr": tree.pr,
            "owner": _out(claim.agent, _NAME) if claim else None,
            "claim": claim.state if claim else None,
            "epoch": claim.epoch if claim else None,
            "claimed_at": claim.claimed_at if claim else None,
            "task": _out(claim.task, _TEXT) if claim else None,
            "changed_at": change.at if change else None,
        }
        if tree.intent is not None:
            row["intent"] = [_out(tree.intent.text, _TEXT), _out(tree.intent.by, _NAME), tree.intent.at]
        if git is not None:
            row |= {name: getattr(git, name) for name in (*_COUNTS, "staged", "unstaged", "untracked", "conflicted")}
            row |= {
                "read_at": git.read_at,
                "head": git.head,
                "upstream": _out(git.upstream, _NAME),
                "trunk": _out(git.trunk, _NAME),
            }
            row |= {"operation": git.operation, "files_count": len(git.files)}
            row["committed_at"] = git.last_commit.at if git.last_commit else None
        if self._names:
            row["change"] = _out(change.path, _TEXT) if change else None
            if git is not None:
                row["files"] = [[_out(one.path, _TEXT), one.index, one.tree] for one in git.files[:MOST_FILES]]
                row["subject"] = _out(git.last_commit.subject, _TEXT) if git.last_commit else None
        return row

    def _agent(self, agent: Agent) -> dict[str, Any]:
        tool = agent.truth.tool
        row: dict[str, Any] = {
            "id": _out(agent.id, _NAME),
            "name": _out(agent.name, _NAME),
            "cli": _out(agent.cli, 40),
            "repo": _out(self._identity_of(agent.key.repo), _NAME) if agent.key else None,
            "worktree": _out(agent.key.worktree, _NAME) if agent.key else None,
            "state": agent.state,
            "since": agent.truth.since,
            "suspended": agent.suspended,
            "claim": agent.claim,
            "wall": agent.wall,
            "tool": _out(tool.name, 60) if tool else None,
        }
        if self._names:
            row["target"] = _out(_inside(tool.target), _TEXT) if tool else None
        if self._titles:
            row["title"] = _out(agent.facts.title, _TEXT)
            row["detail"] = _out(agent.truth.detail, _TEXT)
        return row


class RowDecoder:
    """Reads the rows of one home, whose label is the host in their keys. A row of the same text stays the same object."""

    def __init__(self, label: str, home: HomeDescription) -> None:
        self.label = label
        self._home = home
        self._made: dict[
            str, tuple[str, Worktree | Agent | DayWork | None]
        ] = {}  # None: it is wrong, or of no known kind
        self._wrong: set[str] = set()

    def read(self, fields: Mapping[str, str]) -> HomeRows:
        made, before = {}, self._made
        for field, text in list(fields.items())[:MOST_ROWS]:
            known = before.get(field)
            made[field] = known if known is not None and known[0] == text else (text, self._row(field, text))
        self._made = made
        self._wrong &= made.keys()
        rows = [row for _, row in made.values()]
        return HomeRows(
            tuple(row for row in rows if isinstance(row, Worktree)),
            tuple(row for row in rows if isinstance(row, Agent)),
            len(self._wrong) + max(0, len(fields) - MOST_ROWS),
            tuple(row for row in rows if isinstance(row, DayWork)),
        )

    def _row(self, field: str, text: str) -> Worktree | Agent | DayWork | None:
        self._wrong.discard(field)
        try:
            row = _loads(text)
            if field.startswith("w:"):
                return _read_worktree(self.label, row)
            if field.startswith("a:"):
                return _read_agent(self.label, self._home, row)
            return _read_work(row) if field.startswith("d:") else None
        except (ValueError, RecursionError):
            self._wrong.add(field)
            return None


def describe(home: HomeDescription) -> str:
    """The row in which a home says what it is."""
    return _dumps({name: value for name, value in asdict(home).items() if name != "id"})


def read_description(ident: str, text: str) -> HomeDescription | None:
    """Read what a home says it is; None if that is wrong."""
    try:
        row = _loads(text)
        protocol = _number(row, "protocol")
        if protocol is None:
            return None
        names = [_text(row, name, 60) or "" for name in ("host", "user", "version", "since", "seen")]
    except (ValueError, RecursionError):
        return None
    from imi_monitor.model.home import plain_host

    user = plain_host(names[1]) if names[1] else ""
    return HomeDescription(safe(ident, 64), plain_host(names[0]), user, names[2], protocol, names[3], names[4])


def _read_worktree(label: str, row: dict[str, Any]) -> Worktree:
    key = Key(label, _needed(row, "repo"), _needed(row, "name"))
    state = row.get("claim")
    claim = None
    if state is not None:
        known = state if state in _CLAIM_STATES else UNKNOWN_CLAIM
        epoch, task = _number(row, "epoch") or 0, _text(row, "task", _TEXT)
        owner = _text(row, "owner", _NAME) or ""
        claim = ClaimState(key, owner, known, epoch, _text(row, "claimed_at", 40), None, task, None)
    changed_at = _text(row, "changed_at", 40)
    change = None
    if changed_at is not None:
        change = Change(key.repo, key.worktree, "modified", _text(row, "change", _TEXT) or "", changed_at)
    return Worktree(
        key=key,
        path="",
        type=_text(row, "type", 40) or "",
        branch=_text(row, "branch", _NAME),
        is_main=row.get("main") is True,
        missing=row.get("missing") is True,
        locked=None,
        pr=_number(row, "pr"),
        claim=claim,
        git=_read_git(row) if _text(row, "read_at", 40) else None,
        failure=None,
        watched="off",
        watched_why=None,
        last_change=change,
        intent=_read_intent(row.get("intent")),
    )


def _read_intent(found: object) -> Intent | None:
    if not isinstance(found, list) or len(found) != 3 or not all(isinstance(one, str) for one in found):
        return None
    return Intent(safe(found[0], _TEXT), safe(found[1], _NAME), safe(found[2], 40))


def _read_git(row: dict[str, Any]) -> GitState:
    counts = {name: _number(row, name) for name in _COUNTS}
    committed, subject = _text(row, "committed_at", 40), _text(row, "subject", _TEXT)
    return GitState(
        read_at=_text(row, "read_at", 40) or "",
        branch=_text(row, "branch", _NAME),
        head=_text(row, "head", 64),
        upstream=_text(row, "upstream", _NAME),
        trunk=_text(row, "trunk", _NAME),
        files=_read_files(row.get("files"), _number(row, "files_count") or 0),
        staged=_number(row, "staged") or 0,
        unstaged=_number(row, "unstaged") or 0,
        untracked=_number(row, "untracked") or 0,
        conflicted=_number(row, "conflicted") or 0,
        operation=_text(row, "operation", 40),
        last_commit=Commit("", subject or "", "", committed) if committed else None,
        ahead=counts["ahead"],
        behind=counts["behind"],
        trunk_ahead=counts["trunk_ahead"],
        trunk_behind=counts["trunk_behind"],
        stashes=counts["stashes"],
        added=counts["added"],
        removed=counts["removed"],
    )


def _read_files(found: object, count: int) -> tuple[FileState, ...]:
    """The named files, and as many without a name as the home counts beyond them."""
    files: list[FileState] = []
    for one in found[:MOST_FILES] if isinstance(found, list) else ():
        if isinstance(one, list) and len(one) == 3 and all(isinstance(part, str) for part in one):
            files.append(FileState(safe(one[0], _TEXT), safe(one[1], 1), safe(one[2], 1)))
    unnamed = min(max(0, count - len(files)), MOST_ROWS)
    return (*files, *[FileState("", ".", "M")] * unnamed)


def _read_agent(label: str, home: HomeDescription, row: dict[str, Any]) -> Agent:
    repo, worktree, name = _text(row, "repo", _NAME), _text(row, "worktree", _NAME), _needed(row, "name")
    tool, state = _text(row, "tool", 60), row.get("state")
    truth = Truth(
        state=state if isinstance(state, str) and state in STATES else UNKNOWN,
        since=_text(row, "since", 40),
        source="home",
        confidence="exact",
        detail=_text(row, "detail", _TEXT),
        tool=ToolCall(tool, _text(row, "target", _TEXT)) if tool else None,
    )
    claim = row.get("claim")
    return Agent(
        id=f"{home.id}:{_needed(row, 'id')}",
        cli=_text(row, "cli", 40) or "?",
        name=name,
        key=Key(label, repo, worktree) if repo and worktree else None,
        cwd=None,
        session=None,
        pid=None,
        pid_started=None,
        truth=truth,
        claim=claim if claim in ("mine", "other", "none") else None,
        suspended=row.get("suspended") is True,
        label=name,
        wall=_text(row, "wall", 20),
    )


def _work_row(work: DayWork) -> dict[str, Any]:
    """Figures alone, so that they are the same at each level."""
    row: dict[str, Any] = {"repo": _out(work.repo, _NAME), "until": work.until}
    return row | {name: getattr(work, name) for name in (*_COUNTED, *_AMOUNTS)}


def _read_work(row: dict[str, Any]) -> DayWork:
    found = {name: number for name in (*_COUNTED, *_AMOUNTS) if (number := _number(row, name)) is not None}
    return DayWork(_text(row, "repo", _NAME) or "", _needed(row, "until"), **found)


def _inside(target: str | None) -> str | None:
    """A tool's target unless it is a path outside of the worktree, of which only the last part is named."""
    if target is None or not target.startswith(("/", "~", "../")):
        return target
    return target.split()[0].rstrip("/").rpartition("/")[2] if target.split() else None


def _name(text: str) -> str:
    """A name as it may leave the machine."""
    return _shared_text(text, _NAME)


def _out(text: str | None, limit: int) -> str | None:
    return None if text is None else _shared_text(text, limit)


@lru_cache(maxsize=8 * MOST_ROWS)
def _shared_text(text: str, limit: int) -> str:
    """A text as it may leave the machine. Most texts of a row that changed are those that it had before."""
    return safe(redact(text), limit)


_encoder = json.JSONEncoder(separators=(",", ":"))


def _dumps(row: Mapping[str, object]) -> str:
    return _encoder.encode({name: value for name, value in row.items() if value is not None})


def _loads(text: str) -> dict[str, Any]:
    if len(text) > MOST_BYTES:
        raise ValueError("too long")
    row = json.loads(text)
    if not isinstance(row, dict):
        raise ValueError("no object")
    return row


def _needed(row: dict[str, Any], name: str) -> str:
    text = _text(row, name, _NAME)
    if not text:
        raise ValueError(name)
    return text


def _text(row: dict[str, Any], name: str, limit: int) -> str | None:
    value = row.get(name)
    return safe(value, limit) if isinstance(value, str) and value else None


def _number(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    return value if type(value) is int and 0 <= value < 1 << 40 else None
