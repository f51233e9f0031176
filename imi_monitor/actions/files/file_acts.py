"""Stages, unstages and discards files or one hunk of a worktree: only what is still as it was shown, and undoable.

The index stays locked from the first look to the last write. All changes are planned on bytes first; then files move and the
index follows. A failure in between puts back what has moved.
"""

from __future__ import annotations

import os
from typing import Literal

from imi_monitor.actions.files import file_trash
from imi_monitor.actions.files.file_trash import ReplacedFile
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import file_content, git_diff
from imi_monitor.git.file_content import LINK, REPOSITORY, checked_out, line_changes, read_blob, store_blob, store_file
from imi_monitor.git.index_edit import Entry, IndexEdit
from imi_monitor.git.worktree_files import FileContent, WorktreeFiles
from imi_monitor.model import diff_identity, line_edit
from imi_monitor.model.advice import advised
from imi_monitor.model.diff import FileDiff
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.line_edit import LineChange, make_changes, split_lines
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_diff import Kind
    from imi_monitor.git.runner import Git

Verb = Literal["stage", "unstage", "discard", "discard-staged"]
"""`discard` goes back to what is staged, `discard-staged` to the last commit."""

KINDS: dict[Verb, tuple[Kind, ...]] = {
    "stage": ("unstaged", "all"),
    "unstage": ("staged", "all"),
    "discard": ("unstaged",),
    "discard-staged": ("all", "unstaged", "staged"),
}
"""The diffs that can have shown what is acted on."""

HOW = {"stage": "staged", "unstage": "unstaged", "discard": "discarded", "discard-staged": "discarded"}


@dataclass(frozen=True, slots=True)
class FileVersions:
    """One path in the last commit, in the index and in the worktree."""

    path: str
    head: Entry | None
    staged: Entry | None
    file: FileContent | None


@dataclass(frozen=True, slots=True)
class FileChange:
    """What an act makes of one path."""

    before: FileVersions
    staged: Entry | None
    file: FileContent | None

    @property
    def writes(self) -> bool:
        return self.file != self.before.file

    @property
    def stages(self) -> bool:
        return self.staged != self.before.staged


class FileAct:
    """One act on files of one worktree."""

    def __init__(self, context: Context, target: Target, git: Git, verb: Verb, agent: str) -> None:
        self._context = context
        self._target = target
        self._git = git
        self._verb = verb
        self._agent = agent
        self._paths: Sequence[str] = ()

    def run(self, paths: Sequence[str], *, hunk: str | None = None, shown: str | None = None) -> str | None:
        """Act on all paths or on none; returns the id of the trash entry that restores what was replaced, if anything was.

        `hunk` limits the act to one hunk of the only path; `shown` is the id of that file as it was shown.
        """
        self._paths = paths
        with IndexEdit(self._git) as index:
            files = WorktreeFiles(self._target.path)
            head, staged = index.head_entries(paths), index.entries(paths)
            versions = [
                FileVersions(path, head.get(path), staged.get(path), self._file(files, path, staged.get(path)))
                for path in paths
            ]
            if hunk is not None:
                changes = [self._change_of_hunk(versions[0], hunk)]
            else:
                changes = [self._change(one) for one in versions]
            if shown is not None:
                self._refuse_changed(versions[0], shown)
            changes = [one for one in changes if one.writes or one.stages]
            if not changes:
                raise Refused(
                    f"there is nothing to {self._verb.partition('-')[0]} in {safe(paths[0])}", code="unchanged"
                )
            return self._apply(index, changes)

    def _file(self, files: WorktreeFiles, path: str, staged: Entry | None) -> FileContent | None:
        if staged is not None and staged[0] == REPOSITORY:
            return None
        try:
            return files.read(path)
        except Refused:
            if self._verb == "unstage":  # the file stays what it is
                return None
            raise

    # -- planning ---------------------------------------------------------------------------------------------------

    def _change(self, one: FileVersions) -> FileChange:
        if self._verb == "stage":
            return FileChange(one, self._to_stage(one), one.file)
        if self._verb == "unstage":
            return FileChange(one, one.head, one.file)
        base = one.staged if self._verb == "discard" else one.head
        if REPOSITORY in (base and base[0], one.staged and one.staged[0]):
            raise Refused(f"{safe(one.path)} is a submodule: run git in it", code="submodule")
        file = None
        if base is not None:
            file = FileContent(base[0], checked_out(self._git, one.path, *base))
        return FileChange(one, one.staged if self._verb == "discard" else one.head, file)

    def _to_stage(self, one: FileVersions) -> Entry | None:
        if one.staged is not None and one.staged[0] == REPOSITORY:
            return self._commit_of_submodule(one)
        if one.file is None:
            return None
        return (one.file.mode, store_file(self._git, one.path, one.file.mode, one.file.data))

    def _commit_of_submodule(self, one: FileVersions) -> Entry:
        """The entry of a submodule at the commit that is checked out there."""
        line = next(
            (line for hunk in self._shown("unstaged", one).hunks for line in hunk.lines if line.sign == "+"), None
        )
        sha = line.text.removeprefix("Subproject commit ").partition("-")[0] if line is not None else ""
        if one.staged is None or len(sha) != len(one.staged[1]):
            raise Refused(f"{safe(one.path)} is a submodule without a new commit: run git in it", code="submodule")
        return (REPOSITORY, sha)

    def _shown(self, kind: Kind, one: FileVersions) -> FileDiff:
        """The file in this diff as it is now; Refused when it does not differ there."""
        found = git_diff.read_diff(self._git, kind, paths=self._paths)
        file = next((file for file in found.files if file.path == one.path), None)
        if file is None:
            raise Refused(f"{safe(one.path)} has no such change any more: look at it again", code="changed")
        return file

    def _refuse_changed(self, one: FileVersions, shown: str) -> None:
        for kind in KINDS[self._verb]:
            with suppress(Refused):
                if diff_identity.file_id(self._shown(kind, one)) == shown:
                    return
        raise _changed(one.path)

    # -- one hunk ---------------------------------------------------------------------------------------------------

    def _change_of_hunk(self, one: FileVersions, hunk: str) -> FileChange:
        kind, file, place = self._find_hunk(one, hunk)
        if file.state == "R":
            raise Refused(f"{safe(one.path)} was renamed: act on the whole file", code="renamed")
        whole = file.state in "AD?" or one.file is None or one.staged is None or one.head is None
        if whole and len(file.hunks) == 1 and not file.cut:
            return self._change(one)
        modes = (one.head and one.head[0], one.staged and one.staged[0], one.file and one.file.mode)
        if whole or LINK in modes or REPOSITORY in modes or file.binary:
            raise Refused(f"{safe(one.path)} has no lines to choose from: act on the whole file", code="no-lines")
        if file.cut and place == len(file.hunks) - 1:
            raise Refused(f"this hunk of {safe(one.path)} is shown only in part: act on the whole file", code="cut")
        return self._part(one, kind, file, line_edit.shown_changes(file.hunks[place]))

    def _find_hunk(self, one: FileVersions, hunk: str) -> tuple[Kind, FileDiff, int]:
        for kind in KINDS[self._verb]:
            with suppress(Refused):
                file = self._shown(kind, one)
                ids = diff_identity.hunk_ids(file)
                if hunk in ids:
                    return kind, file, ids.index(hunk)
        raise Refused(f"{safe(one.path)} has no hunk {safe(hunk)} any more: look at it again", code="changed")

    def _part(self, one: FileVersions, kind: Kind, file: FileDiff, shown: list[LineChange]) -> FileChange:
        assert one.head is not None and one.staged is not None and one.file is not None
        written = store_file(self._git, one.path, one.file.mode, one.file.data)
        old = one.staged if kind == "unstaged" else one.head
        new = one.staged[1] if kind == "staged" else written
        if file.content != f"{old[1]}..{new}":
            raise _changed(one.path)
        staged, data = one.staged[1], one.file
        if self._verb == "stage":
            staged = self._mixed(staged, written, lambda it: any(it.new.meets(here.new) for here in shown))
        if self._verb in ("unstage", "discard-staged"):
            if kind == "unstaged":
                why = f"this hunk of {safe(one.path)} is not staged"
                raise Refused(advised(why, "leave out --staged"), code="not-staged")
            staged = self._mixed(staged, one.head[1], lambda it: any(it.new.meets(here.old) for here in shown))
        if self._verb.startswith("discard") and kind != "staged":
            wanted = self._mixed(written, old[1], lambda it: any(it.old.meets(here.new) for here in shown))
            data = FileContent(one.file.mode, self._converted(one, written, wanted))
        return FileChange(one, (one.staged[0], staged), data)

    def _mixed(self, old: str, new: str, wanted: Callable[[LineChange], bool]) -> str:
        """The object that has these changes from one object to another, and otherwise is the first."""
        chosen = [change for change in line_changes(self._git, old, new) if wanted(change)]
        lines = split_lines(read_blob(self._git, old)), split_lines(read_blob(self._git, new))
        return store_blob(self._git, make_changes(*lines, chosen))

    def _converted(self, one: FileVersions, written: str, wanted: str) -> bytes:
        """The bytes for the worktree; Refused where git's conversion would also change other lines."""
        assert one.file is not None
        made = read_blob(self._git, wanted)
        if read_blob(self._git, written) == one.file.data:
            return made
        if checked_out(self._git, one.path, one.file.mode, written) != one.file.data:
            raise Refused(
                f"git converts the line ends of {safe(one.path)}, and they are mixed: act on the whole file",
                code="mixed",
            )
        return checked_out(self._git, one.path, one.file.mode, wanted)

    # -- acting -----------------------------------------------------------------------------------------------------

    def _apply(self, index: IndexEdit, changes: list[FileChange]) -> str | None:
        if not any(one.writes or self._loses_staged(one) for one in changes):
            index.set({one.before.path: one.staged for one in changes})
            index.commit()
            return None
        folder = file_trash.new_folder(self._target)
        replaced = [_replaced(number, one) for number, one in enumerate(changes)]
        try:
            for one, change in zip(replaced, changes, strict=True):
                self._keep_staged(os.path.join(folder, one.kept_staged), change)
            identity = file_trash.record(
                self._context, self._target, folder, replaced, how=HOW[self._verb], agent=self._agent
            )
        except BaseException:
            file_trash.discard(folder)
            raise
        files = WorktreeFiles(self._target.path, folder)
        done: list[tuple[ReplacedFile, FileChange]] = []
        try:
            for pair in zip(replaced, changes, strict=True):
                _write(files, *pair, done)
            index.set({one.before.path: one.staged for one in changes if one.stages})
            index.commit()
        except BaseException as error:
            if _take_back(files, done):
                file_trash.drop(self._context, identity, folder)
            if isinstance(error, OSError):
                raise ImiError(f"{safe(self._target.name)} cannot be written: {error.strerror}") from error
            raise
        return identity

    def _loses_staged(self, one: FileChange) -> bool:
        """True if lines would go that are only in the index: neither committed, nor in the file, nor staged afterwards."""
        before = one.before.staged
        if not one.stages or before is None or before[0] == REPOSITORY or before == one.before.head:
            return False
        others = [entry[1] for entry in (one.before.head, one.staged) if entry is not None and entry[0] != REPOSITORY]
        kept = {line for sha in others for line in split_lines(read_blob(self._git, sha))}
        file = one.before.file
        if file is not None and not one.writes:
            written = store_file(self._git, one.before.path, file.mode, file.data)
            kept |= set(split_lines(read_blob(self._git, written)))
        return not kept.issuperset(split_lines(read_blob(self._git, before[1])))

    def _keep_staged(self, path: str, one: FileChange) -> None:
        before = one.before.staged
        if one.stages and before is not None and before[0] != REPOSITORY:
            with open(path, "wb") as file:
                file.write(file_content.read_blob(self._git, before[1]))


def _replaced(number: int, one: FileChange) -> ReplacedFile:
    after = one.file.digest if one.file is not None else None
    existed = one.before.file is not None
    return ReplacedFile(number, one.before.path, one.writes, existed, after, one.before.staged, one.staged)


def _write(
    files: WorktreeFiles, replaced: ReplacedFile, one: FileChange, done: list[tuple[ReplacedFile, FileChange]]
) -> None:
    if not one.writes:
        return
    if one.before.file is not None:
        files.take(one.before.path, one.before.file, replaced.kept)
    done.append((replaced, one))
    if one.file is not None:
        files.put(one.before.path, one.file, replaced.kept if one.before.file is not None else None)


def _take_back(files: WorktreeFiles, done: list[tuple[ReplacedFile, FileChange]]) -> bool:
    """Put the files back that have moved; False if one could not be."""
    whole = True
    for replaced, one in reversed(done):
        try:
            now = files.read(one.before.path)
            if now is not None and now == one.file:
                files.take(one.before.path, now, f"{replaced.kept}.after")
            if one.before.file is not None:
                files.put_back(one.before.path, replaced.kept)
        except (ImiError, OSError):
            whole = False
    return whole


def _changed(path: str) -> Refused:
    return Refused(f"{safe(path)} changed since it was shown: look at it again", code="changed")
