"""Which repositories a front end shows: those named, else the one around us, else all that are registered."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context


def common_dirs_of(context: Context, names: list[str]) -> list[str] | None:
    """Their git directories; None: every repository of the registry."""
    if names:
        return list(dict.fromkeys(context.repository(name).common_dir for name in names))
    found = context.find_repository()
    return None if found is None else [found.common_dir]
