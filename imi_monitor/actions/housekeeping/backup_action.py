"""`imi backup` and `imi backup restore`: the registry, the notes of trash entries and the configuration in one file."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from imi_monitor import __version__, host, paths, presence
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.hooks import settings_file
from imi_monitor.actions.housekeeping import backup_file
from imi_monitor.actions.removal import restore, trash_folder
from imi_monitor.git import layout
from imi_monitor.model import amounts, times
from imi_monitor.model.errors import ImiError, Refused, RegistryError, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, registry_copy, registry_file, repositories, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_NOTES = "notes/"  # the folder of notes in a backup
_UNUSABLE = ("registry-corrupt", "registry-lost")  # nothing can be read from it
_SIDE_FILES = ("", "-wal", "-shm")


class BackupAction(Action):
    words = ("backup",)
    group = "Setup"
    label = "Back up"
    examples = (("imi backup", "write a copy of the registry beside it"),)
    help = "save the registry with its history, the trash's notes and the configuration in one file"
    more = """
    Without FILE: a new file in imi's state folder (`imi paths`). Others may write meanwhile; the copy is one consistent
    state. Worktrees, branches and the files in the trash are not part of it. The file is readable by you only.
    """
    arguments = (Argument("file", "the file to write, which must not exist", optional=True),)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        target = os.path.join(context.cwd, request.text("file") or _default_file())
        if os.path.lexists(target):
            raise Refused(f"{safe(target)} exists: name another file", code="exists")
        small = dict(_notes(context))
        config = settings_file.read(paths.config_file())
        if config is not None:
            small[backup_file.CONFIG] = config
        manifest = {
            "format": backup_file.FORMAT,
            "made_at": times.stamp(),
            "made_by": __version__,
            "host": host.hostname(),
            "registry": context.database,
        }
        with _private_folder() as folder:
            copy = os.path.join(folder, backup_file.REGISTRY)
            context.progress("copying the registry")
            registry_copy.copy_registry(context.database, copy, context.cancelled)
            backup_file.write(target, manifest, copy, small)
        size = os.stat(target).st_size
        sentence = f"backed up the registry in {safe(target, 4096)} ({amounts.size(size)})"
        notes = sum(name.startswith(_NOTES) for name in small)
        data: dict[str, object] = {
            "message": sentence, "path": target, "bytes": size, "trash_notes": notes, "config": config is not None
        }  # fmt: skip
        return Outcome([sentence], data)


class RestoreBackupAction(Action):
    words = ("backup restore",)
    group = "Setup"
    label = "Restore a backup"
    help = "restore the registry, the trash's notes and the configuration from a backup"
    more = """
    What is replaced is kept beside it, and the names of these files are printed. Worktrees that were removed since the
    backup stay in the trash list, trust is not restored, and no earlier claim is valid any more.
    """
    arguments = (Argument("file", "a file that `imi backup` made"),)
    options = (
        Option("force", "restore even if worktrees are claimed or the registry cannot be read", goes_with=("reason",)),
        Option("reason", "why, for the event log", value="TEXT"),
    )
    dangerous = True
    recovers = False  # it must work with a broken registry

    def refuse(self, context: Context, request: Request) -> None:
        if request.flag("force") and not (request.text("reason") or "").strip():
            raise UsageError("--force needs --reason TEXT: it goes into the event log", code="no-reason")

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        source = os.path.join(context.cwd, request.text("file") or "")
        reason = request.text("reason") if request.flag("force") else None
        kept: list[str] = []
        with _private_folder(os.path.dirname(os.path.realpath(context.database))) as folder:
            copy = os.path.join(folder, backup_file.REGISTRY)
            manifest, small = backup_file.read(source, copy)
            registry_copy.check_copy(copy)
            warnings = _restore_registry(context, copy, reason, kept)
        notes = _restore_notes(context, small)
        _restore_config(small.get(backup_file.CONFIG), kept)
        made_at = str(manifest.get("made_at"))
        sentence = f"restored the registry of {safe(made_at, 40)} from {safe(source, 4096)}"
        lines = [sentence, *(f"kept: {safe(path, 4096)}" for path in kept)]
        if notes:
            lines.append(f"restored {count(notes, 'note')} of the trash")
        data: dict[str, object] = {"message": sentence, "made_at": made_at, "kept_as": kept, "trash_notes": notes}
        return Outcome(lines, data, warnings=warnings)


ACTIONS = (BackupAction(), RestoreBackupAction())


def _default_file() -> str:
    folder = os.path.join(paths.state_dir(), "backups")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, f"imi-{_moment()}.tar.gz")


def _moment() -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(times.clock() / 1e9)) + f"-{os.getpid()}"


@contextmanager
def _private_folder(parent: str | None = None) -> Iterator[str]:
    """A folder of this process, deleted at the end; those of processes that were killed are deleted first."""
    if parent is not None:
        os.makedirs(parent, mode=0o700, exist_ok=True)
    backup_file.discard_abandoned(parent or tempfile.gettempdir(), backup_file.is_working_folder)
    while True:
        folder = tempfile.mkdtemp(prefix=backup_file.FOLDER_PREFIX, dir=parent)
        lock = backup_file.lock(folder)
        if lock is not None:  # None: another backup deleted the folder as abandoned, before it was locked
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _note_paths(context: Context) -> Iterator[tuple[str, str]]:
    """The name in a backup and the path of each trash entry's note."""
    for entry in trash.list_kept(context.connection):
        try:
            folder = restore.trashed_worktree(context, entry).trash_dir
        except ImiError:
            continue  # written by another version of imi
        if os.path.isdir(folder):
            yield f"{_NOTES}{entry.id}.json", os.path.join(folder, trash_folder.NOTE)


def _notes(context: Context) -> Iterator[tuple[str, bytes]]:
    for name, path in _note_paths(context):
        data = settings_file.read(path)
        if data is not None:
            yield name, data


def _restore_notes(context: Context, small: dict[str, bytes]) -> int:
    """Write the notes that are missing from entries of the trash; return their number."""
    done = 0
    for name, path in _note_paths(context):
        if name in small and not os.path.lexists(path):
            settings_file.write(path, small[name])
            done += 1
    return done


def _restore_registry(context: Context, copy: str, reason: str | None, kept: list[str]) -> list[str]:
    """Replace the registry's content, or an unusable file; `kept` gets the files with what was there. Returns warnings."""
    real = os.path.realpath(context.database)
    aside = f"{real}.replaced-{_moment()}"
    try:
        # a connection of its own: the context's keeps an error that this replacement repairs
        connection = db.connect(context.database) if os.path.lexists(real) else None
    except RegistryError as error:
        if error.code not in _UNUSABLE:
            raise
        if reason is None:
            raise Refused(
                f"{error.sentence}; what it holds is unknown: use --force --reason TEXT to restore over it",
                code=error.code,
            ) from error
        connection = None
    if connection is None:
        kept += _replace_file(real, aside, copy)
        return _update_presence_locks(context, [claim.key for claim in claims.list_held(context.connection)])
    with closing(connection):
        changed = registry_copy.restore_copy(connection, real, copy, aside, reason)
    kept.append(aside)
    return _update_presence_locks(context, changed)


def _replace_file(real: str, aside: str, copy: str) -> list[str]:
    """Move the file and its log aside, and the copy into its place. A log that stayed would be applied to the copy."""
    moved = []
    for ending in _SIDE_FILES:
        if os.path.lexists(real + ending):
            os.rename(real + ending, aside + ending)
            moved.append(aside + ending)
    try:
        os.link(copy, real)  # unlike a rename it never replaces a file
    except FileExistsError:
        raise Refused(
            f"{safe(real)} was made by another program at the same moment: try again", code="exists"
        ) from None
    registry_file.lay_ballast(real)
    return moved


def _update_presence_locks(context: Context, changed: list[tuple[str, str]]) -> list[str]:
    """Make the presence locks equal to the restored claims; returns warnings."""
    folders = repositories.list_common_dirs(context.connection)
    warnings = []
    for repo, name in changed:
        folder = folders.get(repo)
        if folder is not None and os.path.isdir(folder):
            lock = presence.presence_lock_path(layout.repository_at(folder), name)
            warnings.append(presence.update_presence_lock(context.connection, lock, repo, name, context.database))
    return [warning for warning in warnings if warning is not None]


def _restore_config(data: bytes | None, kept: list[str]) -> None:
    path = paths.config_file()
    present = settings_file.read(path)
    if data is None or data == present:
        return
    if present is not None:
        aside = f"{path}.replaced-{_moment()}"
        settings_file.write(aside, present)
        kept.append(aside)
    settings_file.make_folders(path)
    settings_file.write(path, data, expected=present)
