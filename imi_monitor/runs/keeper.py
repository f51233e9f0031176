"""The keeper: the process that holds one agent, and records how it ended. A program of its own: `keeper.py [--window] FOLDER`.

The agent's output is a file and its input a named pipe that the agent itself holds open for reading and writing, so the
agent goes on whatever happens to the keeper, and an answer can come from any process. The files in FOLDER:

    launch.json   argv and cwd                        env.json   the agent's environment; deleted once it was read
    out, err      the agent's output                  in         the named pipe (only with "pipe" in launch.json)
    born.json     the agent, written before it runs   gate       `go` or `shut`: the process that makes it decides
    exit.json     how it ended, what it left behind

With `--window` the agent has the terminal in which the keeper runs, instead of files and a pipe: `prompt.json` is added to its
command line, `place.json` says which terminal that is, and the answer below is the file `report.json`. A terminal that is
closed, or whose server dies, ends the agent by SIGHUP, which the keeper passes on; it lives on until that is recorded.

It imports nothing of imi, so that it stays small; it prints `pid N` or `error N` once, for the process that started it.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
import time

_DEATH_SIGNAL = 1  # prctl: the signal that a process gets when its parent dies
_SUBREAPER = 36  # prctl: orphans below the agent become children of the keeper
_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)
_WANTED_PIPE = 1 << 20
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTTOU)
_ENDS = (signal.SIGHUP, signal.SIGINT)  # of the keeper of a contained agent, which ends with it
_YOUNG = 30.0  # seconds; what failed later is no failed start
_BY_SIGNAL = 128  # exit statuses from here on are a program's answer to a signal
LONGEST_ARGUMENT = 100_000  # bytes; the system takes 128 KB
_PLACE = ("TMUX", "TMUX_PANE", "ZELLIJ", "ZELLIJ_SESSION_NAME", "ZELLIJ_PANE_ID", "ZELLIJ_SOCKET_DIR")
_TERMINAL = (*_PLACE, "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM")


def main(folder: str, window: bool = False) -> None:
    with open(f"{folder}/launch.json", encoding="utf-8") as file:
        launch = json.load(file)
    with open(f"{folder}/env.json", encoding="utf-8", errors="surrogateescape") as file:
        env = json.load(file)
    os.unlink(f"{folder}/env.json")
    if window:
        env.update({name: os.environ[name] for name in _TERMINAL if name in os.environ})
        launch["argv"] += _prompt_words(folder, launch["prompt"])
        _write(folder, "place.json", {name: os.environ[name] for name in _PLACE if name in os.environ})
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL if launch.get("contained") and number in _ENDS else signal.SIG_IGN)
    _adopt_orphans()
    gate, opened = os.pipe()
    failed, failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opened)
        _become(folder, launch, env, gate, failure, window)
    if window:
        signal.signal(signal.SIGHUP, lambda *_: _hang_up(pid))
        with contextlib.suppress(OSError):  # the agent did the first itself; a terminal that is gone ends it by SIGHUP
            os.setpgid(pid, pid)
            os.tcsetpgrp(0, pid)
    os.close(failure)
    os.close(gate)
    me = {"keeper": os.getpid(), "keeper_started": _started(os.getpid())}
    _write(folder, "born.json", {"pid": pid, "started": _started(pid), "boot": launch["boot"], **me})
    if _open_gate(folder):
        os.write(opened, b"g")
    os.close(opened)  # without a byte the agent does not start
    error = os.read(failed, 16).decode()
    answer = f"error {error}" if error else f"pid {pid}"
    if window:
        _write(folder, "report.json", answer)
    else:
        _report(answer)
    _wait(folder, pid, window)


def _prompt_words(folder: str, before: "list[str]") -> "list[str]":
    """The last words of the command line: those before the prompt, the last of them joined with it; none: no prompt."""
    with open(f"{folder}/prompt.json", encoding="utf-8", errors="surrogateescape") as file:
        text = json.load(file)
    if not text or not before:  # without words before it the program reads it from the folder
        return []
    if len(os.fsencode(text)) > LONGEST_ARGUMENT:
        with open(f"{folder}/prompt.txt", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        text = f"Read {folder}/prompt.txt and do what it says."
    return [*before[:-1], before[-1] + text]


def _become(folder: str, launch: dict, env: dict, gate: int, failure: int, window: bool) -> None:  # type: ignore[type-arg]
    """The child: wait for the gate, then become the agent. Never returns."""
    try:
        os.setpgid(0, 0)
        for each in _IGNORED:
            signal.signal(each, signal.SIG_DFL)
        if launch.get("contained"):
            _end_with_keeper()
        if os.read(gate, 1) != b"g":
            os.write(failure, b"shut")
            os._exit(127)
        if not window:
            os.dup2(_input(folder, bool(launch.get("pipe"))), 0)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), number)
        os.chdir(launch["cwd"])
        os.execve(launch["argv"][0], launch["argv"], env)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    os._exit(127)


def _end_with_keeper() -> None:
    try:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    except (AttributeError, OSError):  # not Linux: the next follower ends what is left
        return


def _input(folder: str, pipe: bool) -> int:
    if not pipe:
        return os.open(os.devnull, os.O_RDONLY)
    opened = os.open(f"{folder}/in", os.O_RDWR)
    if _PIPE_SIZE is not None:
        try:
            fcntl.fcntl(opened, _PIPE_SIZE, _WANTED_PIPE)
        except OSError:  # the user's limit is reached: a long message is written in parts
            return opened
    return opened


def _open_gate(folder: str) -> bool:
    """Whether the agent may start: False if recovery has shut the gate, because it took the start for dead."""
    try:
        handle = os.open(f"{folder}/gate", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    os.write(handle, b"go")
    os.close(handle)
    return True


def _wait(folder: str, agent: int, window: bool) -> None:
    """Reap the agent and whatever it leaves behind; the keeper ends with the last of them, in a window with the agent."""
    began = time.monotonic()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WUNTRACED if window else 0)
        except ChildProcessError:
            return
        if os.WIFSTOPPED(status):
            if pid == agent:
                os.kill(pid, signal.SIGCONT)  # there is no shell to go back to
        elif pid == agent:
            left = [[one, _started(one)] for one in _children()]
            code = os.waitstatus_to_exitcode(status)
            _write(folder, "exit.json", {"code": code, "left": left})
            if window:
                if 0 < code < _BY_SIGNAL and time.monotonic() - began < _YOUNG:
                    _hold(code)
                return


def _hang_up(agent: int) -> None:
    """The terminal is gone: the system says so only to the first process of its session, which is the keeper."""
    with contextlib.suppress(OSError):
        os.killpg(agent, signal.SIGHUP)
        os.killpg(agent, signal.SIGCONT)


def _hold(code: int) -> None:
    """Keep the terminal open for what an agent has written there that failed at its start."""
    with contextlib.suppress(OSError):  # the terminal is gone
        os.tcsetpgrp(0, os.getpgrp())
        os.write(1, f"\r\nimi: the agent ended with exit status {code}; press enter to close\r\n".encode())
        os.read(0, 1)


def _children() -> "list[int]":
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # not Linux
        return []


def _started(pid: int) -> "str | None":
    """The start time of a process, in the form of `host.start_time`; None where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _adopt_orphans() -> None:
    try:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):  # not Linux: orphans go to the system's first process
        return


def _write(folder: str, name: str, value: object) -> None:
    """A reader sees all of the file or none of it, also after a power cut."""
    with open(f"{folder}/{name}.new", "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


def _report(text: str) -> None:
    """Answer the process that started the keeper, if it still lives, and close the streams that it gave."""
    with contextlib.suppress(OSError):  # it died: born.json and the gate say the same
        os.write(1, text.encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


if __name__ == "__main__":
    if sys.argv[1] == "--window":
        main(sys.argv[2], window=True)
        os._exit(0)
    if os.fork():  # the keeper is the child of the system's first process, so no process of imi has to wait for it
        os._exit(0)
    os.setsid()
    main(sys.argv[1])
