"""`python -m imi_monitor` and the console scripts: the start of the process, and its last resort when nothing can be imported.

Everything that can fail here, imports included, is inside `main`: the system may refuse a file or memory at any of them.
"""

from __future__ import annotations

import os
import sys
import time

__all__ = ["main"]

_ANSWERS_BY_STATUS = {"verify-lock", "check-lock"}  # their exit status 1 means "not yours", so a failure is 2
_UPGRADE_SECONDS = 5  # how long an installation may have files missing
_GIVES_UP = "IMI_START_GIVES_UP"  # when this command line is not started again, in seconds of the monotonic clock


def main() -> int:
    """Run one command line. Its output is flushed and the registry closed before the process ends."""
    running = False
    try:
        _open_closed_streams()
        from imi_monitor.fast import quick_process

        quick_process.delay_garbage_collection()
        from imi_monitor.cli import command_runner

        running = True
        os.environ.pop(_GIVES_UP, None)
        return quick_process.leave(command_runner.main())
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  there is nothing that could still handle it
        if not running and _lacks_a_module(error):
            _start_again()
        return _report(error, running)


def _lacks_a_module(error: BaseException) -> bool:
    """Whether a module of imi is missing or of another version, as during an upgrade."""
    return isinstance(error, ImportError) and str(error.name).partition(".")[0] == __package__


def _start_again() -> None:
    """Replace this process by a new start of the same command line, of which nothing has run yet; return when it is too late."""
    now = time.monotonic()
    gives_up = float(os.environ.setdefault(_GIVES_UP, str(now + _UPGRADE_SECONDS)))
    while now < gives_up:
        time.sleep(0.2)
        if os.path.exists(__file__):
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        now = time.monotonic()


def _open_closed_streams() -> None:
    """Open /dev/null in place of closed standard streams.

    Otherwise the next file that imi opens, such as the registry, gets the number 0, 1 or 2, and output goes into it.
    """
    for _ in filter(_is_closed, range(3)):
        # this opens the lowest free number, which is the closed one: those below are open
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8", errors="backslashreplace"))  # noqa: SIM115


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _report(error: BaseException, running: bool) -> int:
    """Print one sentence without importing anything, and return the exit status."""
    if isinstance(error, KeyboardInterrupt):
        _write(2, "imi: interrupted\n")
        return 130
    why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}".rstrip(": ")
    plain = "".join(sign if " " <= sign <= "~" and sign not in '"\\' else "?" for sign in str(why))[:200]
    if isinstance(error, (OSError, MemoryError)):
        sentence = (
            f"the system refused to start imi ({plain}): end programs or raise the limits (`ulimit -a`), then repeat"
        )
    elif running and _lacks_a_module(error):
        sentence = (
            f"the program files of imi changed while it ran ({plain}): look at what was done, then start it again"
        )
    else:
        sentence = f"imi cannot start ({plain}): install it again"
    if "--json" in sys.argv:
        envelope = f'{{"schema": 1, "success": false, "data": null, "error": "{sentence}", "code": "system"}}\n'
        _write(1, envelope)
    else:
        _write(2, f"imi: {sentence}\n")
    return 2 if _ANSWERS_BY_STATUS.intersection(sys.argv) else 1


def _write(stream: int, text: str) -> None:
    try:
        os.write(stream, text.encode("ascii"))
    except OSError:
        return  # closed or full: the exit status says it


if __name__ == "__main__":
    sys.exit(main())
