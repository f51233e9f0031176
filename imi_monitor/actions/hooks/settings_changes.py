"""What an installation changed, or would change, in settings files: as lines for people and data for scripts."""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.hooks.settings_installation import SettingsInstallation


def tense(request: Request, would: str, did: str) -> str:
    """The word for a dry run, or for what was done."""
    return would if request.flag("dry-run") else did


def result(setting: SettingsInstallation, message: str, after: bytes | None, request: Request) -> dict[str, object]:
    """Return what became of one file, with the changed lines in a dry run."""
    changed = after != setting.data
    diff = _diff(setting.path, setting.data, after) if changed and request.flag("dry-run") else []
    return {"agent": setting.cli, "path": setting.path, "message": message, "changed": changed, "diff": diff}


def _diff(path: str, before: bytes | None, after: bytes | None) -> list[str]:
    from difflib import unified_diff

    old, new = ((data or b"").decode("utf-8", "replace").splitlines() for data in (before, after))
    names = (path if before is not None else "/dev/null", path if after is not None else "/dev/null")
    return [safe(line, 1000) for line in unified_diff(old, new, *names, lineterm="")]


def outcome(results: list[dict[str, object]], notes: list[str]) -> Outcome:
    lines: list[str] = []
    for one in results:
        lines.append(f"{one['agent']} {one['message']}: {safe(str(one['path']), 1000)}")
        diff = one["diff"]
        lines += diff if isinstance(diff, list) else []
    return Outcome(lines, {"results": results, "notes": notes}, warnings=notes)
