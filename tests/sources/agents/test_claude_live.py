"""A running fake Claude and the real agents source, with file events, process scan and clock."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, EXACT, FAILED, RUNNING, WAITING, Agent
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agents_source import AgentsSource
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.sources.files.tiered_watcher import choose_watcher
from tests.sources.agents.fake_processes import running
from tests.sources.agents.fakes import claude as fake
from tests.sources.agents.test_agents_source import Notes, entry
from tests.sources.source_kit import running as running_source


class Course:
    def __init__(self, folder: Path, programs: ExitStack) -> None:
        self.worktree = folder / "feat-a"
        self.worktree.mkdir()
        self.config = folder / "home/.claude"
        (self.config / "sessions").mkdir(parents=True)
        (self.config / "projects").mkdir()
        self.notes = Notes()
        self.kept: list[str] = []
        self._programs = programs

    async def claude(self, session: str = "-") -> Program:
        argv = ["claude", fake.__file__, str(self.config), str(self.worktree), session]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        program = Program(
            self._programs.enter_context(running(argv, self.worktree, executable=sys.executable, **pipes))
        )
        await program.begun()
        return program

    async def sees(self, *states: str, shown: str = "") -> list[Agent]:
        def so() -> bool:
            told = [f"{one.truth.tool} {one.truth.detail}" for one in self.notes.agents]
            return sorted(one.state for one in self.notes.agents) == sorted(states) and any(
                shown in one for one in told
            )

        try:
            await self.notes.until(so)
        except TimeoutError:
            raise AssertionError((states, shown, self.notes.agents, self.notes.troubles)) from None
        return list(self.notes.agents)


class Program:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.session = ""

    async def begun(self) -> None:
        self.session = await self._line()

    async def does(self, *commands: str) -> None:
        for command in commands:
            assert self.process.stdin is not None
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
            if command not in ("crash", "exit"):
                assert await self._line() == "ok", command
        if commands[-1] in ("crash", "exit"):
            await asyncio.to_thread(self.process.wait)

    async def _line(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.to_thread(self.process.stdout.readline)).decode().strip()


def play(folder: Path, work: Callable[[Course], Coroutine[Any, Any, None]]) -> Course:
    async def main(course: Course) -> None:
        async def keep(seen: Any) -> None:
            one: SeenAgent
            for one in seen:
                course.kept += [happened.kind for happened in one.events]

        watcher = choose_watcher()
        source = AgentsSource(watcher, agents.all_readers, agents.process_scanner, keep, {})
        source.set_roster((entry(course.worktree),))
        async with running_source(source, course.notes, watcher):
            await work(course)
        assert course.notes.troubles == []

    with ExitStack() as programs:
        course = Course(folder, programs)
        asyncio.run(main(course))
    return course


def test_a_day_of_work(tmp_path: Path) -> None:
    async def work(course: Course) -> None:
        claude = await course.claude()
        await claude.does("start")
        (agent,) = await course.sees(COMPLETED)
        assert (agent.cli, agent.session, agent.pid) == ("claude", claude.session, claude.process.pid)
        await claude.does("prompt make it so")
        await course.sees(RUNNING)
        await claude.does(f"tool Edit {course.worktree}/src/api.ts")
        await course.sees(RUNNING, shown="Edit src/api.ts")
        await claude.does("result")
        await claude.does("tool Bash touch x", "ask")
        (agent,) = await course.sees(WAITING, shown="permission for Bash touch x")
        assert (agent.truth.source, agent.truth.confidence) == ("registry", EXACT)
        await claude.does("result", "question Which colour?")
        await course.sees(WAITING, shown="question: Which colour?")
        await claude.does("result Blue")
        await course.sees(RUNNING)
        await claude.does("finish Done.")
        (agent,) = await course.sees(COMPLETED)
        assert agent.facts.last_message == "Done."
        assert agent.facts.files == (f"{course.worktree}/src/api.ts",)
        await claude.does("prompt again", "retry")
        await course.sees(RUNNING, shown="retrying 1/10")
        await claude.does("esc_while_retrying")
        await course.sees(CANCELLED, shown="stopped without a record")
        await claude.does("prompt again", "fail API Error: 529 overloaded")
        await course.sees(FAILED, shown="529")
        await claude.does("exit")
        await course.notes.until(lambda: course.notes.agents[0].truth.ended)
        (agent,) = await course.sees(FAILED)

    course = play(tmp_path, work)
    assert set(course.kept) >= {
        "started",
        "prompt",
        "tool_started",
        "tool_finished",
        "waits",
        "answered",
        "message",
        "completed",
        "failed",
        "ended",
    }


def test_killed_suspended_and_resumed(tmp_path: Path) -> None:
    async def work(course: Course) -> None:
        claude = await course.claude()
        await claude.does("start", "prompt sleep", "tool Bash sleep 100")
        (agent,) = await course.sees(RUNNING, shown="Bash sleep 100")
        os.kill(claude.process.pid, signal.SIGSTOP)
        before = course.notes.agent_reports
        await course.notes.until(lambda: course.notes.agent_reports > before + 1)
        await course.sees(RUNNING, shown="Bash sleep 100")
        os.kill(claude.process.pid, signal.SIGCONT)
        await claude.does("crash")
        (dead,) = await course.sees(DEAD)
        assert (dead.id, dead.truth.ended) == (agent.id, True)
        again = await course.claude(claude.session)
        await again.does("start")
        (resumed,) = await course.sees(CANCELLED)
        assert (resumed.id, resumed.pid, resumed.truth.ended) == (agent.id, again.process.pid, False)
        await again.does("prompt go on")
        await course.sees(RUNNING)
        await again.does("finish There.")
        await course.sees(COMPLETED)
        await again.does("clear")
        seen = await course.sees(COMPLETED, COMPLETED)
        assert sorted(one.truth.ended for one in seen) == [False, True]
        await again.does("prompt in the new session")
        await course.sees(COMPLETED, RUNNING)
        await again.does("crash")
        await course.sees(COMPLETED, DEAD)

    play(tmp_path, work)


def test_a_dialog_at_the_start_and_work_in_the_background(tmp_path: Path) -> None:
    async def work(course: Course) -> None:
        claude = await course.claude()
        (agent,) = await course.sees(WAITING, shown="dialog")
        assert (agent.session, agent.pid) == (None, claude.process.pid)
        await claude.does("start")
        (agent,) = await course.sees(COMPLETED)
        assert agent.session == claude.session
        await claude.does("prompt serve", "background npm run dev", "finish It runs.")
        await course.sees(RUNNING, shown="Bash npm run dev")
        await claude.does("background_over", "finish It ended.")
        await course.sees(COMPLETED)

    play(tmp_path, work)
