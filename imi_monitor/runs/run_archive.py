"""Archives of run folders: packed into `SAVED_REPORTS/archive`, checked, and only then the folder leaves its place.

The folder itself moves into a hidden folder beside the others and stays there for as long as the trash keeps what is removed;
its restoration moves it back, or later unpacks the archive. An archive is never deleted.
"""

from __future__ import annotations

import os
import shutil
import stat
from hashlib import sha256

from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from typing import IO

    from imi_monitor.store.runs import RunRow

    Listing = dict[str, tuple[str, int, str]]  # path -> (kind, mode, sha256 of the content or target of the link)

_SAVED = os.path.join("SAVED_REPORTS", "archive")
_TRASH = ".removed"  # beside the run folders
_PIECE = 1 << 20


def path_of(row: RunRow) -> str:
    home = os.path.dirname(os.path.dirname(row.folder))
    return os.path.join(home, _SAVED, f"{os.path.basename(row.folder)}.tar.gz")


def pack(row: RunRow) -> str:
    """Write the archive of the run's folder, whole or not at all, and return its path; Refused if it does not hold all."""
    path = path_of(row)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    before = _listing_of_folder(row.folder)
    if not (os.path.exists(path) and _is_complete(path, before)):
        _write(row.folder, path + ".new")
        if not _is_complete(path + ".new", _listing_of_folder(row.folder)):
            os.unlink(path + ".new")
            raise Refused(
                f"{safe(row.folder)} changes, or has files that an archive cannot hold, such as sockets",
                code="not-packed",
            )
        os.rename(path + ".new", path)
    return path


def _write(folder: str, path: str) -> None:
    import tarfile

    with open(path, "wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            archive.add(folder, os.path.basename(folder))
        file.flush()
        os.fsync(file.fileno())


def _listing_of_folder(folder: str) -> Listing:
    found: Listing = {}
    name = os.path.basename(folder)
    for where, folders, files in os.walk(folder):
        for each in (*folders, *files):
            path = os.path.join(where, each)
            about = os.lstat(path)
            inside = os.path.join(name, os.path.relpath(path, folder))
            found[inside] = (_kind(about.st_mode), stat.S_IMODE(about.st_mode), _content(path, about.st_mode))
    return found


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link"), (stat.S_ISFIFO, "pipe"))
    return next((name for matches, name in kinds if matches(mode)), "other")


def _content(path: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return os.readlink(path)
    if not stat.S_ISREG(mode):
        return ""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return _hash(file)


def _hash(file: IO[bytes]) -> str:
    made = sha256()
    while piece := file.read(_PIECE):
        made.update(piece)
    return made.hexdigest()


def _is_complete(path: str, wanted: Listing) -> bool:
    import tarfile

    found: Listing = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for one in archive:
                found[one.name] = (_kind_of(one), one.mode, _content_of(archive, one))
    except (OSError, EOFError, tarfile.TarError):
        return False
    found.pop(os.path.basename(path).removesuffix(".new").removesuffix(".tar.gz"), None)
    return found == wanted


def _kind_of(one: tarfile.TarInfo) -> str:
    if one.islnk():
        return "file"  # a second name of a file
    return "folder" if one.isdir() else "link" if one.issym() else "pipe" if one.isfifo() else "file"


def _content_of(archive: tarfile.TarFile, one: tarfile.TarInfo) -> str:
    if one.issym():
        return one.linkname
    if not (one.isreg() or one.islnk()):
        return ""
    file = archive.extractfile(one)
    return _hash(file) if file is not None else ""


def remove(row: RunRow) -> None:
    """Move the folder out of sight; its archive is complete."""
    trash = os.path.join(os.path.dirname(row.folder), _TRASH)
    os.makedirs(trash, mode=0o700, exist_ok=True)
    os.rename(row.folder, os.path.join(trash, os.path.basename(row.folder)))
    os.utime(os.path.join(trash, os.path.basename(row.folder)))  # removed now


def restore(row: RunRow) -> None:
    """Bring the folder back, as it was moved or out of the archive; Refused if neither is there."""
    import tarfile

    if os.path.isdir(row.folder):
        return
    removed = os.path.join(os.path.dirname(row.folder), _TRASH, os.path.basename(row.folder))
    if os.path.isdir(removed):
        os.rename(removed, row.folder)
        return
    into = f"{row.folder}.new"
    try:
        with tarfile.open(path_of(row), "r:gz") as archive:
            os.mkdir(into, 0o700)
            archive.extractall(into, filter="tar")
        os.rename(os.path.join(into, os.path.basename(row.folder)), row.folder)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise Refused(
            f"the archive {safe(path_of(row))} cannot be read: {safe(str(error), 200)}", code="missing"
        ) from error
    finally:
        shutil.rmtree(into, ignore_errors=True)


def read_output(row: RunRow, name: str) -> bytes:
    """A file of the archived folder; OSError if it cannot be read."""
    import tarfile

    try:
        with tarfile.open(path_of(row), "r:gz") as archive:
            file = archive.extractfile(os.path.join(os.path.basename(row.folder), name))
            assert file is not None
            return file.read()
    except (KeyError, EOFError, tarfile.TarError) as error:
        raise FileNotFoundError(str(error)) from error


def purge(row: RunRow, days: int) -> None:
    """Delete the moved folder of an archived run after so many days, if its archive is still complete."""
    removed = os.path.join(os.path.dirname(row.folder), _TRASH, os.path.basename(row.folder))
    try:
        age = times.clock() / 1e9 - os.stat(removed).st_mtime
        if age > days * 86_400 and _is_complete(path_of(row), _listing_of_folder(removed)):
            shutil.rmtree(removed)
    except OSError:
        return  # it is gone, or the disk refuses it: the next follower tries again
