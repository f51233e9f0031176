"""`imi demo`: a throw-away repository with acting agents, shown by any of the front ends. It removes itself."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from types import FrameType
from typing import TYPE_CHECKING

from imi_monitor.cli import args, out
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

if TYPE_CHECKING:
    from imi_monitor.cli.args import Parsed

_VIEWS = ("status", "watch")


def show(parsed: Parsed) -> int:
    view = parsed.request.text("view") or "status"
    if view not in _VIEWS:
        raise UsageError(f"imi demo has no view {safe(view)!r}: use one of {', '.join(_VIEWS)}")
    folder = tempfile.mkdtemp(prefix="imi-demo-")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        return _show(parsed, view, folder)
    finally:
        if parsed.request.flag("keep"):
            out.note(f"the demonstration's folder is {safe(folder)}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _show(parsed: Parsed, view: str, folder: str) -> int:
    from imi_monitor.cli import watch
    from imi_monitor.cli.demo_world import World

    world = World(folder)
    if sys.stderr.isatty() and not parsed.flag("quiet"):
        out.progress("making a repository with six worktrees…")
    world.build()
    out.end_progress()
    os.chdir(world.trunk)
    once = parsed.request.flag("once") or (view == "status" and not sys.stdout.isatty() and not _timed(parsed))
    world.start(parsed.request.number("pace") or 1.0)
    try:
        words = ["--db", world.database, *(["watch"] if view == "watch" else ["status", "--watch"])]
        inner = args.parse(words)
        if once:
            inner.request.values["once"] = True
        return watch.show(inner, seconds=parsed.request.number("seconds"))
    finally:
        world.stop()


def _timed(parsed: Parsed) -> bool:
    return parsed.request.number("seconds") is not None
