"""Where `enter` goes: a real tmux, a Zellij that writes down what it was told, and neither."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.agent import Agent, SessionFacts, Truth
from imi_monitor.model.errors import Refused
from imi_monitor.ui import availability, browsing, editor, open_with, opening
from imi_monitor.ui.app import ImiApp
from tests.helpers import ROOT, Repo
from tests.ui import made
from tests.ui.test_app import played, screen, until
from tests.ui.test_home import go, names

Ask = Callable[..., str]


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """A tmux server of our own, with one window in which imi is thought to run."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("there is no tmux here")
    socket = tmp_path / "s"

    def ask(*argv: str) -> str:
        done = subprocess.run([program, "-S", str(socket), "-f", "/dev/null", *argv], capture_output=True, text=True,
                              check=True)  # fmt: skip
        return done.stdout.strip()

    ask("new-session", "-d", "-s", "one", "-c", str(tmp_path), "-x", "80", "-y", "24")
    pid, pane = ask("display-message", "-p", "#{pid} #{pane_id}").split()
    monkeypatch.setenv("TMUX", f"{socket},{pid},0")
    monkeypatch.setenv("TMUX_PANE", pane)
    yield ask
    ask("kill-server")


def panes(tmux: Ask) -> list[str]:
    return tmux("list-panes", "-a", "-F", "#{pane_current_path}").splitlines()


def stands(tmux: Ask, place: Path) -> None:
    """Until a pane stands there: for a moment its program is not yet the one that was asked for."""
    end = time.monotonic() + 20
    while str(place) not in panes(tmux):
        assert time.monotonic() < end, panes(tmux)
        time.sleep(0.05)


def test_tmux_opens_once_and_then_goes_there(tmux: Ask, tmp_path: Path) -> None:
    place = tmp_path / "feat-api"
    place.mkdir()
    assert "new tmux window" in opening.open_in("tmux", str(place), "feat-api")
    stands(tmux, place)
    assert panes(tmux).count(str(place)) == 1
    assert tmux("display-message", "-p", "#{window_name}") == "feat-api"
    tmux("select-window", "-t", "0")
    assert "already open" in opening.open_in("tmux", str(place), "feat-api")
    assert panes(tmux).count(str(place)) == 1
    assert tmux("display-message", "-p", "#{pane_current_path}") == str(place)


def test_tmux_knows_a_pane_that_it_did_not_open(tmux: Ask, tmp_path: Path) -> None:
    inside = tmp_path / "feat-api" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "feat-api-2").mkdir()
    tmux("new-window", "-d", "-c", str(tmp_path / "feat-api-2"))
    tmux("new-window", "-d", "-c", str(inside))
    stands(tmux, inside)
    assert "already open" in opening.open_in("tmux", str(tmp_path / "feat-api"), "feat-api")
    assert tmux("display-message", "-p", "#{pane_current_path}") == str(inside)


def test_our_own_pane_is_not_the_one_that_is_open(tmux: Ask, tmp_path: Path) -> None:
    assert "new tmux window" in opening.open_in("tmux", str(tmp_path), "app")


@pytest.mark.parametrize("name", ["#(touch owned)", "#{host}", "a;b $(touch owned)", "-x", "%H#S"])
def test_tmux_expands_nothing_of_a_name(tmux: Ask, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    opening.open_in("tmux", str(place), name)
    stands(tmux, place)
    assert tmux("display-message", "-p", "#{window_name}") == name
    assert not list(tmp_path.rglob("owned"))


def test_tmux_that_is_gone_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/nobody,1,0")
    with pytest.raises(Refused, match="tmux"):
        opening.open_in("tmux", str(tmp_path), "app")
    with pytest.raises(Refused, match="does not exist any more"):
        opening.open_in("tmux", str(tmp_path / "gone"), "app")


class Zellij:
    """The fake one on the PATH, which is a given version and strict about it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._file, self._patch = folder / "zellij.json", patch
        tool = folder / "bin" / "zellij"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{ROOT}/tests/ui/fake_zellij.py" "$@"\n')
        tool.chmod(0o755)
        patch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
        for name, value in (("ZELLIJ", "0"), ("ZELLIJ_PANE_ID", "0"), ("FAKE_ZELLIJ", str(self._file))):
            patch.setenv(name, value)
        own = {"id": 0, "is_plugin": False, "tab_id": 0, "pane_cwd": str(folder), "exited": False}
        bar = {"id": 0, "is_plugin": True, "tab_id": 0, "pane_cwd": None}
        self._write(told=[], tabs=[{"id": 0, "name": "Tab #1"}], panes=[own], tab=0, pane=0, bar=bar)

    def _write(self, **state: Any) -> None:
        self._file.write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found

    def change(self, **fields: Any) -> None:
        self._write(**{**self.state, **fields})

    def version(self, number: str) -> None:
        self._patch.setenv("FAKE_ZELLIJ_VERSION", number)

    def told(self) -> list[str]:
        return [" ".join(words[1:]) for words in self.state["told"]]


@pytest.fixture
def zellij(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zellij:
    return Zellij(tmp_path, monkeypatch)


VERSIONS = ["0.38.0", "0.43.1", "0.44.0", "0.44.1", "0.45.0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_zellij_makes_a_tab_and_then_goes_to_it(zellij: Zellij, version: str, tmp_path: Path) -> None:
    zellij.version(version)
    place = tmp_path / "feat-api"
    place.mkdir()
    assert opening.multiplexer() == "zellij"
    assert "new tab" in opening.open_in("zellij", str(place), "feat-api")
    assert zellij.state["tabs"][-1]["name"] == "feat-api" and zellij.state["panes"][-1]["pane_cwd"] == str(place)
    zellij.change(tab=0, pane=0)
    assert "already open" in opening.open_in("zellij", str(place), "feat-api")
    assert zellij.state["tab"] == 1 and len(zellij.state["panes"]) == 2
    last = {"0.44.0": "go-to-tab-by-id 1", "0.44.1": "focus-pane-id terminal_1", "0.45.0": "focus-pane-id terminal_1"}
    assert zellij.told()[-1] == last.get(version, "go-to-tab-name feat-api")


@pytest.mark.parametrize("version", ["0.44.0", "0.45.0"])
def test_zellij_knows_a_pane_that_imi_did_not_open(zellij: Zellij, version: str, tmp_path: Path) -> None:
    """Of another name, in a folder of the worktree; not one beside it, not a dead one, not our own."""
    zellij.version(version)
    inside = tmp_path / "feat-api" / "src"
    inside.mkdir(parents=True)
    own = zellij.state["panes"][0]
    zellij.change(
        tabs=[*zellij.state["tabs"], {"id": 4, "name": "work"}],
        panes=[
            {**own, "pane_cwd": str(inside)},
            {**own, "id": 1, "pane_cwd": f"{tmp_path}/feat-api-2"},
            {**own, "id": 2, "pane_cwd": str(inside), "exited": True},
            {**own, "id": 3, "tab_id": 4, "pane_cwd": str(inside)},
        ],
    )
    assert "already open" in opening.open_in("zellij", str(tmp_path / "feat-api"), "feat-api")
    assert zellij.state["tab"] == 4


def test_a_zellij_that_wants_a_layout_gets_a_pane(zellij: Zellij, tmp_path: Path) -> None:
    zellij.version("0.37.2")
    assert "new pane" in opening.open_in("zellij", str(tmp_path), "feat-api")
    assert zellij.told()[-1] == f"new-pane --cwd {tmp_path} --name feat-api"


@pytest.mark.parametrize("version", VERSIONS)
def test_zellij_runs_a_program_in_a_pane(zellij: Zellij, version: str, tmp_path: Path) -> None:
    zellij.version(version)
    assert "lazygit" in opening.open_in("zellij", str(tmp_path), "feat-api", ("lazygit", "-p"))
    assert zellij.state["panes"][-1]["pane_command"] == "lazygit -p"


@pytest.mark.parametrize("name", ["#(touch owned)", "$(touch owned)", "-x", "--create", "a b"])
def test_a_name_is_never_a_command(zellij: Zellij, name: str, tmp_path: Path) -> None:
    zellij.version("0.43.1")
    place = tmp_path / name
    place.mkdir()
    for _ in range(2):
        opening.open_in("zellij", str(place), name)
    assert zellij.state["panes"][-1]["pane_cwd"] == str(place) and not list(tmp_path.rglob("owned"))


def test_a_zellij_in_trouble_is_a_sentence(zellij: Zellij, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zellij.version("0.45.0")
    for answer in ("{", "null", '["x", {"id": "1"}, {}]', '[{"id": 1, "tab_id": null, "pane_cwd": 3}]'):
        zellij.change(answer=answer, tabs=zellij.state["tabs"][:1])
        assert "new tab" in opening.open_in("zellij", str(tmp_path), "feat-api")
    monkeypatch.setenv("FAKE_ZELLIJ_VERSION", "broken")
    with pytest.raises(Refused, match="zellij says"):
        opening.open_in("zellij", str(tmp_path), "feat-api")


def test_the_fake_is_strict(zellij: Zellij) -> None:
    """What a version does not know it refuses: else these tests would prove nothing."""
    zellij.version("0.43.1")
    for words in ("list-panes --all --json", "focus-pane-id terminal_1", "new-tab --cwd / -- ls", "new-pane --no-focus",
                  "go-to-tab-by-id 1", "query-tab-names --json"):  # fmt: skip
        with pytest.raises(Refused, match="wasn't"):
            opening._run("zellij", "action", *words.split())


def test_neither_runs_the_shell_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = tmp_path / "sh"
    shell.write_text(f"#!/bin/sh\npwd > {tmp_path}/where\n")
    shell.chmod(0o755)
    (tmp_path / "feat").mkdir()
    monkeypatch.setenv("SHELL", str(shell))
    assert opening.multiplexer() == ""
    assert opening.run_here(str(tmp_path / "feat")) == ""
    assert (tmp_path / "where").read_text().strip() == str(tmp_path / "feat")
    monkeypatch.setenv("SHELL", "/no/such/shell")
    assert "cannot be started" in opening.run_here(str(tmp_path))


def test_enter_opens_the_selected_one_in_tmux(tmux: Ask, repo: Repo) -> None:
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 2)
        await go(app, "feat-api")
        await pilot.press("enter")
        await until(pilot, lambda: "feat-api: a new tmux window" in screen(app))
        assert str(other.path) in panes(tmux)
        await pilot.press("enter")
        await until(pilot, lambda: "already open" in screen(app))

    played(repo, play)


def test_open_with_an_agent_in_tmux(tmux: Ask, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = repo.worktree("feat-api")
    tool = tmp_path / "bin" / "claude"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\npwd > {tmp_path}/ran.new; mv {tmp_path}/ran.new {tmp_path}/ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    tmux("set-environment", "-g", "PATH", os.environ["PATH"])
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 2)
        await go(app, "feat-api")
        await pilot.press("O")
        await until(pilot, lambda: "Open feat-api with" in screen(app) and "claude" in screen(app))
        await pilot.press("e")  # it says why not, and stays
        await until(pilot, lambda: "no editor is set" in screen(app) and len(app.screen_stack) == 2)
        await pilot.press("c")
        await until(pilot, lambda: (tmp_path / "ran").exists())
        assert (tmp_path / "ran").read_text().strip() == str(other.path)

    played(repo, play)


def test_open_with_a_shell_is_here_without_a_multiplexer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "vi -n")
    monkeypatch.setattr(editor.shutil, "which", lambda name, path=None: f"/bin/{name}")
    tree = made.tree("feat-api", path=str(tmp_path))
    found = open_with.ways(tree, "")
    assert "shell" not in found and found["here"].here and not found["here"].command
    assert found["editor"].command == ["/bin/vi", "-n", str(tmp_path)] and found["editor"].here
    assert "shell" in open_with.ways(tree, "tmux") and "tmux" in open_with.ways(tree, "tmux")["shell"].help


def test_without_a_terminal_of_its_own_it_says_so(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be opened from here" in screen(app))

    played(repo, play)


def test_a_git_screen_is_used_when_there_is_one(
    tmux: Ask, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    availability.git_screen.cache_clear()

    async def without(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 1)
        await pilot.press("g")
        await until(pilot, lambda: "neither lazygit nor tig is installed" in screen(app))

    async def having(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 1)
        await pilot.press("g")
        await until(pilot, lambda: (tmp_path / "ran").exists())
        assert (tmp_path / "ran").read_text().strip() == str(repo.path)

    if shutil.which("lazygit") is None and shutil.which("tig") is None:
        played(repo, without)
    tool = tmp_path / "bin" / "lazygit"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\npwd > {tmp_path}/ran.new; mv {tmp_path}/ran.new {tmp_path}/ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    tmux("set-environment", "-g", "PATH", os.environ["PATH"])
    availability.git_screen.cache_clear()
    played(repo, having)
    availability.git_screen.cache_clear()


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("git@github.com:ada/app.git", "https://github.com/ada/app/pull/7"),
        ("https://user:secret@github.com/ada/app", "https://github.com/ada/app/pull/7"),
        (
            "ssh://git@gitlab.example.org:2222/group/sub/app.git",
            "https://gitlab.example.org/group/sub/app/-/merge_requests/7",
        ),
    ],
)
def test_the_page_of_a_pull_request(repo: Repo, url: str, page: str) -> None:
    repo.git("remote", "add", "origin", url)
    assert browsing.pull_request_page(str(repo.path), 7) == page


def test_no_page_is_a_sentence(repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no forge"):
        browsing.pull_request_page(str(repo.path), 7)
    repo.git("remote", "add", "origin", str(tmp_path / "x.git"))
    with pytest.raises(Refused, match="no forge"):
        browsing.pull_request_page(str(repo.path), 7)


def test_the_browser_gets_the_page_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert browsing.browse("https://x/") is False
    tool = tmp_path / "look"
    tool.write_text(f'#!/bin/sh\necho "$#" "$@" > {tmp_path}/seen\n')
    tool.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(tool))
    assert browsing.browse("https://x/$(touch owned)") is True
    assert (tmp_path / "seen").read_text().strip() == "1 https://x/$(touch owned)"


# -- an agent's own pane ------------------------------------------------------------------------------------------------


def agent_at(pid: int | None, **facts: str) -> Agent:
    truth = Truth("running", None, "registry", "exact")
    return Agent("claude:1", "claude", "claude-1", None, None, "1", pid, None, truth, SessionFacts(**facts))  # type: ignore[arg-type]


def test_tmux_goes_to_the_pane_in_which_the_agent_runs(tmux: Ask, tmp_path: Path) -> None:
    there = tmux("new-window", "-d", "-P", "-F", "#{pane_id} #{pane_pid}", "-c", "/", "sh", "-c", "sleep 300; :")
    pane, leader = there.split()
    beside = tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", pane, "-c", "/", "sleep 300")
    tmux("select-pane", "-t", beside)
    for pid in (int(leader), child_of(int(leader)), None):
        tmux("select-window", "-t", "0")
        tmux("select-pane", "-t", beside)
        agent = agent_at(pid, tmux=f"one:@1.{pane}")
        assert opening.has_pane(agent)
        assert opening.open_agent("tmux", agent, str(tmp_path), "feat-api") == "claude-1: its own pane"
        assert tmux("display-message", "-p", "#{pane_id}") == pane
    assert panes(tmux).count(str(tmp_path)) == 1, "no window was opened beside it"


def child_of(pid: int) -> int:
    for _ in range(200):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.02)
    raise AssertionError(f"{pid} has no child")


@pytest.mark.parametrize("place", ["%99", "no pane", "%0; kill-server", "one:@1.%"])
def test_a_pane_that_is_not_the_agents_is_not_gone_to(tmux: Ask, tmp_path: Path, place: str) -> None:
    """Gone, unreadable, or one of another server that has the same name: then the worktree's place, as always."""
    other = tmux("new-window", "-d", "-P", "-F", "#{pane_id}", "-c", "/", "sleep", "300")
    (tmp_path / "feat-api").mkdir()
    for pane in (place, other):
        said = opening.open_agent("tmux", agent_at(os.getpid(), tmux=pane), str(tmp_path / "feat-api"), "feat-api")
        assert said in ("feat-api: a new tmux window", "feat-api: the pane that is already open there")
        stands(tmux, tmp_path / "feat-api")
        assert tmux("display-message", "-p", "#{pane_current_path}") == str(tmp_path / "feat-api")


@pytest.mark.parametrize(
    ("version", "place", "goes"),
    [
        ("0.45.0", "one:1", True),
        ("0.44.1", ":terminal_1", True),
        ("0.44.0", "one:1", False),  # tells of panes, but cannot go to one
        ("0.43.1", "one:1", False),
        ("0.45.0", "two:1", False),  # another session
        ("0.45.0", "one:plugin_1", False),
        ("0.45.0", "one:", False),
        ("0.45.0", "--help", False),
    ],
)
def test_zellij_goes_to_the_agents_pane_if_it_can(
    zellij: Zellij, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, place: str, goes: bool
) -> None:
    monkeypatch.setenv("ZELLIJ_SESSION_NAME", "one")
    zellij.version(version)
    own = zellij.state["panes"][0]
    zellij.change(panes=[own, {**own, "id": 1, "pane_cwd": "/"}])
    agent = agent_at(4711, zellij=place)
    assert opening.has_pane(agent)
    said = opening.open_agent("zellij", agent, str(tmp_path), "feat-api")
    assert (said == "claude-1: its own pane") is goes
    assert ("focus-pane-id terminal_1" in zellij.told()) is goes
