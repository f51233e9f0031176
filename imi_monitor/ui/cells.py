"""Model values as styled text: the one place that knows which glyph, word and colour stands for what.

One meaning per colour, and never colour alone: every state has a glyph and a word. All of it is `Content`, never markup,
and everything from outside has passed `safe`.
"""

from __future__ import annotations

from datetime import datetime

from textual.content import Content

from imi_monitor.model import columns, times
from imi_monitor.model.activity import dense
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import Collision, EventLine, FileState, GitState, Key, Snapshot, Worktree
from imi_monitor.model.text import count, safe

TYPE_GLYPHS = {"feat": "◆", "fix": "✚", "review": "◇", "trunk": "▪", "aiops": "⚙", "devops": "⚒"}
ASCII_GLYPHS = {"◆": "*", "✚": "+", "◇": "?", "▪": "#", "⚙": "a", "⚒": "d", "·": ".", "⚡": "!", "↑": "^", "↓": "v",
                "●": "s", "✎": "m", "✓": "ok", "⚠": "!", "•": "-", "−": "-", "→": "->", "▲": "^", "…": "~"}  # fmt: skip
CHANGE_GLYPHS = {"created": ("+", "$success"), "modified": ("~", "$accent"), "deleted": ("−", "$error"),
                 "renamed": ("→", "$accent")}  # fmt: skip
BARS = " ▁▂▃▄▅▆▇█"
MUTED = "$foreground 60%"  # not $text-muted: inside a Content its `auto` comes out brighter than plain text


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Exactly `width` cells."""
    return columns.pad(columns.clip(text, width), width, right=right)


def text(value: str, width: int, style: str = "", *, right: bool = False) -> Content:
    return Content.styled(fit(value, width, right=right), style) if style else Content(fit(value, width, right=right))


def glyph(worktree: Worktree) -> Content:
    if worktree.missing:
        return Content.styled("✗", "$error")
    return Content.styled(TYPE_GLYPHS.get(worktree.type, "·"), "$primary" if worktree.claim else MUTED)


def owner(worktree: Worktree, width: int) -> Content:
    """The owner; `human` is muted, a claim that is not in order says so."""
    claim = worktree.claim
    if claim is None:
        return text("human", width, MUTED)
    if claim.state == "held":
        return text(safe(claim.agent), width, "bold")
    return text(f"{safe(claim.agent)} {claim.state}", width, "$error" if claim.state == "dead" else "$warning")


def arrows(ahead: int | None, behind: int | None, width: int) -> Content:
    """`↑3 ↓1`; nothing when level, `?` when unknown."""
    if ahead is None or behind is None:
        return text("", width)
    parts = [f"↑{ahead}" if ahead else "", f"↓{behind}" if behind else ""]
    return text(" ".join(part for part in parts if part), width)


def counts(state: GitState | None, width: int) -> Content:
    """`●2 ✎1 +3`: staged, changed, new; conflicts first and loud."""
    if state is None:
        return text("?", width, MUTED)
    parts = [
        Content.styled(f"✗{state.conflicted} ", "$error bold") if state.conflicted else Content(""),
        Content.styled(f"●{state.staged} ", "$success") if state.staged else Content(""),
        Content.styled(f"✎{state.unstaged} ", "$warning") if state.unstaged else Content(""),
        Content.styled(f"+{state.untracked}", MUTED) if state.untracked else Content(""),
    ]
    joined = Content("").join(parts)
    return joined.truncate(width).pad_right(max(0, width - joined.truncate(width).cell_length))


def sparkline(worktree: Worktree, minutes: int, now: datetime) -> Content:
    """Changes a minute; nothing at all when nothing happened."""
    if not worktree.activity:
        return Content(" " * minutes)
    numbers = dense(worktree.activity, int(now.timestamp() // 60), minutes)
    most = max(numbers) or 1
    bars = "".join(BARS[0 if not n else 1 + (n * 7) // most] for n in numbers)
    return Content.styled(bars, "$accent")


def note(worktree: Worktree) -> Content:
    """What is out of the ordinary, in words."""
    state = worktree.git
    if worktree.missing:
        return Content.styled("missing", "$error")
    if worktree.failure is not None:
        return Content.styled(f"? {safe(worktree.failure.why, 60)}", "$error")
    if state is None:
        return Content.styled("asking git…", MUTED)
    if state.operation:
        return Content.styled(f"{state.operation} in progress", "$warning")
    if worktree.locked is not None:
        return Content.styled("locked", MUTED)
    if worktree.watched == "polling":
        return Content.styled("polling", MUTED)
    return Content("")


def change(line: Change, now: datetime, width: int, *, with_tree: bool = True) -> Content:
    """`14:02:09 feat-api ~ src/api.ts  claude-1`."""
    moment = times.parse(line.at)
    sign, style = CHANGE_GLYPHS[line.kind]
    clock = moment.astimezone().strftime("%H:%M:%S") if moment else "??:??:??"
    name = safe(line.path) + (f" and {line.count - 1} more" if line.count > 1 else "")
    by = safe(line.by) if line.by else ""
    tree = 14 if with_tree else 0
    room = max(8, width - 9 - tree - 3 - (len(by) + 1 if by else 0))
    parts = [text(clock, 9, MUTED)]
    if with_tree:
        parts.append(text(safe(line.worktree), tree))
    parts += [Content.styled(f" {sign} ", style), text(name, room)]
    if by:
        parts.append(Content.styled(f" {by}", MUTED))
    del now
    return Content("").join(parts)


def event(line: EventLine, width: int) -> Content:
    moment = times.parse(line.at)
    clock = moment.astimezone().strftime("%H:%M:%S") if moment else "??:??:??"
    who = safe(line.agent) if line.agent else ""
    room = max(8, width - 9 - 20)
    where = safe(line.worktree or line.repo or "") + (f" by {who}" if who else "")
    return Content("").join([text(clock, 9, MUTED), text(safe(line.type), 20), text(where, room)])


def file(entry: FileState, width: int, shared: str | None) -> Content:
    """`M  src/api.ts  +12 −3  ⚡ fix-bug`."""
    letters = f"{entry.index}{entry.tree}".replace(".", " ")
    style = "$error" if "U" in letters else "$success" if entry.tree == "." else "$warning"
    lines = "" if entry.added is None else f"+{entry.added} −{entry.removed}"
    tail = f" ⚡ {shared}" if shared else ""
    room = max(8, width - 4 - 10 - len(tail))
    parts = [text(letters, 3, style), Content(" "), text(safe(entry.path), room), text(lines, 10, MUTED, right=True)]
    if tail:
        parts.append(Content.styled(tail, "$error"))
    return Content("").join(parts)


def collision(one: Collision) -> Content:
    other = "the trunk" if one.right is None else safe(one.right.worktree)
    verb = {True: "conflicts with", False: "overlaps with"}[bool(one.conflicts)]
    files = one.conflicts or one.files
    style = "$error" if one.conflicts else "$warning"
    return Content.styled(f"⚡ {safe(one.left.worktree)} {verb} {other}: {', '.join(map(safe, files[:3]))}", style)


def summary(snapshot: Snapshot, width: int) -> Content:
    """The header's counts."""
    claims = [tree.claim for tree in snapshot.worktrees if tree.claim]
    dead = sum(claim.state == "dead" for claim in claims)
    hard = sum(bool(one.conflicts) for one in snapshot.collisions)
    repos = snapshot.repositories
    where = safe(repos[0]) if len(repos) == 1 else count(len(repos), "repository", "repositories")
    parts = [
        Content.styled(" imi ", "bold $primary"),
        Content(f" {where} · {count(len(snapshot.worktrees), 'worktree')}"),
    ]
    if claims:
        parts.append(Content(f" · {count(len(claims), 'claim')}"))
    if dead:
        parts.append(Content.styled(f" · {dead} dead", "$error"))
    if snapshot.waiting:
        parts.append(Content.styled(f" · {len(snapshot.waiting)} in line", "$warning"))
    if hard:
        parts.append(Content.styled(f" · {count(hard, 'collision')}", "$error bold"))
    if not snapshot.complete:
        parts.append(Content.styled(" · asking git…", MUTED))
    return Content("").join(parts).truncate(width)


def collides(snapshot: Snapshot, key: Key) -> int:
    """With how many others the worktree really conflicts."""
    return sum(key in (one.left, one.right) and bool(one.conflicts) for one in snapshot.collisions)
