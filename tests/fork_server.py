"""Runs `imi` in forked processes that have its modules loaded already: a run costs 10 ms instead of 100.

`run` behaves like `subprocess.run` of `python -m imi_monitor`: a process of its own with its own directory, environment,
standard streams and exit status. One server serves a test process; it ends when that process ends.

    client ── connects, sends request and its three file descriptors ──▶ server ── forks a handler
    handler ── forks imi, sends its pid, waits for it, sends its status ──▶ client
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.limits import LIMIT

ROOT = Path(__file__).resolve().parent.parent
_DECIDED_AT_START = ("PYTHON", "LC_", "LANG")  # Python reads these once, before a fork
_lock = threading.Lock()
_address: dict[int, str] = {}  # by process: a forked test process must not use its parent's server


def usable(env: dict[str, str]) -> bool:
    """Whether a forked process can honour these changes of the environment."""
    return hasattr(os, "fork") and not any(
        name.startswith(_DECIDED_AT_START) and value != os.environ.get(name) for name, value in env.items()
    )


def run(
    words: list[str], *, cwd: str | Path | None, env: dict[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `imi` with these words. Raises subprocess.TimeoutExpired, after killing it, when it takes too long."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        status = _ask(words, os.fspath(cwd or os.getcwd()), env, [given.fileno(), out.fileno(), err.fileno()], timeout)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    return subprocess.CompletedProcess(words, status, *texts)


def run_with_streams(
    words: list[str], streams: list[int | None], *, cwd: str | Path, env: dict[str, str], timeout: float
) -> int:
    """The exit status of `imi` with these standard streams; None: closed when it starts."""
    closed = [number for number, stream in enumerate(streams) if stream is None]
    with open(os.devnull, "r+b") as nothing:
        given = [nothing.fileno() if stream is None else stream for stream in streams]
        return _ask(words, os.fspath(cwd), env, given, timeout, closed)


def _ask(
    words: list[str], cwd: str, env: dict[str, str], streams: list[int], timeout: float, closed: list[int] | None = None
) -> int:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(timeout)
        link.connect(_server())
        request = json.dumps({"words": words, "cwd": cwd, "env": env, "closed": closed or []}).encode()
        socket.send_fds(link, [len(request).to_bytes(4, "big")], streams)
        link.sendall(request)
        with link.makefile("r") as answers:
            pid = int(answers.readline())
            try:
                return int(answers.readline())
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout) from None


def _server() -> str:
    """The address of this process's server, which is started at the first use."""
    with _lock:
        if os.getpid() not in _address:
            folder = tempfile.mkdtemp(prefix="imi-fork-")
            address = os.path.join(folder, "socket")
            ready, started = os.pipe()
            watched, alive = os.pipe()  # the server ends when `alive` is closed, however this process ends
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", address, str(started), str(watched)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(started, watched),
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            os.close(started)
            os.close(watched)
            if os.read(ready, 1) != b"1":
                raise RuntimeError("the fork server of the tests did not start")
            os.close(ready)
            _address[os.getpid()] = address
            atexit.register(_stop, server, alive)
        return _address[os.getpid()]


def _stop(server: subprocess.Popen[bytes], alive: int) -> None:
    if server.poll() is None:
        os.close(alive)
        server.wait(LIMIT)


def _preload() -> None:
    import subprocess  # noqa: F401
    import tomllib  # noqa: F401

    from imi_monitor import __main__, actions  # noqa: F401
    from imi_monitor.cli import command_runner  # noqa: F401

    actions.all_actions()
    gc.collect()
    gc.freeze()


def _serve(address: str, started: int, watched: int) -> None:
    import select

    _preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # handlers are not waited for
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(started, b"1")
        os.close(started)
        while True:
            ready, _, _ = select.select([listener, watched], [], [])
            if watched in ready:
                break
            link, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                os.close(watched)
                _handle(link)
                return
            link.close()
    os.unlink(address)
    os.rmdir(os.path.dirname(address))


def _handle(link: socket.socket) -> None:
    size, streams, _, _ = socket.recv_fds(link, 4, 3)
    data = b""
    while len(data) < int.from_bytes(size, "big"):
        data += link.recv(1 << 20)
    request = json.loads(data)
    pid = os.fork()
    if pid == 0:
        link.close()
        _become(request, streams)
        return
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):
        link.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        link.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(request: dict[str, object], streams: list[int]) -> None:
    """Turn this process into `imi`. Returns when imi returns; SystemExit gives the exit status."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number in request["closed"]:  # type: ignore[attr-defined]
        os.close(number)  # as Python finds it at its start
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    os.chdir(str(request["cwd"]))
    sys.path[0] = str(request["cwd"])
    sys.argv = [str(ROOT / "imi_monitor" / "__main__.py"), *request["words"]]  # type: ignore[misc]
    from imi_monitor.__main__ import main

    status = main()
    if threading.active_count() > 1:
        sys.exit(status)  # Python waits for the threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = 120  # as Python does
    os._exit(status)  # taking all preloaded modules down takes longer than a command


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
