"""Worktrees, changes and events as styled text: which glyph, word and colour stands for what.

A state always has a glyph and a word, never a colour alone. Everything is `Content`, not markup, and text from outside has
passed `safe`. Terminals without Unicode show the ASCII twins of `glyphs.ASCII_TWINS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from textual.content import Content

from imi_monitor.model import columns, event_text, times
from imi_monitor.model.change import GIT, Change, changes_per_minute
from imi_monitor.model.event_text import ShownEvent
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.pull_request_list import prospect, standing
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import (
    UNKNOWN_CLAIM,
    Collision,
    DiskUse,
    FileState,
    GitState,
    Intent,
    Key,
    Snapshot,
    UnreadChanges,
    Worktree,
)
from imi_monitor.model.text import count, safe
from imi_monitor.ui import key_hints
from imi_monitor.ui.snapshot_facts import parse_time

TYPE_GLYPHS = {
    "run": "▤",
    "contained": "▣",
    "watched": "▥",
    "feat": "▫",
    "fix": "✚",
    "review": "◇",
    "trunk": "▪",
    "aiops": "⚙",
    "devops": "⚒",
}
WALL_SIGNS = {"write": "▢", "strict": "▩"}  # before the name of an agent behind a wall
CHANGE_GLYPHS = {
    "created": ("+", "$success"),
    "modified": ("~", "$accent"),
    "deleted": ("−", "$error"),
    "renamed": ("→", "$accent"),
}
BARS = " ▁▂▃▄▅▆▇█"
MUTED = "$foreground 60%"  # not $text-muted: inside a Content its `auto` is drawn brighter than plain text


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` cells."""
    return columns.pad(columns.clip(text, width), width, right=right)


@lru_cache(2048)  # the same few names and ages are drawn every second
def fixed(value: str, width: int, style: str = "", *, right: bool = False) -> Content:
    return Content.styled(fit(value, width, right=right), style) if style else Content(fit(value, width, right=right))


@lru_cache(2048)
def fixed_name(value: str, width: int, style: str = "") -> Content:
    """Return a name in exactly `width` cells, cut in its middle, because names differ at both ends."""
    shown = columns.pad(columns.clip_middle(value, width), width)
    return Content.styled(shown, style) if style else Content(shown)


def glyph(worktree: Worktree) -> Content:
    if worktree.missing:
        return Content.styled("✗", "$missing")
    if worktree.run is not None and worktree.run.waiting_deliveries:
        return Content.styled("◆", "$agent-asks")
    if worktree.claim is not None and worktree.claim.state in CLAIM_WORDS:
        return Content.styled(CLAIM_WORDS[worktree.claim.state][0], CLAIM_STYLES[worktree.claim.state])
    return Content.styled(TYPE_GLYPHS.get(worktree.type, "·"), "$primary" if worktree.claim else MUTED)


CLAIM_STYLES = {
    "": MUTED,
    "held": "$claim-held",
    "stale": "$claim-stale",
    "dead": "$claim-dead",
    UNKNOWN_CLAIM: "$warning",
}
CLAIM_WORDS = {"stale": "◌ stale", "dead": "✗ dead"}


@lru_cache(1024)
def arrows(ahead: int | None, behind: int | None, width: int, *, known: bool = True) -> Content:
    """`↑3 ↓1`; empty when level, `–` without a branch to compare with, `?` while git has not been read."""
    if ahead is None or behind is None:
        return fixed("–" if known else "?", width, MUTED)
    apart = distance(ahead, behind)
    return padded(apart if apart.cell_length <= width else Content("").join(apart.split(" ")), width)


@lru_cache(1024)
def distance(ahead: int | None, behind: int | None) -> Content:
    """`↑3 ↓1`; empty when level or unknown."""
    parts = [
        Content.styled(f"↑{short_number(ahead)}", "$success") if ahead else None,
        Content.styled(f"↓{short_number(behind)}", "$warning") if behind else None,
    ]
    return Content(" ").join(part for part in parts if part is not None)


def pull_request(pull: PullRequest | None) -> Content:
    """`#12 CI ✓ approved`; empty without a pull request."""
    if pull is None:
        return Content("")
    return Content.styled(standing(pull), {"bad": "$error", "good": "$success"}.get(prospect(pull), ""))


def short_number(number: int) -> str:
    """The number in at most three characters: 7, 42, 999, 1k, 12k, lot."""
    return str(number) if number < 1000 else f"{number // 1000}k" if number < 100_000 else "lot"


ALL_READ = "✓"


def unread_count(found: UnreadChanges | None) -> str:
    """`3/12`, or `✓` when everything was read; with a plus if there is more, `…` before it is counted."""
    if found is None:
        return "…"
    if found.unread is None or found.total is None:
        return "?"
    if not found.unread and not found.partial:
        return ALL_READ if found.total else ""
    return f"{short_number(found.unread)}/{short_number(found.total)}{'+' if found.partial else ''}"


def disk_size(use: DiskUse | None) -> str:
    """The size in at most five characters, `1.2G`; with a plus if folders were left out, `…` before it is measured."""
    if use is None:
        return "…"
    if use.size is None:
        return "?"
    return f"{file_size(use.size)}{'+' if use.unreadable else ''}"


def file_size(size: int) -> str:
    """The size in at most four characters: `940B`, `1.2k`."""
    number, unit = float(size), "B"
    for larger in "kMGT":
        if number < 999.5:
            break
        number, unit = number / 1000, larger
    digits = f"{number:.1f}" if unit != "B" and number < 9.95 else f"{number:.0f}"
    return f"{digits}{unit}"


def wrapped(content: Content, width: int, *, most: int = 0) -> list[Content]:
    """The content in lines of at most `width` cells, broken between words; with `most` in so many, the last one cut."""
    lines = content.wrap(width)
    if not most or len(lines) <= most:
        return lines
    return [*lines[: most - 1], Content(" ").join(lines[most - 1 :]).truncate(width, ellipsis=True)]


def padded(content: Content, width: int, *, right: bool = False) -> Content:
    """The content in exactly `width` cells."""
    if content.cell_length > width:
        content = content.truncate(width, ellipsis=True)
    space = max(0, width - content.cell_length)
    return content.pad_left(space) if right else content.pad_right(space)


def file_counts(state: GitState | None, width: int) -> Content:
    """The changes in exactly `width` cells; `?` while git has not been read."""
    if state is None:
        return fixed("?", width, MUTED)
    joined = changes(state)
    return padded(joined if joined.cell_length <= width else Content("").join(joined.split(" ")), width)


def changes(state: GitState) -> Content:
    """`●2 ✎1 +3`: staged, changed and new files; conflicts first and bold."""
    return _counts(state.conflicted, state.staged, state.unstaged, state.untracked)


@lru_cache(1024)
def _counts(conflicted: int, staged: int, unstaged: int, untracked: int) -> Content:
    numbers = [
        ("✗", conflicted, "$error bold"),
        ("●", staged, "$success"),
        ("✎", unstaged, "$warning"),
        ("+", untracked, MUTED),
    ]
    return Content(" ").join(
        Content.styled(f"{sign}{short_number(number)}", style) for sign, number, style in numbers if number
    )


def collision_count(hits: int) -> Content:
    """`⚡12`: with how many others a worktree conflicts; empty without any."""
    return Content.styled(f"⚡{hits}" if hits else "", "$collision bold")


def sparkline(worktree: Worktree, minutes: int, now: datetime) -> Content:
    """Changed files per minute as bars; blank without any."""
    if not worktree.activity:
        return Content(" " * minutes)
    numbers = changes_per_minute(worktree.activity, int(now.timestamp() // 60), minutes)
    most = max(numbers) or 1
    bars = "".join(BARS[0 if not n else 1 + (n * 7) // most] for n in numbers)
    return Content.styled(bars, "$accent")


def problem(worktree: Worktree, *, short: bool = False) -> Content:
    """What is wrong with the worktree or in progress there, in words; empty when nothing is. `short` fits a column."""
    state = worktree.git
    if worktree.run is not None:
        return Content("")
    if worktree.missing:
        return Content.styled("✗ missing" if short else "✗ its folder is gone", "$missing")
    if worktree.failure is not None:
        why = safe(worktree.failure.why, 60)
        return Content.styled(f"? {why.removeprefix('fatal: ') if short else why}", "$error")
    if state is None:
        return Content.styled("waiting for git…", MUTED)
    if state.operation:
        operation = safe(state.operation)
        return Content.styled(f"⚠ mid-{operation}" if short else f"⚠ {operation} in progress", "$warning")
    if state.conflicted:
        return Content.styled(f"✗ {count(state.conflicted, 'conflict')}", "$error")
    return Content("")


def run_summary(one: Run) -> Content:
    """`3 files, strict`: how many it has made, and the level of its wall."""
    files, wall = Content.styled(count(len(one.files), "file") if one.files else "", MUTED), run_wall(one)
    return Content.styled(", ", MUTED).join([part for part in (files, wall) if part.plain])


def run_wall(one: Run) -> Content:
    """The level of its wall; `no wall` for a contained run without one."""
    if one.workspace is not None and one.wall is None:
        return Content.styled("no wall", "$warning")
    return Content.styled(one.wall or "", MUTED)


def _run_text(one: Run) -> str:
    """What is said of a run whose agent is not shown: what waits for a person, else how it ended and what it was to do."""
    if one.waiting_deliveries:
        return f"wants to deliver {safe(', '.join(file.name for file in one.waiting_deliveries), 200)}"
    lines = (one.detail or one.prompt or "").splitlines()
    return f"{one.word}: {safe(lines[0], 200)}" if lines else one.word


def activity(worktree: Worktree, *, task: bool = True) -> Content:
    """A problem, else the state and task of the claim, else the file that changed last; `task`: it has no column of its own."""
    special = problem(worktree, short=True)
    if special.plain:
        return special
    if worktree.run is not None:
        return Content.styled(_run_text(worktree.run), "$agent-asks" if worktree.run.waiting_deliveries else MUTED)
    claim, change = worktree.claim, worktree.last_change
    if claim is not None and claim.state in CLAIM_WORDS:
        lost = Content.styled(CLAIM_WORDS[claim.state], CLAIM_STYLES[claim.state])
        return lost.append(Content.styled(f" · {safe(claim.task, 120)}", MUTED)) if claim.task and task else lost
    if claim is not None and claim.task and task:
        return Content(safe(claim.task, 120))
    if change is not None:
        sign, style = CHANGE_GLYPHS[change.kind]
        more = f" +{change.count - 1}" if change.count > 1 else ""
        return Content.styled(f"{sign} ", style).append(
            Content.styled(f"{path_tail(safe(change.path), 60)}{more}", MUTED)
        )
    words = [branch_standing(worktree.git)] if worktree.git is not None else []
    words += ["locked"] if worktree.locked is not None else []
    words += ["polling"] if worktree.watched == "polling" else []
    return Content.styled(", ".join(word for word in words if word), MUTED)


def branch_standing(state: GitState) -> str:
    """Whether HEAD is on no branch, or on one that the trunk has already; empty for all other branches."""
    if state.branch is None and state.head is not None:
        return f"detached at {safe(state.head[:8])}"
    return "merged" if state.merged and not state.files else ""


def path_tail(path: str, width: int) -> str:
    """The path, or `…` and as much of its end as fits into `width` cells; always the file's name."""
    name = path.rpartition("/")[2]
    if columns.cell_width(path) <= width or name == path:
        return path
    shown = path
    while columns.cell_width(shown) > max(width - 1, columns.cell_width(name)):
        shown = shown[1:]
    return f"…{shown}" if columns.cell_width(shown) < width else name


def git_summary(worktree: Worktree) -> Content:
    """The git state in words, for narrow rows: `⚠ 2 uncommitted`, `✓ 3 commits ahead`, `✓ clean`."""
    special = problem(worktree)
    state = worktree.git
    if special.plain or state is None:
        return special
    aside = ", detached" if state.branch is None and state.head is not None else ""
    if state.uncommitted:
        return Content.styled(f"⚠ {state.uncommitted} uncommitted{aside}", "$warning")
    ahead = state.ahead if state.upstream and state.ahead is not None else state.trunk_ahead
    if ahead:
        return Content.styled(f"✓ {count(ahead, 'commit')} ahead{aside}", "$success")
    return Content.styled("✓ merged" if state.merged else f"✓ clean{aside}", MUTED)


def change_line(line: Change, width: int, tree: int) -> Content:
    """`14:02:09 feat-api ~ src/api.ts  claude-1`; `tree` is the width of the worktree's name."""
    sign, style = CHANGE_GLYPHS[line.kind]
    by = fit(safe(line.by), min(16, columns.cell_width(safe(line.by)))) if line.by and line.by != GIT else ""
    room = max(6, width - 9 - tree - 3 - (len(by) + 1 if by else 0))
    more = f" and {line.count - 1} more" if line.count > 1 else ""
    name = path_tail(safe(line.path), max(6, room - len(more))) + more
    if line.by == GIT:
        name = f"{count(line.count, 'file')} checked out"
    parts = [
        fixed(clock_or_day(line.at), 9, MUTED),
        fixed_name(safe(line.worktree), tree),
        Content.styled(f" {sign} ", style),
        fixed(name, room),
    ]
    if by:
        parts.append(Content.styled(f" {by}", MUTED))
    return Content("").join(parts)


def intent(one: Intent, now: datetime) -> Content:
    """`intent: make it work  claude-1 3m`."""
    line = Content.styled("intent: ", MUTED).append(Content(safe(one.text, 300)))
    return line.append(Content.styled(f"  {safe(one.by, 40)} {times.age_of(one.at, now)}", MUTED))


def reached(one: Intent, now: datetime) -> Content:
    """`reached: it compiles  2m`: the last milestone; empty without one."""
    if one.reached is None:
        return Content("")
    line = Content.styled("reached: ", MUTED).append(Content(safe(one.reached, 200)))
    return line.append(Content.styled(f"  {times.age_of(one.reached_at, now)}", MUTED))


def failure(sentence: str) -> Content:
    """A sentence about something that cannot be read."""
    return Content.styled(f"? {safe(key_hints.in_keys(sentence), 400)}", "$error")


def age(at: str | None, now: datetime) -> str:
    """The age of a stored time."""
    then = parse_time(at)
    return times.age(None if then is None else (now - then).total_seconds())


def clock(at: str) -> str:
    then = parse_time(at)
    return then.astimezone().strftime("%H:%M:%S") if then else "??:??:??"


def clock_or_day(at: str) -> str:
    """`14:02:09`, or `24 Jan` of another day."""
    then = parse_time(at)
    local = then.astimezone() if then else None
    today = local is None or local.date() == times.now().astimezone().date()
    return clock(at) if today or local is None else f"{local.day} {local:%b}"


_EVENT_STYLES = (
    ("asks", "$agent-asks"),
    ("fail", "$error"),
    ("died", "$error"),
    ("lost", "$error"),
    ("removed", "$warning"),
    ("released", "$text-muted"),
    ("claimed", "$accent"),
    ("created", "$success"),
    ("restored", "$success"),
)


def event_style(verb: str) -> str:
    return next((style for word, style in _EVENT_STYLES if word in verb), "")


def event_line(one: ShownEvent, width: int, *, repository: str = "", moment: str = "") -> Content:
    """`14:02:09 claude-1 claimed feat-api for T-7`; `moment` replaces the clock."""
    said = event_text.sentence(one.event, repository=repository)
    parts = [Content.styled(f"{moment or clock(one.event.at)} ", MUTED)]
    parts += [Content.styled(f"{said.subject} ", "bold")] if said.subject else []
    parts += [Content.styled(said.verb, event_style(said.verb)), Content(said.rest)]
    more = (
        f" ({one.earlier} earlier)" if one.earlier else f" (undo: {key_hints.label('undo')})" if one.restorable else ""
    )
    return Content("").join([*parts, Content.styled(more, MUTED)]).truncate(width, ellipsis=True)


def line_counts(entry: FileState) -> str:
    """`+12 −3`; empty for a binary file, or where it is unknown."""
    return "" if entry.added is None else f"+{entry.added} −{entry.removed}"


def file_line(
    entry: FileState, width: int, shared: tuple[str, bool] | None, *, counts: int = 10, beside: int = 0
) -> Content:
    """`M  src/api.ts  +12 −3  ⚡ fix-bug`; `counts` and `beside` are the widths of the lines and of the overlapping worktree."""
    letters = f"{entry.index}{entry.tree}".replace(".", " ")
    style = "$error" if "U" in letters else "$success" if entry.tree == "." else "$warning"
    room = max(8, width - 4 - counts - beside)
    path = path_tail(safe(entry.path), room)
    parts = [
        fixed(letters, 3, style),
        Content(" "),
        fixed(path, room),
        fixed(line_counts(entry), counts, MUTED, right=True),
    ]
    if shared:
        parts.append(fixed(_overlap(shared[0]), beside, "$collision" if shared[1] else "$overlap"))
    return Content("").join(parts)


def _overlap(name: str) -> str:
    return f" ⚡ {columns.clip(name, 14)}"


def overlap_width(shared: dict[str, tuple[str, bool]], files: Sequence[FileState]) -> int:
    """The width of the column with overlapping worktrees: the same on each line, so that numbers are aligned."""
    return max((columns.cell_width(_overlap(shared[file.path][0])) for file in files if file.path in shared), default=0)


def collision_line(one: Collision, key: Key, width: int) -> Content:
    """`⚡ conflicts with feat-ui: src/api.ts and 2 more`, seen from one of the two; `: 3 files` where a name would be cut."""
    other = one.right if one.left == key else one.left
    verb = {True: "conflicts with", False: "overlaps with"}[bool(one.conflicts)]
    files = one.conflicts or one.files
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    name = "the trunk" if other is None else safe(other.worktree)
    if other is not None and other.host != key.host:
        name = f"{safe(other.host)}:{name}"
    if not files:
        return Content.styled(f"⚡ {name} has the branch too", "$overlap").truncate(width, ellipsis=True)
    counted = f"⚡ {verb} {name}: {count(len(files), 'file')}"
    whole = columns.cell_width(f"⚡ {verb} {name}: {safe(files[0])}{more}") <= width
    if not whole and len(files) > 1 and columns.cell_width(counted) <= width:
        return Content.styled(counted, "$collision" if one.conflicts else "$overlap")
    head = f"⚡ {verb} {columns.clip_middle(name, max(10, width - len(verb) - len(more) - 16))}"
    path = path_tail(safe(files[0]), max(8, width - columns.cell_width(head) - len(more) - 2)) if files else ""
    style = "$collision" if one.conflicts else "$overlap"
    return Content.styled(f"{head}: {path}{more}", style).truncate(width, ellipsis=True)


def overlaps(snapshot: Snapshot, key: Key) -> dict[str, tuple[str, bool]]:
    """Path -> the other worktree that changed it too, and whether the two conflict in it."""
    shared: dict[str, tuple[str, bool]] = {}
    for one in snapshot.collisions:
        if one.right is not None and key in (one.left, one.right):
            other = safe((one.right if one.left == key else one.left).worktree)
            for path in one.files:
                hard = path in (one.conflicts or ())
                if hard or path not in shared:
                    shared[path] = (other, hard)
    return shared
