"""What else than a removed worktree can lie in the trash: each kind restores and purges itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from imi_monitor.actions.context import Context
    from imi_monitor.store.trash import TrashEntry

    class TrashPart(Protocol):
        """An entry that is no worktree. `names` says what it holds, `sentence` also what was done; `paths`: of single files."""

        entry: TrashEntry

        @property
        def names(self) -> str: ...

        @property
        def sentence(self) -> str: ...

        @property
        def paths(self) -> Sequence[str]: ...

        @property
        def restorable(self) -> bool: ...

        def refuse_restore(self, context: Context) -> None:
            """Raise if it cannot be restored in the present state."""

        def restore(self, context: Context, *, agent: str, recorded: bool = True) -> list[str]:
            """Bring it back; returns warnings."""

        def purge(self, context: Context, agent: str, *, recorded: bool = True) -> str | None:
            """Delete it for good; returns the operation that deletes its files, None: they are deleted."""


def part_of(context: Context, entry: TrashEntry) -> TrashPart | None:
    """The part that the entry holds; None: a worktree."""
    if entry.of_files:
        from imi_monitor.actions.files import file_trash

        return file_trash.FileEntry(context, entry)
    if entry.of_folder:
        from imi_monitor.actions.removal import folder_trash

        return folder_trash.FolderEntry(entry)
    return None
