"""Panel 2: the git state of the selected worktree."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from textual.content import Content

from imi_monitor.model import event_text, times
from imi_monitor.model.event_text import EndedCommand
from imi_monitor.model.home_states import STATE_WORDS
from imi_monitor.model.pull_request_list import described
from imi_monitor.model.run import Run, workspace_name
from imi_monitor.model.snapshot import HERE, FileState, ForgeState, GitState, HomeState, Key, Snapshot, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, run_lines
from imi_monitor.ui.panels.panel import FRAME, Identity, Panel
from imi_monitor.ui.widgets.row_list import ListRow

_HEAD_LINES = 4  # beside the files, one for an operation, the last command or a collision; others need their own
_RUN_LINES = 3  # more of them, of what a run is, may do and asks
_MOST_FILES, _MOST_FURTHER = 12, 3  # files, and further collisions, that the panel is made for


_NO_FILES = ListRow("no files", (Content.styled("no file in its run folder yet", cells.MUTED),))


class GitPanel(Panel):
    number = 2
    column = 1
    label = "Git"
    empty_message = "select a worktree"

    _shown_key: Key | None = None
    _head_rows_made: tuple[object, tuple[ListRow, ...]] = (None, ())

    def lines_needed(self, snapshot: Snapshot, width: int) -> int:
        hits = Counter(key for one in snapshot.collisions for key in (one.left, one.right))
        states = ((tree.git, min(_MOST_FURTHER, max(0, hits[tree.key] - 1))) for tree in snapshot.worktrees)
        files = max((git.uncommitted + further for git, further in states if git is not None), default=0)
        of_runs = max((_RUN_LINES + len(one.files) for one in (*snapshot.runs, *snapshot.watched)), default=0)
        further = max(map(_further_head_lines, snapshot.worktrees), default=0)
        return FRAME + _HEAD_LINES + further + max(1, min(max(files, of_runs), _MOST_FILES))

    def subject(self) -> str:
        if self._shown_key is None:
            return ""
        key = self._shown_key
        return safe(workspace_name(key.repo, key.worktree), 40)

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        tree = snapshot.worktree(selected) if selected else None
        home = _other_home(snapshot, tree) if tree else None
        shown_home = home and (home.label, home.user, home.state, home.seen)
        forges = (Identity(snapshot.forges), Identity(snapshot.runs))
        return (selected, Identity(tree), snapshot.collisions, forges, _ended(snapshot, tree), shown_home)

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        tree = snapshot.worktree(selected) if selected else None
        self._shown_key = tree.key if tree else None
        if tree is None:
            return ()
        if tree.run is not None:
            head = (Content.styled(_path(tree.path, self.room), cells.MUTED), *run_lines.head(tree.run, self.room))
            rows = [ListRow(f"head {index}", (line,)) for index, line in enumerate(head)]
            return rows + (self._run_files(tree.run, now) or [_NO_FILES])
        home = _other_home(snapshot, tree)
        where = "" if home is None else _home_text(home, self.age(home.seen, now) if home.seen else "")
        rows = self._head_rows(tree, _ended(snapshot, tree), now, where)
        rows += self._pull_request(tree, snapshot.forges, now)
        if tree.git is not None and not tree.missing:
            rows += self._files(snapshot, tree, tree.git)
        rows += [
            ListRow(f"collision {index}", (cells.collision_line(one, tree.key, self.room),))
            for index, one in enumerate(snapshot.collisions)
            if tree.key in (one.left, one.right)
        ]
        for one in snapshot.runs:
            if one.key == tree.key and one.is_open and one.wall:
                rows.append(ListRow(f"wall {one.id}", (run_lines.walled(one, self.room),)))
            if one.key == tree.key and one.resumable:
                age = self.age(one.ended_at, now)
                rows.append(ListRow(f"crashed {one.id}", (run_lines.crashed(one, age, self.room),)))
            if one.key == tree.key and one.files:
                rows += [ListRow(f"run {one.id}", (run_lines.files_title(one, self.room),)), *self._run_files(one, now)]
        return rows

    def _run_files(self, one: Run, now: datetime) -> list[ListRow]:
        rows = []
        for file in one.files:
            inputs = (file, self.age(file.changed_at, now), self.room)
            rows.append(self.row(f"run {one.id} {file.path}", inputs, partial(run_lines.file_lines, *inputs)))
        return rows

    def _head_rows(self, tree: Worktree, ended: EndedCommand | None, now: datetime, home: str) -> list[ListRow]:
        """The rows above the files, made again only when the worktree or an age changed; `home`: the other home it is in."""
        commit = tree.git.last_commit if tree.git else None
        ages = [self.age(one.at, now) for one in (commit, ended, tree.intent) if one is not None]
        signature = (Identity(tree), self.room, ended, tuple(ages), home)
        if signature != self._head_rows_made[0]:
            lines = self._head(tree, now, home)
            lines += [_command_line(ended, now).truncate(self.room, ellipsis=True)] if ended is not None else []
            self._head_rows_made = (
                signature,
                tuple(ListRow(f"head {index}", (line,)) for index, line in enumerate(lines)),
            )
        return list(self._head_rows_made[1])

    def _head(self, tree: Worktree, now: datetime, home: str) -> list[Content]:
        lines = cells.wrapped(Content.styled(home or _path(tree.path, self.room), cells.MUTED), self.room, most=2)
        if tree.intent is not None:
            said = (cells.intent(tree.intent, now), cells.reached(tree.intent, now))
            lines += [line.truncate(self.room, ellipsis=True) for line in said if line.plain]
        state = None if tree.missing else tree.git  # an earlier git state no longer holds
        if tree.failure is not None:
            lines.append(cells.failure(tree.failure.why))
        if state is None:
            lines.append(cells.problem(tree))
            return lines
        forms = [_branch(state), _branch(state, short=True), _branch(state, short=True, remote=False)]
        lines.append(next((form for form in forms if form.cell_length <= self.room), forms[-1]))
        if state.operation:
            lines.append(Content.styled(f"⚠ {safe(state.operation)} in progress", "$warning bold"))
        if state.last_commit is not None:
            commit = state.last_commit
            sha = Content.styled(
                f"{safe(commit.sha[:8])} " if commit.sha else "", "$secondary"
            )  # another home names none
            by = f" {safe(commit.by or commit.author, 24)}".rstrip()
            tail = Content.styled(f" {by} {times.age_of(commit.at, now)}", cells.MUTED)
            room = max(10, self.room - sha.cell_length - tail.cell_length)
            lines.append(Content("").join([sha, cells.fixed(safe(commit.subject), room), tail]))
        if state.stashes:
            lines.append(Content.styled(count(state.stashes, "stash entry", "stash entries"), cells.MUTED))
        return [line.truncate(self.room, ellipsis=True) for line in lines]

    def _pull_request(self, tree: Worktree, forges: Sequence[ForgeState], now: datetime) -> list[ListRow]:
        """`#12 CI ✓ approved  Add login, by alice  gh 40s`: what the forge listed and when, and why not since."""
        pull = tree.pull
        if pull is None:
            return []
        forge = next((one for one in forges if one.repo == tree.key.repo), None)
        age = f"  {forge.via} {self.age(forge.read_at, now)}" if forge is not None and forge.read_at else ""
        head = cells.pull_request(pull).append(Content("  "))
        room = max(8, self.room - head.cell_length - len(age))
        lines = [Content("").join([head, cells.fixed(described(pull), room), Content.styled(age, cells.MUTED)])]
        if forge is not None and forge.problem:
            since = self.age(forge.problem_since, now)
            lines.append(Content.styled(f"? {safe(forge.problem)} (for {since})", "$warning"))
        return [
            ListRow(f"pull request {index}", (line.truncate(self.room, ellipsis=True),))
            for index, line in enumerate(lines)
        ]

    def _files(self, snapshot: Snapshot, tree: Worktree, state: GitState) -> list[ListRow]:
        shared = cells.overlaps(snapshot, tree.key)
        if not state.files:
            return [ListRow("clean", (_clean(tree),))]
        room, beside = self.room, cells.overlap_width(shared, state.files)
        counts = 1 + max(len(cells.line_counts(entry)) for entry in state.files)
        rows = []
        unnamed = sum(not entry.path for entry in state.files)  # another home publishes only the first names
        for entry in state.files:
            if not entry.path:
                continue
            inputs = (entry, room, shared.get(entry.path), counts, beside)
            rows.append(self.row(f"file {entry.path}", inputs, partial(_file_lines, *inputs)))
        if unnamed:
            more = "more " if rows else ""
            rows.append(ListRow("unnamed", (Content.styled(f"{count(unnamed, f'{more}file')} changed", cells.MUTED),)))
        return rows


def _file_lines(
    entry: FileState, room: int, overlap: tuple[str, bool] | None, counts: int, beside: int
) -> tuple[Content, ...]:
    return (cells.file_line(entry, room, overlap, counts=counts, beside=beside),)


def _further_head_lines(tree: Worktree) -> int:
    """The lines of its pull request, its intent and what was reached of that."""
    intent = tree.intent
    return (tree.pull is not None) + (0 if intent is None else 1 if intent.reached is None else 2)


def _ended(snapshot: Snapshot, tree: Worktree | None) -> EndedCommand | None:
    if tree is None or tree.key.host != snapshot.host:
        return None  # the events are this home's
    return event_text.last_command(snapshot.events, tree.key.repo, tree.key.worktree)


def _command_line(ended: EndedCommand, now: datetime) -> Content:
    """`✗ make test 2 after 1.2 s  5m`."""
    age = Content.styled(f"  {times.age_of(ended.at, now)}", cells.MUTED)
    return Content.styled(ended.words, "$success" if ended.succeeded else "$error").append(age)


def _clean(tree: Worktree) -> Content:
    """A worktree that cannot be read now is not reported as clean."""
    if tree.failure is not None:
        return Content.styled("nothing was uncommitted when it was last read", cells.MUTED)
    if tree.git is not None and tree.git.head is None:
        return Content.styled("no commit yet: new worktrees need a first one (git commit)", "$warning")
    return Content.styled("✓ nothing uncommitted", "$success")


def _branch(state: GitState, *, short: bool = False, remote: bool = True) -> Content:
    """`feat/api → origin/feat/api ↑3   main ↑3 ↓1`: each distance stands behind the branch it refers to.

    `short` shows only the remote of an upstream of the same name, and the trunk without its remote.
    """
    parts = [Content.styled(safe(state.branch or "(detached)"), "bold")]
    if state.upstream and remote:
        level = Content.styled("level", cells.MUTED)
        name = state.upstream.removesuffix(f"/{state.branch}") if short else state.upstream
        parts.append(Content(f" → {safe(name)} ").append(_distance(state.ahead, state.behind) or level))
    if state.trunk and state.trunk not in (state.branch, state.upstream if remote else state.branch):
        distance = _distance(state.trunk_ahead, state.trunk_behind)
        name = f"  {safe(state.trunk.rpartition('/')[2])} " if short else f"   {safe(state.trunk)} "
        parts.append(Content.styled(name, cells.MUTED))
        parts.append(distance or Content.styled("level", cells.MUTED))
    return Content("").join(parts)


def _distance(ahead: int | None, behind: int | None) -> Content | None:
    if ahead is None or behind is None:
        return Content.styled("?", cells.MUTED)
    return cells.arrows(ahead, behind, 9).rstrip() if ahead or behind else None


def _other_home(snapshot: Snapshot, tree: Worktree) -> HomeState | None:
    return next((home for home in snapshot.homes if home.label == tree.key.host and not home.own), None)


def _home_text(home: HomeState, silent: str) -> str:
    """Return the line about the home: its label, its user, and since when its data may be outdated."""
    user = f", {safe(home.user)}" if home.user else ""
    if home.state == HERE:
        return f"on {safe(home.label)}{user}"
    silence = f" for {silent}" if silent else ""
    return f"on {safe(home.label)}{user}: {STATE_WORDS.get(home.state, home.state)}{silence}, may be outdated"


def _path(path: str, room: int) -> str:
    """The path with `~` for the home folder; a long one loses its beginning."""
    home = os.path.expanduser("~")
    shown = safe(f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path, 4096)
    return shown if len(shown) <= room else f"…{shown[-(room - 1) :]}"


PANEL = GitPanel
