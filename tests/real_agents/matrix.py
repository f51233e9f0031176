"""What imi says of each state of a real program: once by a monitor that runs all the time, once by one that starts now."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, EXACT, RESTING, RUNNING, UNKNOWN, WAITING, Agent
from imi_monitor.model.snapshot import Key
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agent_poll import AgentPoll
from tests.real_agents.programs import RealProgram, command
from tests.real_agents.recorder import Recorder
from tests.real_agents.terminals import Terminal, TmuxServer

_SETTLES = 3.0  # seconds in which a state may still be the former one
WORKS, ASKS, RESTS, GONE = {RUNNING}, {WAITING}, set(RESTING), {DEAD, CANCELLED, COMPLETED}


@dataclass(frozen=True)
class Finding:
    """One cell of the table."""

    program: str
    step: str
    who: str  # `running`: the monitor that runs all the time; `fresh`: one that starts now
    expected: frozenset[str]
    state: str
    confidence: str
    source: str

    @property
    def verdict(self) -> str:
        """right, likely (right, and imi says so itself), unknown, unsure (wrong, but only likely) or WRONG."""
        if self.state in self.expected:
            return "right" if self.confidence == EXACT else "likely"
        if self.state == UNKNOWN:
            return "unknown"
        return "WRONG" if self.confidence == EXACT else "unsure"


class ProgramRun:
    """One program with its worktree, from its first start to its last end."""

    def __init__(
        self, program: RealProgram, tree: Path, home: Path, port: int, server: TmuxServer, *, records: bool = False
    ) -> None:
        self._program, self._tree, self._server = program, tree, server
        self._env = {"HOME": str(home), **program.set_up(home, port, tree)}
        self._roots = {os.path.realpath(tree): Key("host", "app", tree.name)}
        self._running = AgentPoll(agents.all_readers(), agents.process_scanner(), os.environ)
        self._sessions: dict[int, str] = {}  # pane -> its session, once known
        self._recorder = Recorder(program.cli, home, tree) if records else None
        self.findings: list[Finding] = []

    def open(self, *argv: str) -> Terminal:
        return self._server.open(self._tree, [*command(self._program), *argv], self._env)

    def start(self, *argv: str) -> Terminal:
        """A terminal in which the program stands at its prompt."""
        return self.reach_prompt(self.open(*argv))

    def reach_prompt(self, terminal: Terminal) -> Terminal:
        """Answer the dialogs at its start."""
        end = time.monotonic() + 120
        while not terminal.shows(self._program.prompt):
            trust = ((self._program.trust, self._program.trusts),) if self._program.trust else ()
            for pattern, keys in (*trust, *self._program.first):
                if terminal.shows(pattern):
                    terminal.keys(*keys)
            if time.monotonic() > end:
                raise TimeoutError(f"{self._program.cli} never came to its prompt:\n{terminal.screen()}")
            self._look(self._running)
            time.sleep(0.5)
        return terminal

    def check(self, step: str, terminal: Terminal, expected: Collection[str]) -> None:
        """Compare what both monitors say of the agent in this terminal."""
        if self._recorder is not None:
            self._recorder.step(step, terminal.pid, terminal.processes(), expected)
        end = time.monotonic() + _SETTLES
        while time.monotonic() < end:
            found = self._of(terminal, self._look(self._running))
            time.sleep(0.3)
        fresh = AgentPoll(agents.all_readers(), agents.process_scanner(), os.environ)
        self._note(step, "running", expected, found)
        self._note(step, "fresh", expected, self._of(terminal, self._look(fresh)))
        if self._recorder is not None:
            self._recorder.leave(terminal.pid)

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def _note(self, step: str, who: str, expected: Collection[str], one: Agent | None) -> None:
        state, confidence, source = ("missing", EXACT, "-") if one is None else _told(one)
        if one is None and set(expected) == GONE:
            state = CANCELLED  # nothing is shown of an agent that ended before it was asked anything
        self.findings.append(Finding(self._program.cli, step, who, frozenset(expected), state, confidence, source))

    def _look(self, poll: AgentPoll) -> list[Agent]:
        return [one.agent for one in poll.poll(None, self._roots).agents]

    def _of(self, terminal: Terminal, found: list[Agent]) -> Agent | None:
        mine = set(terminal.processes())
        living = next((one for one in found if one.pid in mine and not one.truth.ended), None)
        if living is not None:
            if living.session is not None:
                self._sessions[terminal.pid] = living.session
            return living
        session = self._sessions.get(terminal.pid)
        return next((one for one in found if session is not None and one.session == session), None)


def _told(one: Agent) -> tuple[str, str, str]:
    return one.state, one.truth.confidence, one.truth.source or "-"


def drive(run: ProgramRun, program: RealProgram) -> None:
    """The steps: each brings the real program into a state, which its screen shows, and checks what imi says."""
    first = run.open(*program.start)
    if program.trust:
        first.wait(program.trust, 120)
        time.sleep(4)  # a dialog that is told from what is missing is told after some seconds
        run.check("asks whether its folder is trusted", first, ASKS)
    run.reach_prompt(first)
    run.check("never asked", first, RESTS)
    first.type("[[slow]] one")
    first.wait("word3")
    run.check("streams an answer", first, WORKS)
    first.keys(*program.interrupt)
    first.wait(program.stopped)
    run.check("stopped by Esc", first, RESTS)
    first.type("[[ask]] two")
    first.wait(program.asks)
    run.check("asks for a permission", first, ASKS)
    second = run.start(*program.start)
    run.check("asks, another one is ready beside it", first, ASKS)
    run.check("ready beside one that asks", second, RESTS)
    first.keys(*program.allow)
    _gone(first, program.asks)
    first.wait(r"Done\.")
    run.check("done after the permission", first, RESTS)
    second.type("[[slow]] three")
    second.wait("word3")
    run.check("streams beside one that is done", second, WORKS)
    run.check("done beside one that streams", first, RESTS)
    second.kill()
    run.check("killed at work", second, {DEAD})
    run.check("done beside a killed one", first, RESTS)
    first.type("[[run]] four")
    _until(first, lambda: _is_allowed(first, program))
    run.check("runs a command", first, WORKS)
    first.kill()
    run.check("killed while a command ran", first, {DEAD})
    again = run.start(*program.resume)
    time.sleep(2)
    run.check("resumed after the kill", again, RESTS)
    again.type("[[hi]] five")
    again.wait(r"Hello\.")
    time.sleep(3)
    run.check("done after it was resumed", again, RESTS)
    for key in program.quit:
        again.keys(key)
    _until(again, again.ended)
    run.check("closed", again, GONE)


def _is_allowed(terminal: Terminal, program: RealProgram) -> bool:
    """True once the command runs; answers its dialog, which takes no key in its first moment."""
    if terminal.shows(program.asks):
        terminal.keys(*program.allow)
        time.sleep(1)
    return terminal.runs("python3")


def _gone(terminal: Terminal, pattern: str) -> None:
    _until(terminal, lambda: not terminal.shows(pattern))


def _until(terminal: Terminal, true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"the program never came to the next step:\n{terminal.screen()}")
        time.sleep(0.2)
