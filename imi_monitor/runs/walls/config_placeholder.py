"""The placeholder of a worktree's own git configuration, `config.worktree`, while a walled agent works there.

git obeys that file as soon as it exists, and no mount protects a name that does not. So a file with a comment alone stands
there, read-only inside of the wall, and is deleted after the last walled run. It is known by its content.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "config.worktree"
_CONTENT = b"# imi: a walled agent works in this worktree; imi deletes this file after its end\n"


def make(admin_dir: str) -> None:
    """Make it, if the worktree has no configuration of its own."""
    with _locked(admin_dir), suppress(FileExistsError):
        path = os.path.join(admin_dir, NAME)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(_CONTENT)


def remove(admin_dir: str, is_used: Callable[[], bool]) -> None:
    """Delete it, unless another run needs it; any other content stays. The worktree may be gone."""
    with suppress(FileNotFoundError), _locked(admin_dir):
        path = os.path.join(admin_dir, NAME)
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            ours = file.read(len(_CONTENT) + 1) == _CONTENT
        if ours and not is_used():
            os.unlink(path)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
