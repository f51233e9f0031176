"""Runs child processes with limits: none can block imi, flood it with output or outlive its call.

`os.posix_spawn` takes half the time of `subprocess` and needs no import. Every child gets its own session (no terminal for
questions, one process group to kill), a deadline, a cap on its output and a check for cancellation. Whatever ends the wait
(deadline, cap, cancellation, Ctrl-C, a failing callback) ends the whole process group: TERM first, so that git deletes its lock
files, KILL a moment later.
"""

from __future__ import annotations

import os
import select
import time
from _thread import _local
from io import BytesIO

from imi_monitor.fast.lean_signal import (
    SIG_BLOCK,
    SIG_SETMASK,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    SIGXFSZ,
    pthread_sigmask,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CHUNK = 65536
_STDERR_KEPT = 65536
_GRACE = 0.3  # seconds between TERM and KILL
_TICK_MS = 50  # how often `cancelled` is called
_REAP_SECONDS = 2.0  # how long a killed process is waited for that hangs in the kernel (a dead NFS mount)

# A new session has no controlling terminal, so not even ssh can ask there. Without sessions, at least a process group.
_own_group: dict[str, bool | int] = {"setsid": True}


class _ChildCpu(_local):
    """The CPU time of a thread's children."""

    seconds = 0.0


_child_cpu = _ChildCpu()


def child_cpu_seconds() -> float:
    """Return the CPU seconds that children of this thread have used, without their waiting time."""
    return _child_cpu.seconds


class FinishedProcess:
    """How a child ended, its stdout up to the cap, and the last 64 KB of its stderr."""

    __slots__ = ("cancelled", "capped", "returncode", "stderr", "stdout", "timed_out")

    def __init__(
        self, returncode: int, stdout: bytes, stderr: bytes, *, timed_out: bool, capped: bool, cancelled: bool
    ) -> None:
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.timed_out = timed_out
        self.capped = capped
        self.cancelled = cancelled


def spawn(
    argv: Sequence[bytes | str],
    *,
    env: dict[str, str],
    cwd: str | None = None,
    stdin: bytes | None = None,
    timeout: float = 10.0,
    cap: int = 32 << 20,
    on_stderr: Callable[[bytes], None] | None = None,
    on_stdout: Callable[[bytes], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> FinishedProcess:
    """Run `argv` (an absolute program) to its end, within `timeout` seconds and `cap` bytes of stdout.

    `on_stdout` receives the output piece by piece, up to the cap; the result then has none.
    """
    if cwd is not None:
        # posix_spawn cannot change the directory, and os.chdir would change it for all our threads
        argv = ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', cwd, *argv]
    deadline = time.monotonic() + timeout
    # SIGINT is blocked while the child exists without a handler that ends it, and while it is being ended
    mask = pthread_sigmask(SIG_BLOCK, (SIGINT,))
    try:
        child = _Child(*_start(list(argv), env, stdin), cap, on_stderr, on_stdout)
        try:
            pthread_sigmask(SIG_SETMASK, mask)
            return child.wait(deadline, min(_GRACE, timeout / 4), cancelled)
        except BaseException:
            pthread_sigmask(SIG_BLOCK, (SIGINT,))
            child.stop(time.monotonic() + _GRACE)
            raise
        finally:
            child.close()
    finally:
        pthread_sigmask(SIG_SETMASK, mask)


def _start(argv: list[bytes | str], env: dict[str, str], stdin: bytes | None) -> tuple[int, int, int]:
    """Start the child; returns its process id and our ends of its stdout and stderr."""
    opened: list[int] = []
    try:
        out, out_child = _pipe(opened)
        err, err_child = _pipe(opened)
        source = _input(stdin, opened)
        actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate((source, out_child, err_child))]
        pid = _posix_spawn(argv, env, actions)
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    for fd in (source, out_child, err_child):
        os.close(fd)
    os.set_blocking(out, False)
    os.set_blocking(err, False)
    return pid, out, err


def _posix_spawn(argv: list[bytes | str], env: dict[str, str], actions: list[tuple[int, int, int]]) -> int:
    # Python ignores SIGPIPE, and a thread may block signals: a child must inherit neither
    back = (SIGPIPE, SIGXFSZ)
    try:
        return _spawn(argv[0], argv, env, file_actions=actions, setsigmask=(), setsigdef=back, **_own_group)
    except NotImplementedError:  # the libc cannot start sessions
        if "setsid" not in _own_group:
            raise
        _own_group.clear()
        _own_group["setpgroup"] = 0
        return _spawn(argv[0], argv, env, file_actions=actions, setsigmask=(), setsigdef=back, **_own_group)


_spawn: Callable[..., int] = os.posix_spawn


def _pipe(opened: list[int]) -> tuple[int, int]:
    read, write = (_above_stdio(fd, opened) for fd in os.pipe())
    return read, write


def _input(data: bytes | None, opened: list[int]) -> int:
    """Return the child's stdin: /dev/null, or an anonymous file with `data`, which needs no writer."""
    if not data:
        return _above_stdio(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), opened)
    fd = _above_stdio(_nameless_file(), opened)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("imi-stdin", os.MFD_CLOEXEC)
    import tempfile

    fd, path = tempfile.mkstemp(prefix="imi-stdin-")
    os.unlink(path)
    return fd


def _above_stdio(fd: int, opened: list[int]) -> int:
    """Return `fd` moved above 2. If imi starts with closed stdio, its pipes get those numbers, and not every libc lets a child
    inherit a descriptor under its own number."""
    if fd < 3:
        import fcntl

        low, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)
    opened.append(fd)
    return fd


class _Child:
    """A running process: its output so far, waiting for it and ending it."""

    def __init__(
        self,
        pid: int,
        out: int,
        err: int,
        cap: int,
        on_stderr: Callable[[bytes], None] | None,
        on_stdout: Callable[[bytes], None] | None,
    ) -> None:
        self.pid = pid
        self.out, self.err = out, err
        self.room = cap  # bytes of stdout that are still accepted
        self.capped = False
        self.stdout = BytesIO()  # grows in place and returns its bytes without a copy
        self.stderr = bytearray()
        self.on_stderr = on_stderr
        self.on_stdout = on_stdout
        self.returncode: int | None = None
        self.gone = False  # it has ended, whether reaped or not
        self.open = {out, err}
        self.pidfd = _pidfd(pid)
        self.poll = select.poll()
        for fd in (out, err, self.pidfd):
            if fd >= 0:
                self.poll.register(fd, select.POLLIN)

    def wait(self, deadline: float, grace: float, cancelled: Callable[[], bool] | None) -> FinishedProcess:
        """Wait until it ends, or end it at the deadline, the cap or a cancellation."""
        stopped = timed_out = False
        while not self.gone:
            left = deadline - grace - time.monotonic()
            timed_out = left <= 0
            stopped = cancelled is not None and cancelled()
            if timed_out or stopped or self.capped:
                self.stop(min(deadline, time.monotonic() + _GRACE))
                break
            self._step(min(left * 1000, _TICK_MS) if cancelled else left * 1000)
        else:
            self._drain()
            self._reap()
        code = -SIGKILL if self.returncode is None else self.returncode
        out, err = self.stdout.getvalue(), bytes(self.stderr)
        return FinishedProcess(code, out, err, timed_out=timed_out, capped=self.capped, cancelled=stopped)

    def stop(self, until: float) -> None:
        """End the whole group: TERM now, KILL at `until`. It is not reaped in between, so its id cannot be reused."""
        if self.returncode is not None:
            return
        self.on_stderr = None
        self.on_stdout = None if self.on_stdout is None else _ignored
        self._signal(SIGTERM)
        try:
            self._wait_until(until, reap=False)
        finally:  # also after another Ctrl-C, which only a process with one thread can keep waiting
            self._signal(SIGKILL)
            self._wait_until(time.monotonic() + _REAP_SECONDS, reap=True)
            if self.gone:
                self._reap()

    def _wait_until(self, until: float, *, reap: bool) -> None:
        while not self.gone and (left := until - time.monotonic()) > 0:
            self._step(left * 1000, reap)

    def close(self) -> None:
        for fd in (self.out, self.err, self.pidfd):
            if fd >= 0:
                os.close(fd)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS says EPERM when only zombies are left
            return

    def _step(self, milliseconds: float, reap: bool = True) -> None:
        """Wait for one event and handle it."""
        if self.pidfd < 0:
            milliseconds = min(milliseconds, _TICK_MS if self.open else 2)
        for fd, _ in self.poll.poll(max(0.0, milliseconds)):
            if fd == self.pidfd:
                self.gone = True
            else:
                self._read(fd)
        if self.pidfd < 0:
            self._check_ended(reap)

    def _check_ended(self, reap: bool) -> None:
        """Check for the end: without a pidfd only reaping shows it; before a kill, closed pipes have to be enough."""
        if reap:
            self.gone = self._reap(os.WNOHANG)
        elif not self.open:
            self.gone = True

    def _reap(self, options: int = 0) -> bool:
        if self.returncode is None:
            try:
                pid, status, used = os.wait4(self.pid, options)
                _child_cpu.seconds += used.ru_utime + used.ru_stime
            except ChildProcessError:  # our parent ignores SIGCHLD: the exit status is lost, so it counts as a failure
                pid, status = self.pid, 255 << 8
            if not pid:
                return False
            self.returncode = os.waitstatus_to_exitcode(status)
        return True

    def _read(self, fd: int) -> int:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self.poll.unregister(fd)
            self.open.discard(fd)
        elif fd == self.out:
            self._keep(data)
        else:
            self.stderr += data
            del self.stderr[:-_STDERR_KEPT]
            if self.on_stderr is not None:
                self.on_stderr(data)
        return len(data)

    def _keep(self, data: bytes) -> None:
        kept = data[: self.room]
        self.capped = len(kept) < len(data)
        self.room -= len(kept)
        if self.on_stdout is None:
            self.stdout.write(kept)
        elif kept:
            self.on_stdout(kept)

    def _drain(self) -> None:
        """Read what the process left in the pipes, and no more: a grandchild that holds them open may write for ever."""
        for fd in tuple(self.open):
            left = 1 << 20  # the most a pipe can hold
            while left > 0 and (count := self._read(fd)):
                left -= count


def _ignored(_: bytes) -> None:
    """Drop the output of a child that is being ended."""


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, or no descriptors left
        return -1
