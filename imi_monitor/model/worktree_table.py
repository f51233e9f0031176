"""The status of worktrees as `imi list` and `imi status` print it: a table, or a few lines each in a narrow terminal.

Unknown is None, never 0: a worktree whose status cannot be read is not clean, and one without an upstream is not up to date.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import asdict, dataclass, replace
from imi_monitor.model import columns, state_words, times
from imi_monitor.model.agent_walls import NO_WALL, WALLED
from imi_monitor.model.columns import Column
from imi_monitor.model.contained_names import in_git
from imi_monitor.model.pull_request_list import prospect, pull_request_data, standing
from imi_monitor.model.state_words import UNCLAIMED
from imi_monitor.model.styled_text import ERROR, MUTED, NAME, SUCCESS, WARNING, join, styled
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from imi_monitor.model.pull_request import PullRequest
    from imi_monitor.model.snapshot import Collision, HomeState, Snapshot, Worktree


@dataclass(frozen=True, slots=True)
class ListedWorktree:
    """What is known without a git process. `locked` and `prunable` are reasons.

    `claim_state` is free, held, stale, dead, or unknown while the registry cannot be used.
    """

    worktree_name: str
    repo: str
    path: str
    branch: str | None
    type: str
    is_main: bool = False
    agent_id: str | None = None
    claim_state: str = "free"
    pr_number: int | None = None
    missing: bool = False
    locked: str | None = None
    prunable: str | None = None
    host: str | None = None  # the label of its home; None: this one
    home_state: str | None = None  # unconfirmed or offline; None: what is shown is true now
    pull: PullRequest | None = None  # as the forge listed it last
    wall: str | None = None  # around the agent that imi started there: write, strict or off; None: it started none

    @property
    def is_walled(self) -> bool:
        return self.wall in WALLED

    @property
    def owner(self) -> str:
        """The owner as shown, with the claim's state unless it is held."""
        if self.agent_id is None:
            return UNKNOWN if self.claim_state == "unknown" else UNCLAIMED
        return self.agent_id if self.claim_state == "held" else f"{self.agent_id} ({self.claim_state})"

    @property
    def states(self) -> list[str]:
        """Whether it is missing or locked, and why."""
        found = [f"missing: {self.prunable or 'its folder is gone'}"] if self.missing else []
        if self.locked is not None:
            found.append(f"locked: {self.locked}" if self.locked else "locked")
        return [*found, self.home_state] if self.home_state else found

    def data(self) -> dict[str, object]:
        pull = pull_request_data(self.pull) if self.pull is not None else None
        fields = {name: value for name, value in asdict(self).items() if name != "pull"}
        return fields | {"pull_request": pull, "kind": "worktree" if in_git(self.repo) else self.type}


@dataclass(frozen=True, slots=True)
class WorktreeStatus:
    """A worktree's state at one moment. With `error` set, all fields that come from git are None."""

    known: ListedWorktree
    head: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    trunk: str | None = None
    trunk_ahead: int | None = None
    trunk_behind: int | None = None
    staged: int | None = None
    unstaged: int | None = None
    untracked: int | None = None
    conflicted: int | None = None
    uncommitted: int | None = None  # files, each counted once whichever of the four states it is in
    operation: str | None = None
    last_commit_at: str | None = None
    last_change_at: str | None = None
    last_change_path: str | None = None
    error: str | None = None
    unread: dict[str, object] | None = None  # `unread`, `total` and `partial`; None: not counted
    intent: dict[str, object] | None = None  # as `model.snapshot.Intent`

    def data(self) -> dict[str, object]:
        """Return all fields in one flat mapping."""
        fields = asdict(self)
        fields.pop("known")
        return {**self.known.data(), **fields}


WIDE = 80  # in a narrower terminal most cells of the table would be cut
UNKNOWN = "?"
NONE = "–"

_STATUS = (
    Column("Host", least=6, rank=2),
    Column("Repo", least=6, rank=3),
    Column("Name", least=12, name=True),
    Column("Owner", least=8, name=True),
    Column("Wall", rank=5),
    Column("Branch", least=10, rank=6, name=True),
    Column("Upstream"),
    Column("Trunk", rank=7),
    Column("Staged", right=True),
    Column("Changed", right=True),
    Column("New", right=True),
    Column("Conflicts", right=True),
    Column("PR", rank=8),
    Column("Doing"),
    Column("Commit", right=True, rank=5),
    Column("Last change", least=12, rank=4),
    Column("Note", least=16),
)
_LIST = (
    Column("Host", least=6, rank=2),
    Column("Repo", least=6),
    Column("Name", least=12, name=True),
    Column("Type", rank=4),
    Column("Owner", least=8, name=True),
    Column("Branch", least=10, rank=3, name=True),
    Column("State", least=8),
    Column("Path", least=16, rank=5),
)


def status_table(readings: Sequence[WorktreeStatus], width: int | None, now: datetime) -> list[str]:
    """Return the lines of `imi status` within `width` cells; None (a pipe) is without limit."""
    if width is not None and width < WIDE:
        return [columns.clip(line, width) for reading in readings for line in _stacked(reading, now)]
    several = len({reading.known.repo for reading in readings}) > 1
    return columns.table(_STATUS, [_status_row(reading, several, now) for reading in readings], width)


def statuses_of(snapshot: Snapshot) -> list[WorktreeStatus]:
    """Return the status of every worktree of a snapshot."""
    walls = {one.key: one.wall or NO_WALL for one in reversed(snapshot.runs) if one.key is not None and one.is_open}
    found = map(_status_of, snapshot.worktrees)
    return [
        replace(one, known=replace(one.known, wall=walls.get(tree.key)))
        for one, tree in zip(found, snapshot.worktrees, strict=True)
    ]


def statuses_of_home(home: HomeState) -> list[WorktreeStatus]:
    """Return the status of every worktree of another home."""
    state = None if home.state == "here" else home.state
    found = map(_status_of, home.worktrees)
    return [replace(one, known=replace(one.known, host=home.label, home_state=state)) for one in found]


def snapshot_notes(snapshot: Snapshot) -> list[str]:
    """Return the lines below the table: collisions, and what could not be read."""
    lines = [_collision(one) for one in snapshot.collisions if one.right is not None or one.conflicts]
    for health in snapshot.health:
        if health.failure is not None:
            lines.append(f"? {safe(health.failure.what)}: {safe(health.failure.why)}")
        elif health.note:
            lines.append(f"• {safe(health.note)}")
    return ["", *lines] if lines else []


def _collision(one: Collision) -> str:
    other = "the trunk" if one.right is None else safe(one.right.worktree)
    what = {None: "overlaps with", True: "conflicts with"}.get(bool(one.conflicts) or None, "overlaps with")
    files = one.conflicts or one.files
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return f"⚡ {safe(one.left.worktree)} {what} {other}: {', '.join(safe(path) for path in files[:3])}{more}"


def _status_of(worktree: Worktree) -> WorktreeStatus:
    claim, git, change = worktree.claim, worktree.git, worktree.last_change
    intent = asdict(worktree.intent) if worktree.intent is not None else None
    known = ListedWorktree(
        worktree_name=worktree.key.worktree,
        repo=worktree.key.repo,
        path=worktree.path,
        branch=worktree.branch,
        type=worktree.type,
        is_main=worktree.is_main,
        agent_id=(claim.agent or None) if claim else None,
        claim_state=claim.state if claim else "free",
        pr_number=worktree.pr,
        pull=worktree.pull,
        missing=worktree.missing,
        locked=worktree.locked,
    )
    if git is None:
        why = worktree.failure.why if worktree.failure else "not read yet"
        return WorktreeStatus(known, error=why, intent=intent)
    return WorktreeStatus(
        known,
        intent=intent,
        head=git.head,
        upstream=git.upstream,
        ahead=git.ahead,
        behind=git.behind,
        trunk=git.trunk,
        trunk_ahead=git.trunk_ahead,
        trunk_behind=git.trunk_behind,
        staged=git.staged,
        unstaged=git.unstaged,
        untracked=git.untracked,
        conflicted=git.conflicted,
        uncommitted=git.uncommitted,
        operation=git.operation,
        last_commit_at=git.last_commit.at if git.last_commit else None,
        last_change_at=change.at if change else None,
        last_change_path=change.path if change else None,
        error=worktree.failure.why if worktree.failure else None,
    )


def list_table(worktrees: Sequence[ListedWorktree], width: int | None) -> list[str]:
    """Return the lines of `imi list`."""
    several = len({known.repo for known in worktrees if in_git(known.repo)}) > 1
    return columns.table(_LIST, [_list_row(known, several) for known in worktrees], width)


def _list_row(known: ListedWorktree, several: bool) -> list[str]:
    return [
        safe(known.host or ""),
        safe(known.repo) if several and in_git(known.repo) else "",
        styled(safe(known.worktree_name), NAME),
        safe(known.type),
        _owner(known),
        _branch(known),
        styled(safe(", ".join(known.states)), ERROR if known.missing else WARNING),
        styled(safe(known.path, 4096), MUTED),
    ]


def _status_row(reading: WorktreeStatus, several: bool, now: datetime) -> list[str]:
    known = reading.known
    return [
        safe(known.host or ""),
        safe(known.repo) if several else "",
        styled(safe(known.worktree_name), NAME),
        _owner(known),
        styled(safe(known.wall or "") if known.is_walled else "", MUTED),
        _branch(known),
        _upstream(reading),
        _trunk(reading),
        styled(_number(reading.staged), SUCCESS),
        styled(_number(reading.unstaged), WARNING),
        _number(reading.untracked),
        styled(_number(reading.conflicted), ERROR),
        pull_request_text(known.pull),
        styled(reading.operation or "", WARNING),
        styled(times.age_of(reading.last_commit_at, now) if reading.head or reading.error else NONE, MUTED),
        styled(_last_change(reading, now), MUTED),
        styled(safe("; ".join(_notes(reading))), ERROR),
    ]


def pull_request_text(pull: PullRequest | None) -> str:
    """Return number, CI and review of a pull request, in the colour of what is worst."""
    if pull is None:
        return ""
    outlook = prospect(pull)
    return styled(standing(pull), {"bad": ERROR, "good": SUCCESS}.get(outlook, ""))


def _owner(known: ListedWorktree) -> str:
    return styled(safe(known.owner), state_words.style_of(known.claim_state))


def _branch(known: ListedWorktree) -> str:
    if not in_git(known.repo):
        return ""
    return safe(known.branch) if known.branch is not None else "(detached)" if not known.missing else UNKNOWN


def _upstream(reading: WorktreeStatus) -> str:
    if reading.error is not None:
        return UNKNOWN
    if reading.upstream is None:
        return NONE
    return "gone" if reading.ahead is None else _arrows(reading.ahead, reading.behind)


def _trunk(reading: WorktreeStatus) -> str:
    if reading.error is not None:
        return UNKNOWN
    return "" if reading.trunk is None else _arrows(reading.trunk_ahead, reading.trunk_behind)


def _arrows(ahead: int | None, behind: int | None) -> str:
    if ahead is None or behind is None:
        return UNKNOWN
    parts = [f"{sign}{number}" for sign, number in (("↑", ahead), ("↓", behind)) if number]
    return " ".join(parts) or "="


def _number(number: int | None) -> str:
    """Return the number; empty for 0, `?` for unknown."""
    return UNKNOWN if number is None else str(number) if number else ""


def _last_change(reading: WorktreeStatus, now: datetime) -> str:
    if reading.last_change_path is None:
        return ""
    return f"{safe(reading.last_change_path)} {times.age_of(reading.last_change_at, now)}"


def _notes(reading: WorktreeStatus) -> list[str]:
    states = reading.known.states
    return states if reading.error is None or reading.known.missing else [*states, reading.error]


def _stacked(reading: WorktreeStatus, now: datetime) -> list[str]:
    """Return `feat-api (claude-1)` and below it one line for each thing to know."""
    place = f"{reading.known.host}:" if reading.known.host else ""
    head = join((styled(safe(f"{place}{reading.known.worktree_name}"), NAME), " (", _owner(reading.known), ")"))
    return [head, *(styled(f"  {text}", _MARK_STYLES.get(text[0], "")) for text in _stacked_facts(reading, now))]


_MARK_STYLES = {"✗": ERROR, "?": ERROR, "✓": SUCCESS, "⚠": WARNING, "↓": WARNING, "…": WARNING, "•": MUTED}


def _stacked_facts(reading: WorktreeStatus, now: datetime) -> list[str]:
    lines = [f"✗ {safe(state)}" for state in reading.known.states]
    if reading.error is not None:
        return lines if reading.known.missing else [*lines, f"? {safe(reading.error)}"]
    lines += [*_distance_lines(reading), *_uncommitted_lines(reading)] or ["✓ clean"]
    lines += [f"• behind a wall: {reading.known.wall}"] if reading.known.is_walled else []
    lines += [standing(reading.known.pull)] if reading.known.pull is not None else []
    if reading.last_change_path is not None:
        lines.append(f"• {safe(reading.last_change_path)} ({times.age_of(reading.last_change_at, now)} ago)")
    return lines


def _distance_lines(reading: WorktreeStatus) -> list[str]:
    """Return the distance to the upstream, or to the trunk for a branch without upstream."""
    ahead, behind, of = reading.ahead, reading.behind, ""
    if reading.upstream is None and reading.trunk is not None:
        ahead, behind, of = reading.trunk_ahead, reading.trunk_behind, f" of {safe(reading.trunk)}"
    elif reading.upstream is None:
        return []
    if ahead is None or behind is None:
        return [
            f"? upstream {safe(reading.upstream)} is gone" if reading.upstream else "? distance to the trunk unknown"
        ]
    lines = [f"✓ {count(ahead, 'commit')} ahead{of}"] if ahead else []
    return [*lines, f"↓ {count(behind, 'commit')} behind{of.replace(' of', '', 1)}"] if behind else lines


def _uncommitted_lines(reading: WorktreeStatus) -> list[str]:
    lines = [f"… {reading.operation} in progress"] if reading.operation else []
    if reading.conflicted:
        lines.append(f"✗ {count(reading.conflicted, 'conflict')}")
    if reading.uncommitted is None:
        lines.append("? uncommitted files unknown")
    elif reading.uncommitted:
        lines.append(f"⚠ {reading.uncommitted} uncommitted")
    return lines
