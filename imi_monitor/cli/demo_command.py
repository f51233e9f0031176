"""`imi demo`: a temporary repository with simulated agents, shown by the dashboard, `status` or `watch`."""

from __future__ import annotations

import sys

from imi_monitor.actions.action import Argument, Option
from imi_monitor.cli.front_end import FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.cli.demo_world import DemoWorld

_VIEWS = ("dashboard", "status", "watch")


class DemoVerb(FrontEndVerb):
    words = ("demo",)
    group = "Status"
    label = "Demonstration"
    examples = (("imi demo", "open the dashboard on three simulated agents in a temporary folder"),)
    help = "show a temporary repository with six worktrees and simulated agents, then delete it"
    more = "Nothing of yours is touched: the demonstration has its own folder and its own registry."
    arguments = (
        Argument("view", "dashboard (the default on a terminal), status (text) or watch (JSON)", optional=True),
    )
    options = (
        Option("seconds", "end after this many seconds", value="SECONDS", number=True),
        Option("pace", "seconds between two steps of an agent", value="SECONDS", number=True),
        Option("once", "show the first state, then end"),
        Option("keep", "keep the folder and print where it is"),
    )
    streams = True

    def show(self, parsed: ParsedCommandLine) -> int:
        import shutil
        import signal
        import tempfile

        from imi_monitor.cli import output
        from imi_monitor.model.text import safe

        view = _view(parsed)
        folder = tempfile.mkdtemp(prefix="imi-demo-")
        signal.signal(signal.SIGTERM, _exit)
        signal.signal(signal.SIGHUP, _exit)
        try:
            return _show(parsed, view, folder)
        finally:
            if parsed.request.flag("keep"):
                output.note(f"the demonstration's folder is {safe(folder)}")
            else:
                shutil.rmtree(folder, ignore_errors=True)


ACTIONS = (DemoVerb(),)


def _view(parsed: ParsedCommandLine) -> str:
    from imi_monitor.model.errors import Refused, UsageError
    from imi_monitor.model.text import safe

    view = parsed.request.text("view") or ("dashboard" if _interactive(parsed) else "status")
    if view not in _VIEWS:
        raise UsageError(f"imi demo has no view {safe(view)!r}: use one of {', '.join(_VIEWS)}")
    if view == "dashboard" and not _interactive(parsed):
        raise Refused(
            "the dashboard needs a terminal: `imi demo status` prints, `imi demo watch` streams", code="no-terminal"
        )
    return view


def _exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _show(parsed: ParsedCommandLine, view: str, folder: str) -> int:
    import os

    from imi_monitor.cli import output
    from imi_monitor.cli.demo_world import DemoWorld

    world = DemoWorld(folder)
    if sys.stderr.isatty() and not parsed.flag("quiet"):
        output.progress("making a repository with six worktrees…")
    world.build()
    output.end_progress()
    os.chdir(world.trunk)
    world.start(parsed.request.number("pace") or 1.0)
    try:
        return _run_view(parsed, view, world)
    finally:
        world.stop()


def _run_view(parsed: ParsedCommandLine, view: str, world: DemoWorld) -> int:
    """The chosen front end on the demonstration's own repository and registry."""
    from imi_monitor.cli import argument_parser, dashboard_command, snapshot_stream

    flags = [f"--{name}" for name in ("ascii", "read-only") if parsed.flag(name)]
    words = {"dashboard": ["monitor", world.trunk], "status": ["status", "--watch"], "watch": ["watch"]}[view]
    inner = argument_parser.parse(["--db", world.database, *flags, *words])
    if view == "dashboard":
        return dashboard_command.run_dashboard(inner, [world.trunk])
    if parsed.request.flag("once") or (view == "status" and not sys.stdout.isatty() and not _timed(parsed)):
        inner.request.values["once"] = True
    return snapshot_stream.run(inner, seconds=parsed.request.number("seconds"))


def _interactive(parsed: ParsedCommandLine) -> bool:
    """Whether the demonstration runs on a terminal until the user ends it."""
    limited = parsed.flag("json") or parsed.request.flag("once") or _timed(parsed)
    return not limited and sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def _timed(parsed: ParsedCommandLine) -> bool:
    return parsed.request.number("seconds") is not None
