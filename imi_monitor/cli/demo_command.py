"""`imi demo`: a throw-away repository with acting agents, shown by any of the front ends. It removes itself."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from types import FrameType

from imi_monitor.cli import argument_parser, output
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.cli.demo_world import DemoWorld

_VIEWS = ("dashboard", "status", "watch")


def show(parsed: ParsedCommandLine) -> int:
    view = parsed.request.text("view") or ("dashboard" if _at_a_terminal(parsed) else "status")
    if view not in _VIEWS:
        raise UsageError(f"imi demo has no view {safe(view)!r}: use one of {', '.join(_VIEWS)}")
    if view == "dashboard" and not _at_a_terminal(parsed):
        raise Refused(
            "the dashboard needs a terminal: `imi demo status` prints, `imi demo watch` streams", code="no-terminal"
        )
    folder = tempfile.mkdtemp(prefix="imi-demo-")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        return _show(parsed, view, folder)
    finally:
        if parsed.request.flag("keep"):
            output.note(f"the demonstration's folder is {safe(folder)}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _show(parsed: ParsedCommandLine, view: str, folder: str) -> int:
    from imi_monitor.cli.demo_world import DemoWorld

    world = DemoWorld(folder)
    if sys.stderr.isatty() and not parsed.flag("quiet"):
        output.progress("making a repository with six worktrees…")
    world.build()
    output.end_progress()
    os.chdir(world.trunk)
    world.start(parsed.request.number("pace") or 1.0)
    try:
        return _play(parsed, view, world)
    finally:
        world.stop()


def _play(parsed: ParsedCommandLine, view: str, world: DemoWorld) -> int:
    """The front end that was asked for, on the demonstration's own repository and registry."""
    from imi_monitor.cli import dashboard_command, watch_command

    flags = [f"--{name}" for name in ("ascii", "read-only") if parsed.flag(name)]
    words = {"dashboard": ["monitor", world.trunk], "status": ["status", "--watch"], "watch": ["watch"]}[view]
    inner = argument_parser.parse(["--db", world.database, *flags, *words])
    if view == "dashboard":
        return dashboard_command.dashboard(inner, [world.trunk]) or 0
    if parsed.request.flag("once") or (view == "status" and not sys.stdout.isatty() and not _timed(parsed)):
        inner.request.values["once"] = True
    return watch_command.show(inner, seconds=parsed.request.number("seconds"))


def _at_a_terminal(parsed: ParsedCommandLine) -> bool:
    """Whether a person sits there who gave no end to it."""
    asked = parsed.flag("json") or parsed.request.flag("once") or _timed(parsed)
    return not asked and sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def _timed(parsed: ParsedCommandLine) -> bool:
    return parsed.request.number("seconds") is not None
