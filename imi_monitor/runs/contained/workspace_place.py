"""Where contained workspaces are, and that no other user has put a folder there."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import contextmanager

from imi_monitor.model import contained_names
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DATA_VARIABLE = "DENKER_MEMORY_DATA_PATH"
_FOLDER = "denker_workspace"
_LOCK = ".imi-lock"
TRASH = ".imi-trash"


def root(configured: str = "") -> str:
    """The folder of all workspaces: as configured, beside Denker's data, else in /tmp or the system's temporary folder."""
    if configured:
        return os.path.realpath(os.path.expanduser(configured))
    data = os.environ.get(_DATA_VARIABLE, "")
    if os.path.isabs(data):
        return os.path.join(os.path.dirname(os.path.realpath(data)), "workspace")
    base = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
    return os.path.join(os.path.realpath(base), _FOLDER)


def path_of(name: str | None, configured: str = "") -> str:
    """The folder of a workspace, which need not exist."""
    return os.path.join(root(configured), contained_names.check_workspace(name or contained_names.DEFAULT))


def make(path: str) -> None:
    """Make the folder, readable by this user alone; Refused if another user owns it or it is a link."""
    for folder in (os.path.dirname(path), path):
        try:
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            os.mkdir(folder, 0o700)
        except FileExistsError:
            check(folder)
        except OSError as error:
            raise Refused(f"{safe(folder)} cannot be made: {error.strerror}", code="unwritable") from error


def check(folder: str) -> None:
    """Refused for a folder of another user, as can be in /tmp."""
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        what = "is no folder" if not stat.S_ISDIR(info.st_mode) else "belongs to another user"
        way = f"{os.path.dirname(folder)}/denker_workspace-{os.geteuid()}"
        raise Refused(f'{safe(folder)} {what}: set contained.path, for instance to "{safe(way)}"', code="foreign")
    if info.st_mode & 0o077:
        os.chmod(folder, 0o700)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of the folder that holds the workspaces: a start and a clean-up never meet."""
    folder = os.path.dirname(path)
    handle = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
