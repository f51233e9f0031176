"""Child processes end by themselves, at their deadline or at their cap, with their whole group. # G5"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from imi_monitor.git import spawn as spawning
from imi_monitor.git.spawn import FinishedProcess, spawn
from tests.helpers import ROOT, is_running, wait_for
from tests.limits import LIMIT, join

SH = "/bin/sh"


@pytest.fixture(params=["pidfd", "portable"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Runs each test with and without pidfds, and checks that no descriptor is left open."""
    if request.param == "portable":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("no pidfds here")
    before = _descriptors()
    yield request.param
    assert _descriptors() <= before, "fewer when the collector closes those of an earlier test"


def _descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def sh(script: str, *args: str, **options: object) -> FinishedProcess:
    return spawn([SH, "-c", script, *args], env=dict(os.environ), **{"timeout": 10.0, **options})  # type: ignore[arg-type]


def gone(pids: list[int], seconds: float = LIMIT) -> bool:
    """Whether all ended; those that nothing ends sleep for longer than a test may take."""
    until = time.monotonic() + seconds
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(is_running, pids))


def pids(path: Path, number: int = 2) -> list[int]:
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        words = path.read_text().split() if path.exists() else []
        if len(words) == number:
            return [int(word) for word in words]
        time.sleep(0.01)
    raise AssertionError(f"{number} processes did not start")


# --- the ordinary ends


def test_a_child_has_a_status_and_both_outputs() -> None:
    done = sh("echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert not (done.timed_out or done.capped or done.cancelled)


def test_death_by_signal_is_a_negative_status() -> None:
    assert sh("kill -SEGV $$").returncode == -signal.SIGSEGV


def test_arguments_are_bytes_and_surrogates() -> None:
    done = spawn(["/usr/bin/printf", "%s|", b"\xff\xfe", "\udcff", "é"], env={}, timeout=5)
    assert done.stdout == b"\xff\xfe|\xff|\xc3\xa9|"


def test_a_child_gets_only_the_given_environment() -> None:
    assert spawn(["/usr/bin/env"], env={"ONLY": "this"}, timeout=5).stdout == b"ONLY=this\n"


def test_stdin_is_empty_or_the_bytes_given() -> None:
    assert sh("cat").stdout == b""
    data = os.urandom(3 << 20)  # more than any pipe holds, in both directions
    assert sh("cat", stdin=data).stdout == data


def test_stdin_that_a_child_does_not_read_is_harmless() -> None:
    assert sh("exit 0", stdin=b"x" * (1 << 20)).returncode == 0


def test_all_of_a_large_output_arrives() -> None:
    assert len(sh("head -c 20000000 /dev/zero", cap=20_000_000).stdout) == 20_000_000


def test_a_child_starts_in_the_given_folder() -> None:
    assert sh("pwd", cwd="/").stdout == b"/\n"


def test_a_missing_program_is_an_oserror() -> None:
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            spawn(["/no/such/program"], env={}, timeout=5)


def test_many_threads_can_spawn_at_once() -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda word=word: found.append(sh("echo $0", word).stdout))  # type: ignore[misc]
        for word in "abcdefgh"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert sorted(found) == [f"{word}\n".encode() for word in "abcdefgh"]


# --- what a child is given


def test_a_child_has_its_own_session_and_group() -> None:
    script = "import os; print(os.getsid(0) == os.getpid() == os.getpgrp())"
    assert spawn([sys.executable, "-I", "-c", script], env={}, timeout=LIMIT).stdout == b"True\n"


def test_a_child_cannot_open_our_terminal() -> None:
    assert sh("exec 3<>/dev/tty").returncode != 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_has_default_signal_handlers() -> None:
    done = sh("grep -E '^Sig(Ign|Blk)' /proc/self/status")
    masks = {line.split()[0]: int(line.split()[1], 16) for line in done.stdout.decode().splitlines()}
    assert not masks["SigIgn:"] & (1 << (signal.SIGPIPE - 1))  # Python itself ignores it
    assert masks["SigBlk:"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_descriptor_leaks_into_a_child(tmp_path: Path) -> None:
    with (tmp_path / "ours").open("w"):
        listed = sh("ls -l /proc/self/fd").stdout
    assert b"/ours" not in listed
    assert listed.count(b"pipe:") >= 2  # it did list them


def test_a_child_runs_when_our_stdio_is_closed(tmp_path: Path) -> None:
    """As a hook or a daemon may start us: then our pipes get the numbers 0, 1 and 2."""
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from imi_monitor.git.spawn import spawn
for fd in (0, 1, 2): os.close(fd)
done = spawn(["/bin/sh", "-c", "cat; echo err >&2; exit 3"], env={{}}, stdin=b"in", timeout=5)
left = os.listdir("/proc/self/fd")
fd = os.open({str(tmp_path / "found")!r}, os.O_WRONLY | os.O_CREAT)
os.write(fd, b"|".join([done.stdout, done.stderr, str((done.returncode, done.timed_out, left)).encode()]))
"""
    subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=LIMIT)
    assert (tmp_path / "found").read_bytes() == b"in|err\n|(3, False, ['0'])", "the one that lists is the only one left"

    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from imi_monitor.git import spawn as spawning
for fd in (0, 1, 2): os.close(fd)
opened = []
numbers = [*spawning._pipe(opened), spawning._input(None, opened), spawning._input(b"x", opened)]
def is_open(fd):
    try: return bool(os.fstat(fd))
    except OSError: return False
if any(map(is_open, range(3))): os._exit(2)
os._exit(0 if min(numbers) > 2 and numbers == opened else 1)
"""
    subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=LIMIT)


def test_output_left_in_the_pipes_at_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "_CHUNK", 10)  # so that something is left
    done = sh("head -c 60000 /dev/zero >&2; exec head -c 60000 /dev/zero")
    assert (len(done.stdout), len(done.stderr)) == (60000, 60000)


def test_an_exit_status_lost_to_ignored_sigchld_is_a_failure() -> None:
    """An ignored SIGCHLD is inherited, and then the exit status is lost: it counts as a failure, and nothing hangs."""
    script = f"""
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.path.insert(0, {str(ROOT)!r})
from imi_monitor.git.spawn import spawn
done = spawn(["/bin/sh", "-c", "echo said"], env={{}}, timeout=5)
print(done.returncode, done.stdout)
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=LIMIT, capture_output=True)
    assert done.stdout == b"255 b'said\\n'\n"


@pytest.mark.parametrize("missing", ["sessions", "nameless files"])
def test_a_child_runs_where_the_system_has_less(missing: str, tmp_path: Path) -> None:
    """A libc that cannot start sessions: then the child has a process group. A kernel without `memfd_create`: a deleted file."""
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
real = os.posix_spawn
def without_sessions(*args, **options):
    if options.pop("setsid", False): raise NotImplementedError
    return real(*args, **options)
if {missing!r} == "sessions": os.posix_spawn = without_sessions
else: del os.memfd_create
from imi_monitor.git.spawn import spawn
os.environ["TMPDIR"] = {str(tmp_path)!r}
for _ in range(2):
    done = spawn([sys.executable, "-I", "-c", "import os, sys; print(os.getpgrp() == os.getpid(), sys.stdin.read())"],
                 env={{}}, stdin=b"given", timeout=30)
    print(done.returncode, done.stdout, [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("imi")])
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=LIMIT, capture_output=True)
    assert done.stdout == b"0 b'True given\\n' []\n" * 2


def test_a_system_that_starts_no_process_at_all_is_an_error() -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
asked = []
def never(*_, **options):
    asked.append("setsid" in options)
    raise NotImplementedError
os.posix_spawn = never
from imi_monitor.git.spawn import spawn
for _ in range(2):
    try: spawn(["/bin/true"], env={{}})
    except NotImplementedError: asked.append("told")
print(asked)
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=LIMIT, capture_output=True)
    assert done.stdout == b"[True, False, 'told', False, 'told']\n"


# --- the ends we make


def test_a_sleeping_child_is_killed_with_its_group_in_time(tmp_path: Path) -> None:  # G5
    done = sh(f"sleep 600 & echo $$ $! >{tmp_path}/pids; wait", timeout=0.6)
    assert done.timed_out
    assert done.returncode < 0
    assert gone(pids(tmp_path / "pids"))


def test_a_child_that_ignores_term_is_killed_in_time(tmp_path: Path) -> None:  # G5
    done = sh(f"trap '' TERM; sleep 600 & echo $$ $! >{tmp_path}/pids; while :; do sleep 0.05; done", timeout=0.8)
    assert done.timed_out
    assert gone(pids(tmp_path / "pids"))


def test_term_comes_first_so_that_git_can_clean_up(tmp_path: Path) -> None:
    sh(f"trap 'echo cleaned >{tmp_path}/mark; exit 1' TERM; sleep 600 & wait", timeout=1.0)
    assert (tmp_path / "mark").read_text() == "cleaned\n"


def test_a_child_that_closes_its_outputs_is_waited_for_and_killed(tmp_path: Path) -> None:
    done = sh(f"exec >/dev/null 2>&1; sleep 0.2; echo $$ $$ >{tmp_path}/pids; exit 7")
    assert done.returncode == 7
    done = sh(f"echo $$ $$ >{tmp_path}/pids; exec >/dev/null 2>&1 sleep 60", timeout=0.6)
    assert done.timed_out
    assert gone(pids(tmp_path / "pids"))


@pytest.mark.parametrize(("outputs", "most"), [("open", 120), ("closed", 1000)])
def test_waiting_for_a_silent_child_costs_little(outputs: str, most: int) -> None:
    """The end of a pipe is an event for ever: it would keep us busy until the child ends."""
    calls = 0

    def count_call() -> bool:
        nonlocal calls
        calls += 1
        return False

    script = "sleep 0.6" if outputs == "open" else "exec >/dev/null 2>&1; sleep 0.6"
    assert sh(script, cancelled=count_call).returncode == 0
    assert calls < most, "about 12; 300 without a pidfd when the outputs are closed; else tens of thousands"


def test_output_beyond_the_cap_ends_the_child(tmp_path: Path) -> None:  # G5
    done = sh(f"echo $$ $$ >{tmp_path}/pids; exec cat /dev/zero", cap=1 << 20)
    assert done.capped and not done.timed_out
    assert len(done.stdout) == 1 << 20
    assert gone(pids(tmp_path / "pids"))


@pytest.mark.parametrize(("size", "capped"), [(99_999, False), (100_000, False), (100_001, True)])
def test_the_cap_is_exact(size: int, capped: bool) -> None:
    done = sh(f"head -c {size} /dev/zero", cap=100_000)
    assert (len(done.stdout), done.capped) == (min(size, 100_000), capped)


def test_stderr_keeps_its_end() -> None:
    done = sh("head -c 1000000 /dev/zero >&2; echo fatal: the reason >&2")
    assert len(done.stderr) == 65536
    assert done.stderr.endswith(b"fatal: the reason\n")


def test_a_child_can_be_cancelled(tmp_path: Path) -> None:
    asked = iter([False, False, True, True])
    done = sh(f"sleep 600 & echo $$ $! >{tmp_path}/pids; wait", cancelled=lambda: next(asked))
    assert done.cancelled
    assert not done.timed_out
    assert gone(pids(tmp_path / "pids"))


def test_stderr_is_reported_as_it_arrives() -> None:
    told: list[bytes] = []
    sh("echo one >&2; sleep 0.2; echo two >&2", on_stderr=told.append)
    assert told == [b"one\n", b"two\n"]


def test_stderr_is_kept_and_not_reported_once_the_child_is_told_to_end() -> None:
    told: list[bytes] = []
    script = "trap 'echo late >&2; exit' TERM; echo early >&2; sleep 600 & wait"
    done = sh(script, on_stderr=told.append, cancelled=lambda: bool(told))
    assert (done.cancelled, told) == (True, [b"early\n"])
    assert done.stderr.startswith(b"early\n") and done.stderr.endswith(b"late\n")


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failing_callback_ends_the_child_too(failure: type[BaseException], tmp_path: Path) -> None:
    def fail(_: bytes) -> None:
        raise failure

    with pytest.raises(failure):
        sh(f"sleep 600 & echo $$ $! >{tmp_path}/pids; echo now >&2; wait", on_stderr=fail)
    assert gone(pids(tmp_path / "pids"))


def test_ctrl_c_while_a_child_is_being_ended_leaves_nothing_of_it(tmp_path: Path) -> None:
    def fail(_: bytes) -> None:
        raise ValueError

    script = (
        f"trap 'kill -INT $PPID' TERM; sleep 600 & echo $$ $! >{tmp_path}/pids; echo now >&2; while :; do wait; done"
    )
    with pytest.raises(KeyboardInterrupt):
        sh(script, on_stderr=fail)
    assert gone(pids(tmp_path / "pids"))


def test_each_signal_goes_to_a_process_that_was_not_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of one that was reaped may be another process's."""
    send, signals = os.killpg, []

    def record(group: int, number: int) -> None:
        signals.append((number, is_listed(group)))
        send(group, number)

    monkeypatch.setattr(os, "killpg", record)
    assert sh("sleep 60 & exec sleep 60", timeout=0.3).timed_out
    assert signals == [(signal.SIGTERM, True), (signal.SIGKILL, True)]
    signals.clear()

    def fail_after_the_end(_: bytes) -> None:
        if not is_listed(int((tmp_path / "pid").read_text())):
            raise ValueError

    with suppress(ValueError):  # where a pidfd says that it has ended, it is reaped last
        sh(f"echo $$ >{tmp_path}/pid; (trap '' PIPE; exec yes) & sleep 0.1", on_stdout=fail_after_the_end, cap=1 << 30)
    assert signals == []


def is_listed(pid: int) -> bool:
    """Whether the system still has this id, for a process or for a zombie."""
    return os.path.exists(f"/proc/{pid}")


def test_a_child_that_nothing_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that hangs in the kernel, at a dead disk of the network."""
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    began = time.monotonic()
    done = sh(f"echo $$ $$ >{tmp_path}/pids; exec sleep 600", timeout=0.3)
    assert (done.returncode, done.timed_out) == (-signal.SIGKILL, True)
    assert time.monotonic() - began < LIMIT
    pid, _ = pids(tmp_path / "pids")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)  # it is still our child


def test_a_cancelled_child_is_not_given_all_of_its_time(tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 600 & echo $$ $! >{tmp_path}/pids; while :; do sleep 0.05; done"
    done = sh(script, timeout=3 * LIMIT, cancelled=(tmp_path / "pids").exists)
    assert done.cancelled and not done.timed_out
    assert gone(pids(tmp_path / "pids"))


def test_nothing_is_done_while_a_child_is_silent(way: str) -> None:
    """Nobody can cancel it, so nothing wakes us before it ends."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    assert sh("sleep 1").returncode == 0
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert waits < (14 if way == "pidfd" else 60), "20 looks in a second without a pidfd"


def test_ctrl_c_ends_the_child_and_is_raised(tmp_path: Path, way: str) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from imi_monitor.git import spawn as spawning
if {way!r} == "portable": del __import__("os").pidfd_open
try:
    spawning.spawn(["/bin/sh", "-c", "sleep 600 & echo $$ $! >{tmp_path}/pids; wait"], env={{}}, timeout={LIMIT})
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-I", "-c", script], stdout=subprocess.PIPE)
    children = pids(tmp_path / "pids")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=LIMIT)[0] == b"interrupted\n"
    assert gone(children)


def test_ctrl_c_at_any_moment_leaves_no_child(way: str) -> None:
    """Also between the start of a process and the moment when its id is stored."""
    script = f"""
import os, random, subprocess, sys, time
sys.path.insert(0, {str(ROOT)!r})
from imi_monitor.git import spawn as spawning
if {way!r} == "portable": del __import__("os").pidfd_open
interrupted = 0
for _ in range(25):
    killer = subprocess.Popen(["/bin/sh", "-c", "read go; kill -INT $PPID"], stdin=subprocess.PIPE)
    try:
        os.write(killer.stdin.fileno(), b"go" + bytes([10]))
        time.sleep(random.uniform(0, 0.002))
        spawning.spawn(["/bin/sleep", "60"], env={{}}, timeout=90)
    except KeyboardInterrupt:
        interrupted += 1
    killer.wait()
try: print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError: print("none", interrupted)
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=60, capture_output=True)
    assert done.stdout == b"none 25\n"


def test_grandchildren_that_keep_the_pipes_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential cache or fsmonitor of the user may continue to run, but does not block."""
    reads, read = [], os.read
    monkeypatch.setattr(os, "read", lambda *args: reads.append(args) or read(*args))
    done = sh(f"echo said; sleep 600 & echo $! $! >{tmp_path}/pids")
    assert done.stdout == b"said\n" and not done.timed_out
    assert len(reads) < 100, "what is empty is not read again and again"
    survivor = pids(tmp_path / "pids")[0]
    assert is_running(survivor)
    os.kill(survivor, signal.SIGKILL)


def test_a_grandchild_that_floods_the_pipes_does_not_block(tmp_path: Path) -> None:
    done = sh(
        f"(trap '' PIPE; exec cat /dev/zero) & echo $! $! >{tmp_path}/pids; (exec cat /dev/zero >&2) & sleep 0.1",
        cap=1 << 30,
    )
    assert not done.timed_out
    assert gone(pids(tmp_path / "pids"))  # our closing the pipe ended it


def test_no_child_is_left_as_a_zombie(way: str) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from imi_monitor.git import spawn as spawning
if {way!r} == "portable": del __import__("os").pidfd_open
env = {{"PATH": "/usr/bin:/bin"}}
for _ in range(20): spawning.spawn(["/bin/sh", "-c", "exit 1"], env=env, timeout=5)
spawning.spawn(["/bin/sh", "-c", "sleep 60"], env=env, timeout=0.2)
spawning.spawn(["/bin/cat", "/dev/zero"], env=env, cap=10, timeout=5)
deaf = spawning.spawn(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], env=env, timeout=0.4)
assert deaf.timed_out and deaf.returncode == -9
try: print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError: print("none")
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], check=True, timeout=LIMIT, capture_output=True)
    assert done.stdout == b"none\n"


def test_streamed_output_is_not_kept_and_still_capped() -> None:
    got = bytearray()
    done = sh("head -c 300000 /dev/zero", cap=1 << 20, on_stdout=got.extend)
    assert (len(got), done.stdout, done.capped) == (300_000, b"", False)
    got.clear()
    done = sh("head -c 300000 /dev/zero", cap=100_000, on_stdout=got.extend)
    assert (len(got), done.stdout, done.capped) == (100_000, b"", True)
    pieces: list[bytes] = []
    assert sh("echo more than nothing", cap=0, on_stdout=pieces.append).capped
    assert pieces == [], "no empty piece, which readers take for the end"


def test_streamed_output_is_dropped_once_the_child_is_told_to_end() -> None:
    got = bytearray()
    script = "trap 'echo late; exit' TERM; echo early; sleep 600 & wait"
    done = sh(script, on_stdout=got.extend, cancelled=lambda: bool(got))
    assert (done.cancelled, bytes(got), done.stdout) == (True, b"early\n", b"")


def test_a_failing_output_callback_ends_the_child() -> None:
    def fail(_: bytes) -> None:
        raise ValueError("the reader's own fault")

    with pytest.raises(ValueError, match="own fault"):
        sh("exec cat /dev/zero", on_stdout=fail)


def test_child_cpu_time_is_counted_for_its_thread() -> None:
    """Their CPU seconds without waiting time, so that a busy machine does not change the figure."""
    before, known = spawning.child_cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    sh("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; head -c 100000000 /dev/zero >/dev/null")
    worked, used = spawning.child_cpu_seconds() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime > known.ru_utime and used.ru_stime > known.ru_stime
    assert worked == pytest.approx(used.ru_utime - known.ru_utime + used.ru_stime - known.ru_stime, abs=1e-4)
    sh("sleep 0.3")
    slept = spawning.child_cpu_seconds() - before - worked
    assert worked > 0.005
    assert slept < worked
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(spawning.child_cpu_seconds).result() == 0.0
