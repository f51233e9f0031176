"""SQLite's errors as one sentence each. Imported only when something went wrong."""

from __future__ import annotations

import sqlite3

from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import disk

# SQLite's primary result codes -> (our code, what to say behind the file's name)
_SENTENCES: dict[int, tuple[str, str]] = {
    5: ("registry-busy", "is held by another program: try again, or see who has it open with `fuser`"),
    6: ("registry-busy", "is held by another program: try again, or see who has it open with `fuser`"),
    8: ("registry-readonly", "is read-only, or was moved while in use: make it writable, or use --db"),
    11: ("registry-corrupt", "is damaged; it was not touched: move it and its -wal file aside, or restore a copy"),
    14: ("registry-open", "cannot be opened: check the path and its permissions"),
    26: ("registry-corrupt", "is damaged or no SQLite database; it was not touched: move it aside, or restore a copy"),
}
_FULL = ("registry-full", "has no space left on its disk: free some and try again")


def explain(error: sqlite3.Error | UnicodeEncodeError, path: str) -> RegistryError:
    """What is wrong with which file, and what to do."""
    if isinstance(error, UnicodeEncodeError):
        return RegistryError(
            f"the registry keeps only names in UTF-8, and {safe(error.object)} is not: rename it", code="not-utf8"
        )
    number = getattr(error, "sqlite_errorcode", 0) & 0xFF
    full = disk.out_of_room(error, path)
    code, sentence = _FULL if full else _SENTENCES.get(number, ("registry", _otherwise(error)))
    return RegistryError(f"the registry {safe(path)} {sentence}", code=code)


def unsettled(error: OSError, path: str) -> RegistryError:
    """The disk did not take what is committed."""
    return RegistryError(
        f"the registry {safe(path)} cannot be put on its disk ({error.strerror}): check the disk, then `imi doctor`",
        code="registry",
    )


def _otherwise(error: sqlite3.Error) -> str:
    text = safe(str(error), 200)
    if isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF == 10:
        return f"cannot be read or written ({text}): check the disk, then `imi doctor`"
    return f"cannot be used ({text}): `imi doctor` looks into it"
