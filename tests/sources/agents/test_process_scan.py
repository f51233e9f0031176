"""The scan of real processes: which are agents, in which folder, folded into one, and how few files a scan opens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.model.agent import UNKNOWN
from imi_monitor.sources.agents import known_programs, process_scan, psutil_scan
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext
from imi_monitor.sources.agents.process_names import ProgramNames
from imi_monitor.sources.agents.process_scan import ProcessScan
from imi_monitor.sources.agents.procfs import ProcFs
from tests.sources.agents.fake_processes import SHELL, named, running, script, soon

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


class Clock:
    """Advances one second per call, so that every scan really runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class RecordingProc(ProcFs):
    """The real /proc, with what was read, and with processes that look like something else."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.listed = 0
        self.hidden: set[int] = set()  # their folders are not readable
        self.of_others = False  # all processes belong to another user
        self.reused: set[int] = set()  # their pids are used again

    def read(self, path: str, most: int) -> bytes:
        self.opened.append(path)
        return super().read(path, most)

    def examined(self, pid: int) -> bool:
        return f"/proc/{pid}/cmdline" in self.opened

    def pids(self) -> dict[int, int]:
        self.listed += 1
        return {pid: -1 if pid in self.reused else number for pid, number in super().pids().items()}

    def owner(self, pid: int) -> int | None:
        return os.getuid() + 1 if self.of_others else super().owner(pid)

    def cwd(self, pid: int) -> str | None:
        return None if pid in self.hidden else super().cwd(pid)

    def raw_cwd(self, pid: int) -> str | None:
        return None if pid in self.hidden else super().raw_cwd(pid)


class Here:
    """A folder with agents in it, and the scan of processes below it."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.cwd = tmp / "wt"
        self.cwd.mkdir()
        self.clock = Clock()
        self.proc = RecordingProc()
        self.scan = ProcessScan(self.clock, self.proc)

    def agents(self) -> list[AgentProcess]:
        return [one for one in self.scan() if one.cwd.startswith(str(self.tmp))]

    def grow_old(self, pid: int) -> None:
        """Make the process old, and examined just now: the next examination comes with its turn."""
        self.clock.now += 100
        self.scan()
        self.proc.opened.clear()
        while not self.proc.examined(pid):
            self.proc.opened.clear()
            self.scan()
        self.proc.opened.clear()

    def one(self) -> AgentProcess:
        found: list[AgentProcess] = []

        def there() -> bool:
            found[:] = self.agents()
            return len(found) == 1

        soon(there)
        return found[0]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    yield Here(tmp_path.resolve())


def test_a_native_agent_program(here: Here) -> None:
    path = named(here.tmp, "claude")
    assert here.agents() == []
    with running([path, "60"], here.cwd) as process:
        soon(lambda: host.process_name(process.pid) == "claude")
        one = here.one()
        assert (one.cli, one.pid, one.cwd, one.argv) == ("claude", process.pid, str(here.cwd), (path, "60"))
        assert one.started == host.start_time(process.pid)
        assert one.ancestors[0] == os.getpid()
        assert one.family == frozenset()
        assert abs(one.began_at - os.stat(f"/proc/{process.pid}").st_mtime) < 30
        assert here.agents() == [one], "nothing moved, nothing is another"
    assert here.agents() == []


def test_a_node_wrapper_and_its_program_are_one(here: Here) -> None:
    node = named(here.tmp / "n", "node", SHELL)
    codex = named(here.tmp / "vendor", "codex")
    wrapper = script(here.tmp / "node_modules/@openai/codex/bin/codex.js", f"{codex} 60\nexit $?\n")
    with running([node, wrapper], here.cwd) as process:
        soon(lambda: any(one.pid != process.pid and one.argv[0] == codex for one in here.agents()))
        one = here.one()
        assert (one.cli, one.family) == ("codex", frozenset({process.pid}))
        assert one.ancestors[:2] == (process.pid, os.getpid())
        assert one.argv == (codex, "60")


def test_a_program_that_starts_itself_again_is_one(here: Here) -> None:
    node = named(here.tmp / "n", "node", SHELL)
    gemini = script(
        here.tmp / "bin/gemini", f'if [ "$1" = again ]; then read x; exit; fi\n{node} "$0" again <&0\nexit $?\n'
    )
    with running([node, gemini], here.cwd, stdin=subprocess.PIPE) as process:
        # a child is a copy of the wrapper for a moment, before it is a program of its own
        soon(lambda: any(one.pid != process.pid and one.argv[-1] == "again" for one in here.agents()))
        one = here.one()
        assert (one.cli, one.family, one.argv[-1]) == ("gemini", frozenset({process.pid}), "again")


def test_agents_that_an_agent_started_are_agents(here: Here) -> None:
    """They are children of a shell that the agent started."""
    claude = named(here.tmp, "claude", SHELL)
    inner = named(here.tmp / "in", "claude")
    with running([claude, "-c", f"sh -c '{inner} 60; true'; true"], here.cwd):
        soon(lambda: len(here.agents()) == 2)
        assert all(one.cli == "claude" and not one.family for one in here.agents())


def test_helpers_are_no_agents(here: Here) -> None:
    codex = named(here.tmp, "codex", SHELL)
    with running([codex, "-c", "read x", "app-server"], here.cwd, stdin=subprocess.PIPE) as process:
        soon(lambda: host.process_name(process.pid) == "codex")
        assert here.agents() == []


def test_a_shell_that_becomes_an_agent_is_seen_young_or_old(here: Here) -> None:
    claude = named(here.tmp, "claude")
    shell = [SHELL, "-c", f"read x; exec {claude} 60"]
    for scans in (2, 40):
        with running(shell, here.cwd, stdin=subprocess.PIPE) as process:
            for _ in range(scans):
                assert here.agents() == []
            assert process.stdin is not None
            process.stdin.write(b"now\n")
            process.stdin.flush()
            soon(lambda pid=process.pid: host.process_name(pid) == "claude")  # type: ignore[misc]
            assert any(here.agents() for _ in range(2 if scans == 2 else 33))
            assert here.one().pid == process.pid


def test_a_deleted_folder_is_still_shown(here: Here) -> None:
    with running([named(here.tmp, "claude"), "60"], here.cwd):
        assert here.one().cwd == str(here.cwd)
        shutil.rmtree(here.cwd)
        assert here.one().cwd == str(here.cwd)


def test_a_folder_named_like_a_deleted_one(here: Here) -> None:
    odd = here.tmp / "wt (deleted)"
    odd.mkdir()
    with running([named(here.tmp, "claude"), "60"], odd):
        assert here.one().cwd == str(odd)


def test_a_moved_folder_and_another_one(here: Here) -> None:
    claude = script(here.tmp / "bin/claude", f"#!{SHELL}\nread x\ncd ..\nread y\n")
    os.chmod(claude, 0o755)
    with running([claude], here.cwd, stdin=subprocess.PIPE) as process:
        assert here.one().cwd == str(here.cwd)
        os.rename(here.cwd, here.tmp / "moved")
        assert here.one().cwd == str(here.tmp / "moved")
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        soon(lambda: here.one().cwd == str(here.tmp))


def test_a_zombie_has_ended_and_a_stopped_process_is_suspended(here: Here) -> None:
    with running([named(here.tmp, "claude"), "60"], here.cwd) as process:
        one = here.one()
        os.kill(process.pid, signal.SIGSTOP)
        soon(lambda: host.is_suspended(process.pid))
        assert here.agents() == [replace(one, suspended=True)]
        sighting = process_scan.make().read(
            ReadContext(0.0, str(here.tmp), {}, (str(here.cwd),), tuple(here.agents())), None
        )[0]
        assert "claude process is suspended (ctrl-z, SIGSTOP)" in sighting.evidence[0].says
        here.grow_old(process.pid)
        assert here.agents()[0].suspended
        os.kill(process.pid, signal.SIGCONT)
        soon(lambda: here.agents() == [one])
        here.grow_old(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        soon(lambda: host.start_time(process.pid) is None)
        assert os.path.exists(f"/proc/{process.pid}"), "it is a zombie"
        assert here.agents() == []


def test_an_agent_with_a_hidden_folder_has_that_of_its_wrapper(here: Here) -> None:
    """codex hardens itself: only root may read its folder, and /proc/<pid> belongs to root."""
    with running([SHELL, "-c", f"{named(here.tmp, 'codex')} 60; true"], here.cwd) as process:
        soon(lambda: any(one.cli == "codex" for one in here.agents()))
        pid = here.one().pid
        here.proc.hidden.add(pid)
        assert (here.one().pid, here.one().cwd, process.pid in here.one().ancestors) == (pid, str(here.cwd), True)


def test_processes_of_other_users_are_ignored(here: Here) -> None:
    here.proc.of_others = True
    with running([named(here.tmp, "claude"), "60"], here.cwd) as process:
        soon(lambda: host.process_name(process.pid) == "claude")
        assert here.agents() == []


def test_the_owner_is_the_real_user() -> None:
    assert ProcFs().owner(os.getpid()) == os.getuid()
    assert ProcFs().owner(2**22 + 1) is None


def test_a_scan_opens_files_of_new_processes_and_agents_only(here: Here) -> None:
    """Judged by processes of its own: others start and end meanwhile, and are young then."""
    clock, opened, scan, rounds = here.clock, here.proc.opened, here.scan, 32
    with ExitStack() as stack:
        idle = [stack.enter_context(running(["sleep", "60"], here.cwd)).pid for _ in range(16)]
        process = stack.enter_context(running([named(here.tmp, "claude"), "60"], here.cwd))
        soon(lambda: host.process_name(process.pid) == "claude")
        scan()
        assert all(here.proc.examined(pid) for pid in idle), "the first scan opens files of every process"
        clock.now += 100
        for _ in range(3):
            scan()
        own, seen = f"/proc/{process.pid}/stat", Counter[int]()
        for _ in range(rounds):
            opened.clear()
            scan()
            assert own in opened
            there = {path.split("/")[2] for path in opened}
            in_turn = [pid for pid in idle if str(pid) in there]
            assert len({pid % rounds for pid in in_turn}) <= 1, "old processes are examined in turn, each by its number"
            seen.update(in_turn)
        assert seen == dict.fromkeys(idle, 1), "each old process once"
        new = stack.enter_context(running(["sleep", "60"], here.cwd)).pid
        opened.clear()
        scan()
        assert here.proc.examined(new) and len([pid for pid in idle if here.proc.examined(pid)]) <= 1


def test_frequent_file_events_cause_no_extra_scans() -> None:
    now, proc = [0.0], RecordingProc()
    scan = ProcessScan(lambda: now[0], proc)
    for _ in range(40):
        scan()
        now[0] += 0.05
    assert proc.listed <= 5


def test_pids_that_are_used_again_have_another_number(here: Here) -> None:
    with running(["sleep", "60"], here.cwd) as one, running(["sleep", "60"], here.cwd) as other:
        numbers = here.proc.pids()
        assert numbers[one.pid] != numbers[other.pid]
        assert here.proc.pids()[one.pid] == numbers[one.pid]
    with running([named(here.tmp, "claude"), "60"], here.cwd) as process:
        assert here.one().pid == process.pid
        here.grow_old(process.pid)
        here.agents()
        assert not here.proc.examined(process.pid), "an old process is examined in its turn only"
        here.proc.reused.add(process.pid)
        assert here.one().pid == process.pid
        assert here.proc.examined(process.pid)


def test_psutil_finds_the_same_agents(here: Here) -> None:
    node = named(here.tmp / "n", "node", SHELL)
    codex = named(here.tmp / "vendor", "codex")
    wrapper = script(here.tmp / "node_modules/@openai/codex/bin/codex.js", f"{codex} 60\nexit $?\n")
    with running([node, wrapper], here.cwd), running([named(here.tmp, "claude"), "60"], here.cwd) as process:
        soon(lambda: len(here.agents()) == 2 and all(one.argv[-1] == "60" for one in here.agents()))
        theirs = [one for one in psutil_scan.scan(ProgramNames(known_programs())) if one.cwd == str(here.cwd)]
        assert [_without_moment(one) for one in theirs] == [_without_moment(one) for one in here.agents()]
        assert all(abs(left.began_at - right.began_at) < 5 for left, right in zip(theirs, here.agents(), strict=True))
        assert not any(one.suspended for one in theirs)
        os.kill(process.pid, signal.SIGSTOP)
        soon(lambda: host.is_suspended(process.pid))
        assert {one.pid for one in psutil_scan.scan(ProgramNames(known_programs())) if one.suspended} == {process.pid}
    soon(lambda: not any(one.cwd == str(here.cwd) for one in psutil_scan.scan(ProgramNames(known_programs()))))


def _without_moment(one: AgentProcess) -> tuple[Any, ...]:
    return one.cli, one.pid, one.started, one.cwd, one.argv, one.family, one.ancestors, one.tty


def test_a_process_alone_is_an_unknown_state(here: Here) -> None:
    with running([named(here.tmp, "claude"), "60"], here.cwd) as process:
        world = ReadContext(0.0, str(here.tmp), {}, (str(here.cwd),), (here.one(),))
        (seen,) = process_scan.make().read(world, frozenset())
        assert (seen.cli, seen.session, seen.pid, seen.alive) == ("claude", None, process.pid, True)
        (evidence,) = seen.evidence
        assert (evidence.source, evidence.state, evidence.standing) == ("process", UNKNOWN, True)
        assert str(process.pid) in evidence.says
        elsewhere = ReadContext(0.0, str(here.tmp), {}, (str(here.tmp / "other"),), (here.one(),))
        assert process_scan.make().read(elsewhere, None) == []
