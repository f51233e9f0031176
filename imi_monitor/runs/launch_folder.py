"""The folder of one launch: what the keeper reads and writes, and what that says about the agent's process.

A launch never uses the folder of another one, because the keeper of an earlier launch may still write there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress

from imi_monitor import host, paths
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PACKET = "packet.txt"
UNBORN, RUNS, ENDED, GONE = "unborn", "runs", "ended", "gone"
_STATUS_FIELD = 49  # of /proc/PID/stat, behind the name: the exit status of a zombie
_SEND_SECONDS = 20.0
_MOST_RECORD = 8 << 20


@dataclass(frozen=True, slots=True)
class Birth:
    """The agent's process as the keeper recorded it, before the agent ran."""

    pid: int
    started: str
    boot: str
    keeper: int
    keeper_started: str | None


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """What is known of the agent's process: `kind` is unborn, runs, ended (with its exit code) or gone (without one)."""

    kind: str
    code: int | None = None
    left: tuple[tuple[int, str], ...] = ()  # (pid, start) of processes that it left behind

    @property
    def over(self) -> bool:
        return self.kind in (ENDED, GONE)


def folder_of(run_id: str) -> LaunchFolder:
    return LaunchFolder(os.path.join(paths.state_dir(), "runs", run_id))


class LaunchFolder:
    """Reads and writes the files of one launch."""

    __slots__ = ("_born", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._born: Birth | None = None  # once it is written it never changes

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def make(
        self, launch: dict[str, object], env: dict[str, str], prompt: str, files: dict[str, str] | None = None
    ) -> None:
        """Make the folder with all that the keeper needs, and the whole prompt; OSError if the disk refuses it."""
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        os.mkdir(self.path, 0o700)
        self._write("launch.json", {**launch, "boot": host.boot()})
        self._write("env.json", env)
        self._write("prompt.json", prompt)
        for name, text in (files or {}).items():
            self._write_text(name, text)
        if launch.get("pipe"):
            os.mkfifo(self.file("in"), 0o600)

    def remove(self) -> None:
        """Remove the folder with all files; for a start that was refused, and a run that is over and packed."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return
        for name in names:
            os.unlink(self.file(name))
        os.rmdir(self.path)

    def remove_environment(self) -> None:
        """Remove the agent's environment, which may have secrets, where no keeper has read it."""
        with suppress(FileNotFoundError):
            os.unlink(self.file("env.json"))

    def prompt(self) -> str:
        """The whole prompt; the registry has its beginning."""
        with open(self.file("prompt.json"), encoding="utf-8", errors="surrogateescape") as file:
            return str(json.load(file))

    def packet(self) -> str:
        """The first prompt of the new session that begins where the program refuses to resume; empty: none was made."""
        try:
            with open(self.file(PACKET), encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def registry(self) -> str | None:
        """The registry whose run it is; None if it was not made whole."""
        found = self._read("launch.json")
        return None if found is None else str(found.get("registry"))

    def run_folder(self) -> str | None:
        """The run folder that was made with it."""
        found = (self._read("launch.json") or {}).get("run_folder")
        return found if isinstance(found, str) else None

    def is_starter_dead(self) -> bool:
        """Whether the process that made the folder has died; False also where that is unknown."""
        found = self._read("launch.json") or {}
        pid, started = found.get("starter") or (None, None)
        return pid is not None and host.is_alive(None, str(found.get("boot")), pid, started) is False

    def holder(self) -> dict[str, str] | None:
        """What holds the agent's terminal, as it was chosen; None for a run without one."""
        found = (self._read("launch.json") or {}).get("holder")
        return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else None

    def place(self) -> dict[str, str]:
        """Where the keeper found itself: the variables of the multiplexer around it."""
        return {str(key): str(value) for key, value in (self._read("place.json") or {}).items()}

    def report(self) -> str | None:
        """What a keeper in a terminal answers; None so far."""
        found: object = self._read("report.json")
        return None if found is None else str(found)

    def birth(self) -> Birth | None:
        found = self._read("born.json") if self._born is None else None
        if found is not None:
            self._born = Birth(
                int(found["pid"]),
                str(found["started"]),
                str(found["boot"]),
                int(found["keeper"]),
                found.get("keeper_started"),
            )
        return self._born

    def shut_gate(self) -> bool:
        """Prevent a start that is not yet recorded; False if the agent may have started already."""
        try:
            handle = os.open(self.file("gate"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return not self._is_open()
        except FileNotFoundError:
            return True  # the folder was not made
        os.write(handle, b"shut")
        os.close(handle)
        return True

    def _is_open(self) -> bool:
        with open(self.file("gate"), "rb") as file:
            return file.read() != b"shut"  # empty: the keeper has made it and is about to start the agent

    def process(self) -> ProcessEnd:
        """What became of the agent's process: by the keeper's record, else by the system."""
        born = self.birth()
        if born is None:
            return ProcessEnd(UNBORN)
        recorded = self._recorded_end()
        if recorded is not None:
            return recorded
        if host.is_alive(None, born.boot, born.pid, born.started) is not False:
            return ProcessEnd(RUNS)
        code = _code_of_zombie(born)
        if code is not None:
            return ProcessEnd(ENDED, code)
        writes = born.keeper_started is not None and host.start_time(born.keeper) == born.keeper_started
        return self._recorded_end() or ProcessEnd(RUNS if writes else GONE)

    def _recorded_end(self) -> ProcessEnd | None:
        found = self._read("exit.json")
        if found is None:
            return None
        left = tuple((int(pid), str(started)) for pid, started in found["left"])
        return ProcessEnd(ENDED, int(found["code"]), left)

    # -- output -------------------------------------------------------------------------------------------------------

    def add_output(self, record: dict[str, object]) -> None:
        """Add a record to the output, beside what the program's hooks write there."""
        handle = os.open(self.file("out"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(handle, json.dumps(record).encode() + b"\n")  # one write, as several processes add lines
        finally:
            os.close(handle)

    def read_output(self, position: int, most: int) -> bytes:
        """At most so many bytes of the output from this position on; empty if there is none."""
        try:
            handle = os.open(self.file("out"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            there = os.fstat(handle).st_size - position  # a buffer of `most` bytes costs more than this question
            return os.pread(handle, min(most, there), position) if there > 0 else b""
        finally:
            os.close(handle)

    def record_at(self, position: int) -> dict[str, object] | None:
        """The JSON record of the output that begins there."""
        line, _, _ = self.read_output(position, _MOST_RECORD).partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def error_lines(self, most: int = 4000) -> str:
        """The end of what the agent wrote to its standard error."""
        try:
            with open(self.file("err"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read(most).decode("utf-8", "replace")
        except OSError:
            return ""

    # -- input --------------------------------------------------------------------------------------------------------

    def takes_messages(self) -> bool:
        """Whether the agent, or the bridge to its server, reads the named pipe."""
        return os.path.exists(self.file("in"))

    def send(self, messages: list[dict[str, object]]) -> None:
        """Send messages to the agent, in one piece each; Refused if it does not read."""
        self.send_next(lambda _: messages)

    def send_next(self, choose: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> bool:
        """Send what `choose` returns for the messages sent before, while no other process sends; whether it was anything.

        What is sent stands in `sent` before: after a crash a message may be missing, but none is sent twice.
        """
        lock = os.open(self.file("lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            data = b"".join(json.dumps(one).encode() + b"\n" for one in choose(list(self.sent())))
            if data:
                self._note_sent(data)
                self._write_pipe(data)
            return bool(data)
        finally:
            os.close(lock)

    def sent(self) -> Iterator[dict[str, object]]:
        """The messages that were sent, or are about to be."""
        try:
            with open(self.file("sent"), "rb") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                found = json.loads(line)
            except ValueError:  # torn by a crash
                continue
            yield found

    def _note_sent(self, data: bytes) -> None:
        handle = os.open(self.file("sent"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)

    def _write_pipe(self, data: bytes) -> None:
        until = time.monotonic() + _SEND_SECONDS
        handle = self._open_pipe()
        try:
            while data:
                try:
                    data = data[os.write(handle, data) :]
                except BlockingIOError:
                    if time.monotonic() > until or self.process().over:
                        raise Refused("the agent does not read what is sent to it", code="deaf") from None
                    time.sleep(0.01)
        except BrokenPipeError:
            raise _ended() from None
        finally:
            os.close(handle)

    def _open_pipe(self) -> int:
        """ENXIO: no process has it open, as before the agent opens it and after its end."""
        until = time.monotonic() + _SEND_SECONDS
        while True:
            try:
                return os.open(self.file("in"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.ENXIO or self.process().over or time.monotonic() > until:
                    raise _ended() from error
                time.sleep(0.005)

    def answer(self, ask: str, message: dict[str, object]) -> None:
        """Give the hook that asked its answer; Refused if it does not wait any more."""
        if not self._tell_hook(ask, json.dumps(message)):
            raise Refused("too late: it was answered in its window", code="too-late")

    def release(self, ask: str) -> None:
        """Let the hook leave whose question was answered in its window; Claude itself does not end it."""
        self._tell_hook(ask, "")

    def _tell_hook(self, ask: str, line: str) -> bool:
        """Write the line that the hook waits for; False if it does not wait any more."""
        if "/" in ask:  # an id of a program's own server
            return False
        try:
            handle = os.open(self.file(f"ask-{ask}"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            os.write(handle, line.encode() + b"\n")
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    # -- notes --------------------------------------------------------------------------------------------------------

    def add_line(self, name: str, line: str) -> None:
        with open(self.file(name), "a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def count_lines(self, name: str, line: str) -> int:
        """How often this line was added."""
        try:
            with open(self.file(name), encoding="utf-8") as file:
                return file.read().splitlines().count(line)
        except FileNotFoundError:
            return 0

    def mark(self, name: str) -> None:
        os.close(os.open(self.file(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def has_mark(self, name: str) -> bool:
        return os.path.exists(self.file(name))

    def _write(self, name: str, value: object) -> None:
        self._write_text(name, json.dumps(value))

    def _write_text(self, name: str, text: str) -> None:
        handle = os.open(self.file(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    def _read(self, name: str) -> dict[str, Any] | None:
        """None without the file, and for one that a full disk cut off."""
        try:
            with open(self.file(name), encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None


def _ended() -> Refused:
    return Refused("the agent has ended: `imi start --continue` takes its session up again", code="ended")


def _code_of_zombie(born: Birth) -> int | None:
    """The exit code of a process that ended and was not reaped, as below the first process of many containers."""
    if born.boot != host.boot():
        return None
    try:
        with open(f"/proc/{born.pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] != "Z" or fields[19] != born.started:
        return None
    return os.waitstatus_to_exitcode(int(fields[_STATUS_FIELD]))
