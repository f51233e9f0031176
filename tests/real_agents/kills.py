"""What is killed x when, on real programs: `python -m tests.real_agents.kills [PROGRAM…] [task|tmux|zellij…]`.

An agent that streams, runs a tool, asks or rests goes on when its follower and then a dashboard are killed by SIGKILL; without a
terminal also when its keeper is. With the keeper of its window, and with the server of its multiplexer, it ends, and resumes, as
after a SIGKILL of its own. After each kill: how long until the registry says what is true, and a dashboard that goes on shows it;
where the agent ends by itself, how much of that it took. At the end: what is recorded is what was said, and no process is left.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from imi_monitor.model import times
from imi_monitor.model.session_record import stored_text
from imi_monitor.runs import launch_folder, providers
from imi_monitor.store import db, runs
from tests.mux.zellij_kit import servers
from tests.real_agents import started
from tests.real_agents.started import StartedProgram, family, surroundings
from tests.runs.run_kit import followers, kill_followers, registry
from tests.runs.test_run_kills import recorded
from tests.ui.pty_kit import Terminal

PROGRAMS = ("claude", "codex")
_MOMENTS = {"idle": "[[hi]]", "stream": "[[slow]]", "tool": "[[long]]", "ask": "[[ask]]"}
_STATES = {"idle": ("idle",), "stream": ("works",), "tool": ("works", "idle"), "ask": ("asks",)}
_OVER = ("completed", "failed", "crashed", "cancelled")
_SHOWN = (b"crashed", b"dead", b"done", b"failed")
_ENDS = 60.0  # seconds that an end may take
_SETTLED = 3.0  # seconds after which a new dashboard has read everything


class KilledProgram(StartedProgram):
    """One program in one way, through the kills of each moment."""

    def play(self) -> None:
        for last in ("keeper", "agent"):
            for moment in _MOMENTS:
                self.step(f"{last} at {moment}", lambda moment=moment, last=last: self.kill_around(moment, last))  # type: ignore[misc]
        for moment in _MOMENTS if self.way != "task" else ():
            self.step(f"server at {moment}", lambda moment=moment: self.kill_server(moment))  # type: ignore[misc]

    def kill_server(self, moment: str) -> None:
        """With a server of its own, which is not there for the next moment."""
        folder = Path(os.environ["HOME"]).parent / moment
        folder.mkdir()
        with surroundings(self.way, folder):
            self.kill_around(moment, "server")

    def kill_around(self, moment: str, last: str) -> None:
        (self.tree / "asked.txt").unlink(missing_ok=True)
        run = self.start(f"{_MOMENTS[moment]} {moment}")
        self.allowed = ("yes",) if moment == "tool" else ()
        self.wait(run, *_STATES[moment])
        if moment == "tool":
            self.until("a tool", lambda: self.runs_tool(run), "the tool")
        session = self.with_session(run)["session"]
        if last == "keeper":
            with self.dashboard() as dashboard:
                before = followers()
                kill_followers()
                self.sees("follower", run, *_STATES[moment])
                self.until("a new follower", lambda: bool(set(followers()) - set(before)), "its successor")
                os.kill(dashboard.process.pid, signal.SIGKILL)
                self.sees("dashboard", run, *_STATES[moment])
        lives = last == "keeper" and self.way == "task"
        with self.dashboard(_SETTLED) as dashboard, self.end_of(run) as ended:
            dashboard.mark = len(dashboard.output)
            self.kill_holder(run, last)
            self.sees(last, run, *(_STATES[moment] if lives else _OVER))
            if not lives:
                self.notes[-1] += f", by itself {ended():.2f} s" if last != "agent" else ""
                self.until(
                    "word on the screen",
                    lambda: any(one in dashboard.output[dashboard.mark :] for one in _SHOWN),
                    "its screen",
                )
        if lives and moment == "ask":
            self.imi("answer", run, "yes")
            self.wait(run, "idle")
        self.imi("stop", run, may_fail=True)
        self.wait(run, *_OVER)
        assert not family(run), family(run)
        self.compare(run)
        if not lives:
            again = str(self.imi("resume", run, "--prompt", "[[hi]] again", "--way", "task")["id"])
            after = self.wait(again, "idle")
            assert after["session"] == session or "Its task:" in launch_folder.folder_of(again).prompt()
            self.imi("stop", again)
            assert not family(again)

    @contextmanager
    def dashboard(self, settled: float = 0.0) -> Iterator[Terminal]:
        """A dashboard in a terminal of its own, so many seconds after its first picture."""
        with Terminal([sys.executable, "-m", "imi_monitor"], cwd=self.tree, size=(120, 40)) as terminal:
            terminal.until(b"Worktrees")
            time.sleep(settled)
            yield terminal

    @contextmanager
    def end_of(self, run: str) -> Iterator[Callable[[], float]]:
        """A function that returns how long after this moment the agent's process had ended."""
        began, ends, watched = time.monotonic(), list[float](), os.pidfd_open(self.born(run)["pid"])
        thread = threading.Thread(target=lambda: ends.append(_wait_end(watched)), daemon=True)
        thread.start()

        def ended() -> float:
            thread.join(_ENDS)
            return ends[0] - began

        yield ended

    def runs_tool(self, run: str) -> bool:
        """Whether its tool runs; allows it where the agent asks."""
        if self.row(run)["asks"]:
            self.imi("answer", run, "yes", may_fail=True)
        return any(b"time.sleep(" in _command_line(pid) for pid in family(run))

    def born(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(launch_folder.folder_of(run).file("born.json")).read_text())
        return found

    def kill_holder(self, run: str, what: str) -> None:
        born = self.born(run)
        if what in ("keeper", "agent"):
            os.kill(born["keeper" if what == "keeper" else "pid"], signal.SIGKILL)
        elif self.way == "tmux":
            os.kill(int(os.environ["TMUX"].rsplit(",", 2)[1]), signal.SIGKILL)
        else:
            for pid in servers(os.environ["ZELLIJ_SOCKET_DIR"]):
                os.kill(pid, signal.SIGKILL)

    def sees(self, killed: str, run: str, *states: str) -> None:
        """How long it takes until the registry has one of these states."""
        began, passed = time.monotonic(), list[str]()
        with closing(db.connect(registry(), create=False)) as connection:
            while (found := runs.by_id(connection, run)) is not None and found.shown_state not in states:
                assert time.monotonic() < began + 60, f"{found.shown_state}, not {' or '.join(states)}"
                passed += [found.shown_state] if found.shown_state not in passed else []
                time.sleep(0.005)
        self.notes.append(f"{killed} {time.monotonic() - began:.2f} s{''.join(f', {one} before' for one in passed)}")

    def until(self, what: str, holds: Callable[[], bool], note: str) -> None:
        end = time.monotonic() + 30
        began = time.monotonic()
        while not holds():
            assert time.monotonic() < end, f"no {what}"
            time.sleep(0.01)
        self.notes.append(f"{note} {time.monotonic() - began:.2f} s")

    def compare(self, run: str) -> None:
        """Nothing that the agent said is lost, doubled or out of order."""
        way = "task" if self.way == "task" else "window"
        reader, position, messages = providers.by_name(self.cli).reader(way), 0, list[str | None]()
        for line in Path(launch_folder.folder_of(run).file("out")).read_bytes().splitlines(keepends=True):
            reader.add(line.rstrip(b"\n"), position, times.stamp())
            position += len(line)
            messages += [stored_text(one.text) for one in reader.take_events() if one.kind == "message"]
        kept = recorded(run)
        if (
            reader.transcript is not None
        ):  # hooks report no messages: a dashboard, which was killed, records them from there
            messages = _texts(Path(reader.transcript))[: len(kept)]
        assert kept == messages, f"{len(kept)} recorded, {len(messages)} said"
        self.notes.append(f"{len(kept)} messages")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def _wait_end(process: int) -> float:
    """When the process of this descriptor had ended; closes the descriptor."""
    select.select([process], [], [], _ENDS)
    os.close(process)
    return time.monotonic()


def _texts(transcript: Path) -> list[str | None]:
    """What a Claude said."""
    records = [json.loads(line) for line in transcript.read_text().splitlines()] if transcript.exists() else []
    said = [one["message"]["content"] for one in records if one.get("type") == "assistant"]
    return [stored_text(part["text"].strip()) for blocks in said for part in blocks if part["type"] == "text"]


if __name__ == "__main__":
    sys.exit(started.main(sys.argv[1:], KilledProgram, PROGRAMS))
