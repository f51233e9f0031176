"""The terminal is left as it was found, however the dashboard ends (T1), promptly (D8), and nobody sees a traceback."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from imi_monitor import paths
from tests.helpers import Repo
from tests.helpers import imi as imi_ran
from tests.limits import LIMIT
from tests.ui.pty_kit import Terminal, imi, patched

SECRET = "hunter2-secret-value"
# A key that does something wrong; `app` is the dashboard's class.
BROKEN = f"""
from imi_monitor.ui import app as module
def broken(self, *event):
    secret_local = {SECRET!r}
    raise RuntimeError("a bug")
class app(module.ImiApp):
    BINDINGS = [("Z", "broken", "")]
    action_broken = broken
module.ImiApp = app
"""


def opened(repo: Repo, *words: str, code: str = "", size: tuple[int, int] = (100, 30)) -> Terminal:
    """The dashboard of a repository, when its first worktree is on the screen."""
    argv = patched(code, "monitor", *words) if code else imi("monitor", *words)
    terminal = Terminal(argv, cwd=repo.path, size=size)
    try:
        terminal.until(lambda: b"unclaimed" in terminal.output and "?2048" in terminal.modes_left())
    except BaseException:
        terminal.__exit__()
        raise
    return terminal


def assert_clean(terminal: Terminal) -> None:
    assert terminal.line_settings_kept()
    assert terminal.modes_left() == set()


@pytest.mark.parametrize(("keys", "status"), [(b"q", 0), (b"\x03", 0), (b"\x1b[99;5u", 0)])
def test_quit_by_key_restores_the_terminal(repo: Repo, keys: bytes, status: int) -> None:  # T1
    with opened(repo) as terminal:
        assert "?1049" in terminal.modes_left() and "?1016" in terminal.modes_left()
        assert not terminal.line_settings_kept()
        terminal.send(keys)
        assert terminal.ended() == status
        assert_clean(terminal)
        assert terminal.after_screen() == ""


def test_the_welcome_screen_opens_a_typed_repository(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with Terminal(imi(), cwd=tmp_path / "elsewhere") as terminal:
        terminal.until(b"Welcome to imi")
        terminal.send(f"{repo.path}\r".encode())
        terminal.until(b"unclaimed")
        terminal.send(b"q")
        assert terminal.ended() == 0
        assert_clean(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_exit_on_a_signal_restores_the_terminal(repo: Repo, number: int) -> None:  # T1
    with opened(repo) as terminal:
        terminal.signal(number)
        assert terminal.ended() == 128 + number
        assert_clean(terminal)
        assert terminal.after_screen() == ""


def test_signal_during_start_restores_the_terminal(repo: Repo) -> None:
    """At any moment between the first byte and the first picture."""
    for pause in (0.0, 0.02, 0.1):
        with Terminal(imi("monitor"), cwd=repo.path) as terminal:
            terminal.until(b"\x1b[?1049h")
            time.sleep(pause)
            terminal.signal(signal.SIGTERM)
            assert terminal.ended() == 128 + signal.SIGTERM
            assert_clean(terminal)


def test_crash_is_one_sentence_and_reported_again_at_the_next_start(repo: Repo) -> None:  # T1, T4
    with Terminal(patched(f"{BROKEN}\napp.on_mount = broken", "monitor"), cwd=repo.path) as terminal:
        assert terminal.ended() == 1
        assert_clean(terminal)
        said = terminal.after_screen()
        assert said.startswith("imi: something went wrong inside imi (RuntimeError: a bug)")
        assert paths.error_log() in said and said.count("\n") == 0
        assert "Traceback" not in terminal.text and SECRET not in terminal.text and "secret_local" not in terminal.text
    log = Path(paths.error_log()).read_text()
    assert "a bug" in log and "Traceback" in log and SECRET not in log
    with opened(repo) as terminal:
        terminal.until(b"RuntimeError")
        terminal.send(b"q")
        assert terminal.ended() == 0
    with opened(repo) as terminal:
        terminal.send(b"q")
        assert terminal.ended() == 0
        assert "RuntimeError" not in terminal.text
    assert os.listdir(os.path.join(paths.state_dir(), "monitors")) == []


SLOW_END = """
import time
from imi_monitor.cli.demo_world import DemoWorld
from imi_monitor.ui.terminal_app import EXIT_TIMEOUT
stop = DemoWorld.stop
DemoWorld.stop = lambda self: (time.sleep(EXIT_TIMEOUT + 0.5), stop(self))
"""


def test_a_crash_of_the_demonstration_is_reported_after_it_cleaned_up(tmp_path: Path) -> None:
    crash = f"{BROKEN}\napp.on_mount = broken{SLOW_END}"
    with Terminal(patched(crash, "demo"), cwd=tmp_path, env={"TMPDIR": str(tmp_path)}) as terminal:
        assert terminal.ended() == 1
        assert terminal.after_screen().startswith("imi: something went wrong inside imi (RuntimeError: a bug)")
        assert not list(tmp_path.glob("imi-demo-*"))


FATAL_PLACES = {
    "a message": "app.on_resize = broken",
    "mounting": "app.on_mount = broken",
    "composing": "app.compose = broken",
}


@pytest.mark.parametrize("place", FATAL_PLACES)
def test_exception_before_the_first_paint_restores_the_terminal(repo: Repo, place: str) -> None:
    with Terminal(patched(f"{BROKEN}\n{FATAL_PLACES[place]}", "monitor"), cwd=repo.path) as terminal:
        status = terminal.ended()
        assert_clean(terminal)
        assert "Traceback" not in terminal.text and SECRET not in terminal.text
        assert status == 1 and terminal.after_screen().startswith("imi: something went wrong")


STYLES = re.compile(rb"\x1b\[[<>=?]?[\d;]*[a-zA-Z]")  # a line is written in pieces where it crosses the edge of a panel
SURVIVED_PLACES = {
    "a key": "",
    "a timer": "app.action_broken = lambda self: self.set_timer(0.01, lambda: broken(self))",
    "a worker": "app.action_broken = lambda self: self.run_worker(lambda: broken(self), thread=True)",
    "a thread": "import threading\napp.action_broken = lambda self: threading.Thread(target=broken, args=(1,)).start()",
}


@pytest.mark.parametrize("place", SURVIVED_PLACES)
def test_exception_is_shown_and_logged_and_the_dashboard_goes_on(repo: Repo, place: str) -> None:
    with opened(repo, code=f"{BROKEN}\n{SURVIVED_PLACES[place]}") as terminal:
        terminal.send(b"Z")
        terminal.until(lambda: os.path.exists(paths.error_log()))
        if place != "a thread":  # of which the app knows nothing
            terminal.until(lambda: b"RuntimeError" in STYLES.sub(b"", bytes(terminal.output)))
        terminal.send(b"q")
        assert terminal.ended() == 0
        assert_clean(terminal)
        assert "Traceback" not in terminal.text and SECRET not in terminal.text
    log = Path(paths.error_log()).read_text()
    assert "a bug" in log and "Traceback" in log and SECRET not in log


def test_closed_pane_ends_the_dashboard(
    repo: Repo,
) -> None:  # T1: neither a spinning reader nor a writer that waits for ever
    with opened(repo) as terminal:
        terminal.close()
        assert terminal.process.wait(LIMIT) == 128 + signal.SIGHUP
    assert os.listdir(os.path.join(paths.state_dir(), "monitors")) == []


def test_closed_pane_without_a_signal_ends_the_dashboard(repo: Repo) -> None:
    """As below `nohup`."""
    with opened(repo, code=DEAF) as terminal:
        terminal.close()
        assert terminal.process.wait(LIMIT) == 128 + signal.SIGHUP


def test_stalled_terminal_does_not_delay_the_exit(repo: Repo) -> None:  # D8
    """The other end is there but does not read: a stalled ssh connection."""
    with opened(repo) as terminal:
        terminal.stop_reading()
        for _ in range(200):  # more to paint than a pty holds
            terminal.send(b"zz")
            time.sleep(0.005)
        terminal.signal(signal.SIGTERM)
        assert terminal.process.wait(LIMIT) == 128 + signal.SIGTERM
        assert terminal.line_settings_kept()


def test_stuck_thread_does_not_delay_the_exit(repo: Repo) -> None:  # D8
    slow = """
import asyncio, time
def slow(self):
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
app.action_broken = slow
"""
    with opened(repo, code=BROKEN + slow) as terminal:
        terminal.send(b"Zq")
        assert terminal.ended() == 0
        assert_clean(terminal)


SHELL = """
import os, signal, sys, termios, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if not child:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
mine = termios.tcgetattr(0)
print("child", child, flush=True)
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    print("STOPPED", mine == termios.tcgetattr(0), flush=True)
    termios.tcsetattr(0, termios.TCSANOW, mine)
    sys.stdin.readline()
    os.tcsetpgrp(0, child)
    os.kill(child, signal.SIGCONT)
print("ENDED", os.waitstatus_to_exitcode(status), mine == termios.tcgetattr(0), flush=True)
"""


@pytest.mark.parametrize("how", ["key", "SIGTSTP", "SIGSTOP"])
def test_suspend_to_the_shell_and_resume(repo: Repo, how: str) -> None:  # T1
    """Below a shell with job control: stopped, the terminal is the shell's; continued, everything is painted again."""
    argv = [sys.executable, "-c", SHELL, *imi("monitor")]
    with Terminal(argv, cwd=repo.path) as terminal:
        terminal.until(lambda: b"unclaimed" in terminal.output and "?2048" in terminal.modes_left())
        child = int(terminal.text.split("child ")[1].split()[0])
        for round_ in range(1, 4):
            if how == "key":
                terminal.send(b"\x1a")
            else:
                os.kill(child, getattr(signal, how))
            terminal.until(lambda: terminal.output.count(b"STOPPED") == round_)  # noqa: B023
            if how != "SIGSTOP":
                assert terminal.output.count(b"STOPPED True") == round_
                assert terminal.modes_left() == set()
            seen = len(terminal.output)
            terminal.send(b"\n")
            terminal.until(lambda: b"unclaimed" in terminal.output[seen:])  # noqa: B023
            terminal.until(lambda: "?1049" in terminal.modes_left())
        terminal.send(b"q")
        terminal.until(b"ENDED 0 True")
        assert terminal.modes_left() == set()


def stop_and_go(terminal: Terminal) -> None:
    """ctrl-z, until all is painted again. What is typed before it stops goes with the stop, as everywhere; and what is
    painted before that is no sign that it goes on."""
    seen = len(terminal.output)
    terminal.send(b"\x1a")
    terminal.until(lambda: b"unclaimed" in terminal.output[seen:].partition(b"\x1b[?1049h")[2])


def test_suspend_without_a_shell_is_ignored(repo: Repo) -> None:
    """In a pane of its own nobody could continue it: ctrl-z must not freeze it for ever."""
    with opened(repo) as terminal:
        stop_and_go(terminal)
        terminal.send(b"q")
        assert terminal.ended() == 0
        assert_clean(terminal)


DEAF = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); signal.signal = lambda *_: None"
# Ends in which no code of imi runs any more.
HARD_ENDS = {
    "SIGKILL": "",
    "SIGSEGV": "import ctypes\napp.action_broken = lambda self: ctypes.string_at(0)",
    "os._exit": "import os\napp.action_broken = lambda self: os._exit(3)",
}


def posted(terminal: Terminal) -> None:
    """Until the shell that outlives the dashboard is there."""
    terminal.until(lambda: any("stty" in args for args in children(terminal.process.pid)))


def children(pid: int) -> list[str]:
    listed = subprocess.run(
        ["ps", "-ww", "-o", "args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout.splitlines()


def ended_hard(terminal: Terminal, how: str) -> int:
    posted(terminal)
    if how == "SIGKILL":
        terminal.signal(signal.SIGKILL)
    else:
        terminal.send(b"Z")
    return terminal.process.wait(LIMIT)


@pytest.mark.parametrize("how", HARD_ENDS)
def test_kill_restores_the_terminal(repo: Repo, how: str) -> None:  # T1
    with opened(repo, code=f"{BROKEN}\n{HARD_ENDS[how]}") as terminal:
        assert ended_hard(terminal, how) == {"SIGKILL": -signal.SIGKILL, "SIGSEGV": -signal.SIGSEGV, "os._exit": 3}[how]
        terminal.until(lambda: terminal.modes_left() == set() and terminal.line_settings_kept())
    with opened(repo) as terminal:  # the next start reports it
        terminal.until(b"killed")
        terminal.send(b"q")
        assert terminal.ended() == 0


def test_terminal_guard_keeps_settings_of_a_later_program(repo: Repo) -> None:
    """A shell may be quicker than the one that restores: its line editor must not be switched off again."""
    with opened(repo) as terminal:
        posted(terminal)
        terminal.signal(signal.SIGSTOP)
        editing = termios.tcgetattr(terminal.slave)
        editing[3] = editing[3] & ~(termios.ICANON | termios.ECHO) | termios.ISIG
        termios.tcsetattr(terminal.slave, termios.TCSANOW, editing)
        terminal.signal(signal.SIGKILL)
        terminal.until(lambda: terminal.modes_left() == set())
        assert termios.tcgetattr(terminal.slave)[3] == editing[3]


def test_terminal_guard_ends_with_the_dashboard(repo: Repo) -> None:
    with opened(repo) as terminal:
        posted(terminal)
        guard = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(terminal.process.pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        terminal.send(b"q")
        assert terminal.ended() == 0
        assert_clean(terminal)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in guard)


def test_kill_before_the_terminal_guard_started_leaves_reset_terminal(repo: Repo) -> None:
    """Then a command makes the terminal usable."""
    with opened(
        repo, code="from imi_monitor.ui.shutdown import TerminalGuard; TerminalGuard.start = lambda self: None"
    ) as terminal:
        terminal.signal(signal.SIGKILL)
        terminal.ended()
        assert terminal.modes_left() and not terminal.line_settings_kept()
        done = subprocess.run(
            imi("reset-terminal"),
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            check=False,
            cwd=repo.path,
            timeout=LIMIT,
        )
        assert done.returncode == 0
        terminal.until(lambda: terminal.modes_left() == set())
        iflag, oflag, _, lflag, *_ = termios.tcgetattr(terminal.slave)
        assert (oflag, lflag) == (terminal.before[1], terminal.before[3])
        assert iflag & (termios.ICRNL | termios.IXON) == terminal.before[0] & (termios.ICRNL | termios.IXON)


def test_dashboard_without_a_terminal_is_refused(repo: Repo) -> None:
    ran = imi_ran("monitor", cwd=repo.path)
    assert (ran.code, ran.out) == (1, "") and "needs a terminal" in ran.err


def test_reset_terminal_without_a_terminal_is_refused(repo: Repo) -> None:
    done = subprocess.run(
        imi("reset-terminal"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        cwd=repo.path,
    )
    assert done.returncode == 1 and done.stderr == "imi: there is no terminal here to reset\n"


KEPT = ["q", "ctrl-c", "SIGINT", "SIGTERM", "SIGHUP", "stop and go", *HARD_ENDS, "closed", "in an act"]


@pytest.mark.soak
@pytest.mark.parametrize("how", KEPT)
def test_every_exit_twenty_times(repo: Repo, how: str) -> None:  # T1, D8
    """However it ends: a clean terminal, within two seconds, and nothing that keeps the registry locked."""
    repo.worktree("feat-api")
    for _ in range(20):
        with opened(repo, code=f"{BROKEN}\n{HARD_ENDS.get(how, '')}") as terminal:
            asked = time.monotonic()
            if how in HARD_ENDS:
                ended_hard(terminal, how)
                terminal.until(lambda: terminal.modes_left() == set() and terminal.line_settings_kept())
            else:
                end_it(terminal, how)
                terminal.ended() if how != "closed" else terminal.process.wait(LIMIT)
                assert time.monotonic() - asked < 3  # 2 s, and the reading of what it wrote
                if how != "closed":
                    assert_clean(terminal)
        with contextlib.closing(sqlite3.connect(paths.default_database(), timeout=0)) as registry:
            registry.execute("BEGIN IMMEDIATE")


def end_it(terminal: Terminal, how: str) -> None:
    keys = {"q": b"q", "ctrl-c": b"\x03"}
    if how in keys:
        terminal.send(keys[how])
    elif how.startswith("SIG"):
        terminal.signal(getattr(signal, how))
    elif how == "closed":
        terminal.close()
    elif how == "stop and go":  # no shell could continue it here: it goes on by itself
        stop_and_go(terminal)
        terminal.send(b"q")
    else:  # while a claim is written
        seen = len(terminal.output)
        terminal.send(b"c")
        terminal.until(lambda: b"Cancel" in terminal.output[seen:])
        terminal.send(b"\r")
        terminal.signal(signal.SIGTERM)
