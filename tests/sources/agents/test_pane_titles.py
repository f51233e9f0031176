"""Pane titles in a real tmux and in a fake Zellij, and no cost without either."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING
from imi_monitor.mux import tmux as tmux_module
from imi_monitor.sources.agents import known_programs, pane_titles
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext
from tests.audit_events import recorded
from tests.limits import LIMIT


@pytest.mark.parametrize(
    ("cli", "title", "state"),
    [
        ("codex", "[ . ] Action Required | proj", WAITING),
        ("codex", "[ ! ] Action Required | proj", WAITING),
        ("codex", "⠋ proj", RUNNING),
        ("codex", "proj", COMPLETED),
        ("codex", "zsh", None),
        ("codex", "", None),
        ("gemini", "✋  Action Required (proj)", WAITING),
        ("gemini", "✦  Working… (proj)", RUNNING),
        ("gemini", "◇  Ready (proj)", COMPLETED),
        ("gemini", "proj", None),
        ("gemini", "vim Action Required.md", None),
        ("claude", "✳ Claude Code", None),
        ("opencode", "OC | Action Required", None),
    ],
)
def test_the_state_of_a_title(cli: str, title: str, state: str | None) -> None:
    (program,) = [one for one in known_programs() if one.cli == cli]
    assert pane_titles.state_of(program, title, "/work/proj") == state


class Tmux:
    """A tmux server with its socket in the usual folder."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / f"tmux-{os.getuid()}" / f"t{uuid.uuid4().hex[:6]}"
        self.socket.parent.mkdir(mode=0o700)
        self.run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "/bin/cat")
        self.pid = int(self.run("display-message", "-p", "#{pid}"))

    def run(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self.socket), *words], capture_output=True, text=True, check=True, timeout=90
        )
        return done.stdout.strip()

    def window(self, command: str) -> tuple[str, int, str]:
        """(pane, pid, tty) of a new one."""
        pane, pid, tty = self.run("new-window", "-d", "-P", "-F", "#{pane_id} #{pane_pid} #{pane_tty}", command).split(
            " "
        )
        return pane, int(pid), tty

    def title(self, pane: str, text: str) -> None:
        self.run("select-pane", "-t", pane, "-T", text)


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    folder = Path("/tmp") / f"imi-t-{uuid.uuid4().hex[:8]}"  # the name of a socket must be short
    folder.mkdir()
    server = Tmux(folder)
    try:
        yield server
    finally:
        subprocess.run(["tmux", "-S", str(server.socket), "kill-server"], check=False, capture_output=True, timeout=90)
        end = time.monotonic() + 10
        while host.start_time(server.pid) is not None and time.monotonic() < end:
            time.sleep(0.02)
        shutil.rmtree(folder)


def process(cli: str, tree: Path, pid: int, **more: object) -> AgentProcess:
    return AgentProcess(cli, pid, "1", str(tree), (cli,), 0.0, **more)  # type: ignore[arg-type]


class Watched:
    """A reader with a clock of its own."""

    def __init__(self, tree: Path, env: dict[str, str]) -> None:
        self.reader, self.tree, self.env, self.now = pane_titles.PaneTitleReader(), tree, env, 1_800_000_000.0
        self.processes: tuple[AgentProcess, ...] = ()

    def read(self, later: float = 10) -> dict[int, tuple[str | None, str | None]]:
        """pid -> (state of its title, pane)."""
        self.now += later
        world = ReadContext(self.now, "/", self.env, (str(self.tree),), self.processes)
        return {
            one.pid or 0: (one.evidence[0].state if one.evidence else None, one.facts.tmux or one.facts.zellij)
            for one in self.reader.read(world, frozenset())
        }


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path, {"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(tmp_path), "LC_ALL": "C"})


def test_titles_of_a_real_tmux(tmux: Tmux, watched: Watched) -> None:
    watched.env["TMUX_TMPDIR"] = str(tmux.socket.parent.parent)
    by_tty, pid, tty = tmux.window("/bin/cat")
    wrapped, shell, _ = tmux.window("/bin/cat")
    claude, claude_pid, _ = tmux.window("/bin/cat")
    watched.processes = (
        process("gemini", watched.tree, pid + 100_000, tty=tty),
        process("codex", watched.tree, shell + 200_000, ancestors=(shell + 300_000, shell, 1)),
        process("claude", watched.tree, claude_pid),
        process("codex", watched.tree, 999_999, tty="/dev/pts/9999", ancestors=(1,)),
        process("codex", Path("/elsewhere"), pid, tty=tty),
    )
    tmux.title(by_tty, "✋  Action Required (x)")
    tmux.title(wrapped, "⠹ x")
    tmux.title(claude, "✳ Claude Code")
    seen = watched.read()
    assert seen == {pid + 100_000: (WAITING, by_tty), shell + 200_000: (RUNNING, wrapped), claude_pid: (None, claude)}
    tmux.title(by_tty, "✦  Working… (x)")
    tmux.title(wrapped, "[ . ] Action Required | x")
    seen = watched.read()
    assert (seen[pid + 100_000][0], seen[shell + 200_000][0]) == (RUNNING, WAITING)


def test_panes_are_listed_at_once_when_a_program_with_titles_starts(tmux: Tmux, watched: Watched) -> None:
    """Before, only Claude ran, which shows nothing in its title: the panes were listed rarely."""
    watched.env["TMUX_TMPDIR"] = str(tmux.socket.parent.parent)
    claude, claude_pid, _ = tmux.window("/bin/cat")
    codex, codex_pid, _ = tmux.window("/bin/cat")
    watched.processes = (process("claude", watched.tree, claude_pid),)
    assert watched.read() == {claude_pid: (None, claude)}
    tmux.title(codex, "[ . ] Action Required | x")
    watched.processes += (process("codex", watched.tree, codex_pid),)
    assert watched.read(later=1)[codex_pid] == (WAITING, codex)


def test_the_folder_in_a_title_may_be_that_of_the_repository(tmp_path: Path) -> None:
    codex = next(one for one in known_programs() if one.cli == "codex")
    root = tmp_path / "feat-x"
    for title, expected in (("deep", COMPLETED), ("feat-x", COMPLETED), ("src", COMPLETED), ("other", None)):
        assert pane_titles.state_of(codex, title, str(root / "src" / "deep"), str(root)) == expected, title
    assert pane_titles.state_of(codex, "feat-x", str(root / "src" / "deep")) is None, "no worktree is known"


def test_a_title_set_by_an_escape_sequence(tmux: Tmux, watched: Watched) -> None:
    watched.env["TMUX"] = f"{tmux.socket},1,0"
    text = r"\033]0;\342\234\213  Action Required (a\tb\033[31m)\007"
    pane, pid, _ = tmux.window(f"printf '{text}'; exec cat")
    watched.processes = (process("gemini", watched.tree, pid),)
    end = time.monotonic() + 20
    while watched.read() != {pid: (WAITING, pane)}:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_title_has_its_first_and_last_time(tmux: Tmux, watched: Watched) -> None:
    watched.env["TMUX"] = f"{tmux.socket},1,0"
    pane, pid, _ = tmux.window("/bin/cat")
    watched.processes = (process("gemini", watched.tree, pid),)
    tmux.title(pane, "✋  Action Required (x)")

    def evidence() -> tuple[str, str | None]:
        (found,) = watched.reader.read(
            ReadContext(watched.now, "/", watched.env, (str(watched.tree),), watched.processes), None
        )
        return found.evidence[0].at, found.evidence[0].read_at

    first = evidence()
    assert first[0] == first[1]
    watched.now += 30
    at, read_at = evidence()
    assert at == first[0] and read_at and read_at > at, "it waits since then, and was read now"
    watched.processes = ()
    assert watched.read() == {}


@pytest.mark.parametrize("seconds", [-5 * 3600.0, 5 * 3600.0])
def test_titles_are_read_again_when_the_clock_was_set(tmux: Tmux, watched: Watched, seconds: float) -> None:
    watched.env["TMUX"] = f"{tmux.socket},1,0"
    pane, pid, _ = tmux.window("/bin/cat")
    watched.processes = (process("gemini", watched.tree, pid),)
    tmux.title(pane, "✋  Action Required (x)")
    assert watched.read() == {pid: (WAITING, pane)}
    tmux.title(pane, "✦  Working… (x)")
    assert watched.read(seconds) == {pid: (RUNNING, pane)}


def test_a_pane_with_two_agents_gives_no_state(tmux: Tmux, watched: Watched) -> None:
    watched.env["TMUX"] = f"{tmux.socket},1,0"
    pane, pid, tty = tmux.window("/bin/cat")
    tmux.title(pane, "[ . ] Action Required | x")
    watched.processes = (process("codex", watched.tree, pid), process("codex", watched.tree, pid + 1, tty=tty))
    assert watched.read() == {pid: (None, pane), pid + 1: (None, pane)}


def asked_servers(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str, Any], Any]) -> list[str]:
    """The sockets whose panes are listed from now on, each with this answer."""
    asked: list[str] = []
    monkeypatch.setattr(tmux_module, "list_panes", lambda path, env: (asked.append(path), answer(path, env))[1])
    return asked


def test_tmux_is_asked_rarely_and_not_without_agents(
    tmux: Tmux, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.env["TMUX"] = f"{tmux.socket},1,0"
    asked = asked_servers(monkeypatch, tmux_module.list_panes)
    for _ in range(20):
        watched.read(0.1)
    assert asked == []
    watched.processes = (process("codex", watched.tree, 1),)
    for _ in range(20):
        watched.read(0.1)
    assert len(asked) == 2
    watched.processes = (process("claude", watched.tree, 1),)  # its title tells nothing
    for _ in range(100):
        watched.read(0.1)
    assert len(asked) == 3


def test_no_process_is_started_where_no_server_is(watched: Watched) -> None:
    watched.processes = (process("codex", watched.tree, 1),)
    folder = watched.tree / f"tmux-{os.getuid()}"
    folder.mkdir()
    (folder / "default").write_text("no socket")
    import socket

    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(folder / "gone"))
    watched.env["TMUX"] = f"{folder}/nowhere,1,0"
    with recorded("subprocess.Popen", "os.posix_spawn", "os.exec") as started:
        assert watched.read() == {}
    assert started == []


def test_a_hanging_tmux_is_not_asked_again_for_a_while(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tmux_module, "server_sockets", lambda env: ["/s"])
    asked = asked_servers(monkeypatch, lambda path, env: None)
    watched.processes = (process("codex", watched.tree, 1),)
    for _ in range(10):
        watched.read(2)
    assert asked == ["/s"]
    watched.read(30)
    assert len(asked) == 2


def test_a_tmux_answer_has_a_timeout(tmp_path: Path) -> None:
    fake = tmp_path / "tmux"
    fake.write_text("#!/bin/sh\nexec sleep 100\n")
    fake.chmod(0o755)
    assert tmux_module.list_panes("/s", {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, timeout=0.05) is None


FORGING_TMUX = """#!{python}
import sys
listed = sys.argv[sys.argv.index("-F") + 1]
for number, title in ((1, "a\\n%2\\t2\\t/dev/pts/2\\t✋  Action Required (x)\\nb"), (2, "quiet\\ttitle")):
    fields = {{"pane_id": f"%{{number}}", "pane_pid": str(number), "pane_tty": f"/dev/pts/{{number}}", "pane_title": title}}
    row = listed
    for name, value in fields.items():
        row = row.replace("#{{" + name + "}}", value)
    print(row)
"""


def test_a_title_with_lines_forges_no_pane(tmp_path: Path) -> None:
    fake = tmp_path / "tmux"
    fake.write_text(FORGING_TMUX.format(python=sys.executable))
    fake.chmod(0o755)
    panes = tmux_module.list_panes("/s", {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, timeout=60)
    assert panes is not None
    assert [(one.name, one.pid, one.title.count("\n")) for one in panes] == [("%1", 1, 2), ("%2", 2, 0)]
    assert panes[1].title == "quiet\ttitle"


ZELLIJ = """#!/bin/sh
echo "$@" >> {log}
case $1 in
  --version) echo 'zellij {version}' ;;
  action) cat {answer} ;;
esac
"""


@pytest.mark.parametrize(
    ("version", "lists"), [("0.45.0", True), ("0.44.0", True), ("0.43.1", False), ("what?", False)]
)
def test_titles_inside_of_zellij(watched: Watched, tmp_path: Path, version: str, lists: bool) -> None:
    """An agent's environment names its pane; a version that can list panes gives its title."""
    (tmp_path / "bin").mkdir()
    log, answer, fake = tmp_path / "log", tmp_path / "answer", tmp_path / "bin" / "zellij"
    answer.write_text(
        '[{"id": 0, "is_plugin": true, "title": "bar"}, {"id": 3, "title": "✦  Working… (x)"}, {"id": "terminal_4"}, 7]'
    )
    fake.write_text(ZELLIJ.format(log=log, version=version, answer=answer))
    fake.chmod(0o755)
    inside = {**os.environ, "ZELLIJ": "0", "ZELLIJ_SESSION_NAME": "main", "ZELLIJ_PANE_ID": "3"}
    agent = subprocess.Popen(["sleep", "100"], env=inside)
    other = subprocess.Popen(["sleep", "100"], env={**inside, "ZELLIJ_SESSION_NAME": "another"})
    try:
        while (
            b"sleep"
            not in Path(f"/proc/{agent.pid}/cmdline").read_bytes() + Path(f"/proc/{other.pid}/cmdline").read_bytes()
        ):
            time.sleep(0.01)
        watched.processes = (process("gemini", watched.tree, agent.pid), process("gemini", watched.tree, other.pid))
        watched.env.update(PATH=f"{fake.parent}:{os.environ['PATH']}")
        assert watched.read() == {} and not log.exists(), "not from outside"
        watched.env.update(ZELLIJ="0", ZELLIJ_SESSION_NAME="main")
        assert watched.read() == {agent.pid: (RUNNING if lists else None, "main:3")}
        answer.write_text("broken")
        assert watched.read() == {agent.pid: (None, "main:3")}
        watched.read(1)
        watched.read(1)
        assert log.read_text().splitlines() == ["--version"] + ["action list-panes --all --json"] * (2 if lists else 0)
    finally:
        for one in (agent, other):
            one.kill()
            one.wait(LIMIT)
