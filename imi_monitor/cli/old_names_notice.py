"""A note about older names of settings: once for the same names, to a person at a terminal."""

from __future__ import annotations

import os
import sys
import zlib

from imi_monitor import paths
from imi_monitor.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.config import Settings


def show(settings: Settings) -> None:
    """Print the note unless it was printed before; names without an effect need none."""
    renamed = sorted({f"{name} {says}" for name, says, _ in settings.old_names if says.startswith("is now ")})
    if renamed and sys.stderr.isatty() and _is_first("\n".join(renamed)):
        more = f" and {len(renamed) - 2} more" if len(renamed) > 2 else ""
        output.note(f"imi: settings with older names: {', '.join(renamed[:2])}{more}; `imi config` lists them")
        output.note("imi: older names keep working; this note is printed once")


def _is_first(what: str) -> bool:
    """Record the note; False if it is recorded already or cannot be."""
    folder = os.path.join(paths.state_dir(), "notes")
    name = os.path.join(folder, f"{zlib.crc32(what.encode()):08x}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True
