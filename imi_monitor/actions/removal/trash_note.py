"""The note of a trash entry: a private JSON file beside the removed folder, with all that a restore needs.

The registry decides; the note is for the day on which the registry is set aside, replaced or unreadable. It is on disk
before the worktree moves and is completed after the removal is recorded. Agents can write into the trash, so a note that
is read back is only a claim: `note_check` compares it with the repository.
"""

from __future__ import annotations

import os
import stat

from imi_monitor import host
from imi_monitor.actions.removal.trash_folder import NOTE, TEMPORARY, TrashedWorktree
from imi_monitor.fast import json_writer
from imi_monitor.fast.frozen_dataclass import asdict, dataclass, replace
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_admin_dir
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.store import claims, registry_identity, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.store.claims import Claim
    from imi_monitor.store.trash import TrashEntry

FORMAT = 1
MOVING, REMOVED = "moving", "removed"
_LARGEST = 1 << 20
_MOST_TEXT = 1 << 16
_MOST_EPOCH = 1 << 40


class NoteError(Exception):
    """Why a note cannot be used: the end of a sentence that starts with "its note"."""


@dataclass(frozen=True, slots=True)
class NotedClaim:
    """The claim that the removal ended."""

    agent_id: str
    epoch: int
    task_id: str | None
    claimed_at: str | None


@dataclass(frozen=True, slots=True)
class NotedRow:
    """What the registry had about the worktree beside git."""

    branch: str
    kind: str
    base_branch: str | None
    pr_number: int | None


@dataclass(frozen=True, slots=True)
class NotedProcess:
    """The process that moves the worktree."""

    host: str
    boot: str
    pid: int
    pid_started: str | None

    @property
    def alive(self) -> bool:
        return host.is_alive(self.host, self.boot, self.pid, self.pid_started) is True


@dataclass(frozen=True, slots=True)
class TrashNote:
    """`state` is `moving` until the removal is recorded, then `removed`. `epoch` is the worktree's last one."""

    trashed: TrashedWorktree
    state: str
    host: str
    process: NotedProcess | None
    registry_id: str | None
    registry_path: str
    began_at: str
    removed_at: str | None
    epoch: int
    claim: NotedClaim | None
    row: NotedRow | None


def new_note(context: Context, trashed: TrashedWorktree, before: Claim, epoch: int) -> TrashNote:
    """The note of a removal that begins; `before` is the claim it ends, `epoch` the one it reserved."""
    me = host.identify_process(os.getpid())
    owner = before.agent_id
    return TrashNote(
        trashed=trashed,
        state=MOVING,
        host=host.hostname(),
        process=NotedProcess(me.host, me.boot, me.pid or 0, me.started),
        registry_id=registry_identity.registry_id(context.connection),
        registry_path=os.path.realpath(context.database),
        began_at=times.stamp(),
        removed_at=None,
        epoch=epoch,
        claim=None if owner is None else NotedClaim(owner, before.epoch, before.task_id, before.claimed_at),
        row=_row(context, trashed),
    )


def write_missing_notes(context: Context, entries: list[TrashEntry]) -> None:
    """Write the notes of entries that an imi without notes made, or whose note was deleted. A failure is ignored."""
    from imi_monitor.actions.removal import restore

    for entry in entries:
        with suppress(OSError, ImiError):
            trashed = restore.trashed_worktree(context, entry)
            if trashed.in_trash and not os.path.lexists(os.path.join(trashed.trash_dir, NOTE)):
                write_note(_note_of_entry(context, entry, trashed))


def _note_of_entry(context: Context, entry: TrashEntry, trashed: TrashedWorktree) -> TrashNote:
    epoch = claims.current(context.connection, trashed.repo_name, trashed.name).epoch
    return TrashNote(
        trashed=trashed,
        state=REMOVED,
        host=entry.host,
        process=None,
        registry_id=registry_identity.registry_id(context.connection),
        registry_path=os.path.realpath(context.database),
        began_at=entry.removed_at,
        removed_at=entry.removed_at,
        epoch=epoch,
        claim=None,
        row=_row(context, trashed),
    )


def write_note(note: TrashNote) -> None:
    """Write the note into the entry's folder; it is on disk afterwards, whole or not at all."""
    folder = note.trashed.trash_dir
    path = os.path.join(folder, NOTE)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path + TEMPORARY, flags, 0o600)
    try:
        content = json_writer.dumps(_json(note), 1).encode("ascii") + b"\n"
        while content:
            content = content[os.write(handle, content) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(path + TEMPORARY, path)
    git_admin_dir.fsync_folder(folder)


def complete_note(note: TrashNote) -> None:
    """Add the outcome. A failure is ignored: the removal is recorded, and where the folder is shows the rest."""
    with suppress(OSError):
        write_note(replace(note, state=REMOVED, process=None, removed_at=times.stamp()))


def read_note(folder: str) -> TrashNote:
    """The note in this folder, with every type checked; NoteError if there is none or it is damaged."""
    import json

    content = _read(os.path.join(folder, NOTE))
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise NoteError("is damaged (no JSON)") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise NoteError("is damaged, or was written by another version of imi")
    return _parse(data)


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NoteError("is missing") from None
    except OSError as error:
        raise NoteError(f"cannot be read ({error.strerror})") from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_size > _LARGEST:
            raise NoteError("is not a small file of yours")
        return os.read(handle, _LARGEST)
    except OSError as error:
        raise NoteError(f"cannot be read ({error.strerror})") from None
    finally:
        os.close(handle)


def _row(context: Context, trashed: TrashedWorktree) -> NotedRow | None:
    row = worktrees.get(context.connection, trashed.repo_name, trashed.name)
    if row is None or os.path.realpath(row.path) != trashed.path:
        return None
    return NotedRow(row.branch, row.type, row.base_branch, row.pr_number)


def _json(note: TrashNote) -> dict[str, object]:
    return {
        "format": FORMAT,
        "state": note.state,
        "host": note.host,
        "process": None if note.process is None else asdict(note.process),
        "registry": {"id": note.registry_id, "path": note.registry_path},
        "began_at": note.began_at,
        "removed_at": note.removed_at,
        "epoch": note.epoch,
        "claim": None if note.claim is None else asdict(note.claim),
        "row": None if note.row is None else asdict(note.row),
        "worktree": note.trashed.data(),
    }


def _parse(data: dict[str, object]) -> TrashNote:
    registry = _part(data, "registry") or {}
    return TrashNote(
        trashed=_trashed(_part(data, "worktree") or {}),
        state=_text(data, "state"),
        host=_text(data, "host"),
        process=_process(_part(data, "process")),
        registry_id=_optional(registry, "id"),
        registry_path=_text(registry, "path"),
        began_at=_text(data, "began_at"),
        removed_at=_optional(data, "removed_at"),
        epoch=_number(data, "epoch", _MOST_EPOCH),
        claim=_claim(_part(data, "claim")),
        row=_noted_row(_part(data, "row")),
    )


def _process(data: dict[str, object] | None) -> NotedProcess | None:
    if data is None:
        return None
    pid = _number(data, "pid", 1 << 31)
    return NotedProcess(_text(data, "host"), _text(data, "boot"), pid, _optional(data, "pid_started"))


def _claim(data: dict[str, object] | None) -> NotedClaim | None:
    if data is None:
        return None
    epoch = _number(data, "epoch", _MOST_EPOCH)
    return NotedClaim(_text(data, "agent_id"), epoch, _optional(data, "task_id"), _optional(data, "claimed_at"))


def _noted_row(data: dict[str, object] | None) -> NotedRow | None:
    if data is None:
        return None
    number = None if data.get("pr_number") is None else _number(data, "pr_number", 1 << 31)
    return NotedRow(_text(data, "branch"), _text(data, "kind"), _optional(data, "base_branch"), number)


_OPTIONAL = ("locked", "branch", "sha")


def _trashed(data: dict[str, object]) -> TrashedWorktree:
    uptime, overridden = data.get("uptime"), data.get("overridden")
    if not isinstance(uptime, (int, float)) or not isinstance(overridden, list):
        raise NoteError("is damaged (uptime, overridden)")
    texts = [name for name in TrashedWorktree.__match_args__ if name not in ("inode", "uptime", "overridden")]
    checked: dict[str, object] = {
        name: _optional(data, name) if name in _OPTIONAL else _text(data, name) for name in texts
    }
    checked |= {
        "inode": _number(data, "inode", 1 << 64),
        "uptime": float(uptime),
        "overridden": [str(one) for one in overridden],
    }
    return TrashedWorktree.of(checked)


def _part(data: dict[str, object], name: str) -> dict[str, object] | None:
    found = data.get(name)
    if found is not None and not isinstance(found, dict):
        raise NoteError(f"is damaged ({name})")
    return found


def _text(data: dict[str, object], name: str) -> str:
    found = data.get(name)
    if not isinstance(found, str) or "\0" in found or len(found) > _MOST_TEXT or not _encodable(found):
        raise NoteError(f"is damaged ({name})")
    return found


def _encodable(text: str) -> bool:
    """True if the operating system accepts the text; JSON can hold halves of characters."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _optional(data: dict[str, object], name: str) -> str | None:
    return None if data.get(name) is None else _text(data, name)


def _number(data: dict[str, object], name: str, limit: int) -> int:
    found = data.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < limit:
        raise NoteError(f"is damaged ({name})")
    return found
