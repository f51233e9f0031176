"""Open a worktree or focus an agent in a real tmux and in a fake Zellij of several versions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from imi_monitor.model.agent import Agent, SessionFacts, Truth
from imi_monitor.model.errors import Refused
from imi_monitor.mux import multiplexer
from imi_monitor.mux.pane import run_multiplexer
from imi_monitor.mux.tab_states import tab_states
from tests.mux.multiplexer_kit import FakeZellij, RunTmux, pane_folders, tmux_server, wait_for_pane
from tests.ui.payloads import PAYLOADS, bad_characters


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    with tmux_server(tmp_path, monkeypatch) as run:
        yield run


@pytest.fixture
def zellij(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeZellij:
    return FakeZellij(tmp_path, monkeypatch)


def test_tmux_opens_one_window_per_worktree_and_then_focuses_it(tmux: RunTmux, tmp_path: Path) -> None:
    place = tmp_path / "feat-api"
    place.mkdir()
    assert "new tmux window" in multiplexer.open_worktree("tmux", str(place), "feat-api")
    wait_for_pane(tmux, place)
    assert pane_folders(tmux).count(str(place)) == 1
    assert tmux("display-message", "-p", "#{window_name}") == "feat-api"
    tmux("select-window", "-t", "0")
    assert "already open" in multiplexer.open_worktree("tmux", str(place), "feat-api")
    assert pane_folders(tmux).count(str(place)) == 1
    assert tmux("display-message", "-p", "#{pane_current_path}") == str(place)


def test_tmux_focuses_a_pane_that_imi_did_not_open(tmux: RunTmux, tmp_path: Path) -> None:
    inside = tmp_path / "feat-api" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "feat-api-2").mkdir()
    tmux("new-window", "-d", "-c", str(tmp_path / "feat-api-2"))
    tmux("new-window", "-d", "-c", str(inside))
    wait_for_pane(tmux, inside)
    assert "already open" in multiplexer.open_worktree("tmux", str(tmp_path / "feat-api"), "feat-api")
    assert tmux("display-message", "-p", "#{pane_current_path}") == str(inside)


def test_tmux_does_not_count_imis_own_pane_as_open(tmux: RunTmux, tmp_path: Path) -> None:
    assert "new tmux window" in multiplexer.open_worktree("tmux", str(tmp_path), "app")


@pytest.mark.parametrize(
    "name", ["#(touch owned)", "#{host}", "a;b $(touch owned)", "-x", "%H#S", "a;", "a\\;", "kill-server;"]
)
def test_tmux_does_not_expand_formats_in_names(tmux: RunTmux, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    multiplexer.open_worktree("tmux", str(place), name)
    wait_for_pane(tmux, place)
    assert tmux("display-message", "-p", "#{window_name}") == name
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_tmux_window_gets_a_harmless_name(tmux: RunTmux, tmp_path: Path, payload: str) -> None:  # T2
    (tmp_path / "feat-x").mkdir()
    multiplexer.open_worktree("tmux", str(tmp_path / "feat-x"), PAYLOADS[payload])
    names = tmux("list-windows", "-a", "-F", "=#{window_name}=").splitlines()
    assert len(names) == 2
    assert bad_characters(names[-1]) == [] and len(names[-1]) <= 400


def test_tmux_finds_the_pane_of_a_folder_that_ends_in_a_semicolon(tmux: RunTmux, tmp_path: Path) -> None:
    place = tmp_path / "feat-x;"
    place.mkdir()
    assert "new tmux window" in multiplexer.open_worktree("tmux", str(place), place.name)
    assert "already open" in multiplexer.open_worktree("tmux", str(place), place.name)


@pytest.mark.parametrize("name", ["feat\tx", "feat-ü", "a\nb", "a\u2028b"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_tmux_finds_the_pane_of_a_folder_with_an_odd_name(
    tmux: RunTmux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, locale: str
) -> None:
    """In any locale: outside UTF-8, tmux replaces what it prints, tabs included."""
    monkeypatch.setenv("LC_ALL", locale)
    (tmp_path / name).mkdir()
    assert "new tmux window" in multiplexer.open_worktree("tmux", str(tmp_path / name), "feat-x")
    tmux("select-window", "-t", "0")
    assert "already open" in multiplexer.open_worktree("tmux", str(tmp_path / name), "feat-x")


def test_a_folder_of_a_pane_forges_no_row_of_the_list(tmux: RunTmux, tmp_path: Path) -> None:
    """Its name contains rows that say that another pane stands in the worktree."""
    wanted = tmp_path / "feat-api"
    wanted.mkdir()
    other = tmux("new-window", "-d", "-P", "-F", "#{pane_id}", "-c", "/", "sleep", "300")
    forged = tmp_path / f"a\n{other}\t{wanted}\t{wanted}\n{other} {os.getpid()}\nb"
    forged.mkdir(parents=True)
    tmux("new-window", "-d", "-c", str(forged))
    end = time.monotonic() + 60
    while str(forged) not in tmux("list-panes", "-a", "-F", "#{pane_current_path}"):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "new tmux window" in multiplexer.open_worktree("tmux", str(wanted), "feat-api")
    said = multiplexer.open_agent("tmux", agent_at(os.getpid(), tmux=other), str(wanted), "feat-api")
    assert "its own pane" not in said, "the agent does not run in that pane"


def test_tmux_windows_show_the_state_and_get_their_names_back(tmux: RunTmux, tmp_path: Path) -> None:
    for name in ("feat-api", "#{host}"):
        (tmp_path / name).mkdir()
        multiplexer.open_worktree("tmux", str(tmp_path / name), name)
    tmux("new-window", "-d", "-n", "feat-api own")
    states = tab_states("tmux")
    states.show({"feat-api": "◆", "#{host}": "▸"})
    assert window_names(tmux)[1:] == ["◆ feat-api", "▸ #{host}", "feat-api own"]
    states.restore()
    assert window_names(tmux)[1:] == ["feat-api", "#{host}", "feat-api own"]


def window_names(tmux: RunTmux) -> list[str]:
    return tmux("list-windows", "-a", "-F", "#{window_name}").splitlines()


def test_a_new_tmux_window_gets_its_layout(tmux: RunTmux, tmp_path: Path) -> None:
    layout, place = tmp_path / "two;", tmp_path / "feat-api"
    place.mkdir()
    layout.write_text('split-window -h -d -c "#{pane_current_path}" "sleep 300"\n')
    multiplexer.open_worktree("tmux", str(place), "feat-api", layout=str(layout))
    assert tmux("list-panes", "-a", "-F", "#{window_name}").splitlines().count("feat-api") == 2
    multiplexer.open_worktree("tmux", str(place), "feat-api", ("sleep", "300"), layout=str(layout))
    assert tmux("list-panes", "-a", "-F", "#{window_name}").splitlines().count("feat-api") == 3


def test_a_missing_tmux_server_or_folder_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/nobody,1,0")
    with pytest.raises(Refused, match="tmux"):
        multiplexer.open_worktree("tmux", str(tmp_path), "app")
    with pytest.raises(Refused, match="does not exist any more"):
        multiplexer.open_worktree("tmux", str(tmp_path / "gone"), "app")


VERSIONS = ["0.38.0", "0.43.1", "0.44.0", "0.44.1", "0.45.0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_zellij_opens_one_tab_per_worktree_and_then_focuses_it(
    zellij: FakeZellij, version: str, tmp_path: Path
) -> None:
    zellij.version(version)
    place = tmp_path / "feat-api"
    place.mkdir()
    assert multiplexer.current() == "zellij"
    assert "new tab" in multiplexer.open_worktree("zellij", str(place), "feat-api")
    assert zellij.state["tabs"][-1]["name"] == "feat-api" and zellij.state["panes"][-1]["pane_cwd"] == str(place)
    zellij.change(tab=0, pane=0)
    assert "already open" in multiplexer.open_worktree("zellij", str(place), "feat-api")
    assert zellij.state["tab"] == 1 and len(zellij.state["panes"]) == 2
    last = {"0.44.0": "go-to-tab-by-id 1", "0.44.1": "focus-pane-id terminal_1", "0.45.0": "focus-pane-id terminal_1"}
    assert zellij.commands()[-1] == last.get(version, "go-to-tab-name feat-api")


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("version", ["0.37.2", "0.43.1", "0.45.0"])
def test_zellij_tab_gets_a_harmless_name(zellij: FakeZellij, version: str, payload: str, tmp_path: Path) -> None:
    zellij.version(version)
    for command in ((), ("lazygit",)):
        said = multiplexer.open_worktree("zellij", str(tmp_path), PAYLOADS[payload], command)
        assert bad_characters(said) == []
    for words in zellij.state["told"]:
        assert all(bad_characters(word) == [] and len(word) <= 400 for word in words)
        for name in (after for before, after in pairwise(words) if before == "--name"):
            assert name and not name.startswith("-")


@pytest.mark.parametrize("version", ["0.43.1", "0.45.0"])
@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\r"])
def test_a_tab_name_forges_no_tab_of_zellij(zellij: FakeZellij, tmp_path: Path, version: str, sign: str) -> None:
    """A name with a sign that ends a line elsewhere: Zellij itself takes only line feeds out of names."""
    zellij.version(version)
    zellij.change(tabs=[{"id": 0, "name": f"x{sign}feat-api{sign}y"}])
    assert "new tab" in multiplexer.open_worktree("zellij", str(tmp_path), "feat-api")


@pytest.mark.parametrize("version", ["0.44.0", "0.45.0"])
def test_zellij_focuses_a_pane_that_imi_did_not_open(zellij: FakeZellij, version: str, tmp_path: Path) -> None:
    """In a folder of the worktree, under another tab name; not beside it, not exited, not imi's own."""
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
    assert "already open" in multiplexer.open_worktree("zellij", str(tmp_path / "feat-api"), "feat-api")
    assert zellij.state["tab"] == 4


def test_a_zellij_that_needs_a_layout_for_tabs_opens_a_pane(zellij: FakeZellij, tmp_path: Path) -> None:
    zellij.version("0.37.2")
    assert "new pane" in multiplexer.open_worktree("zellij", str(tmp_path), "feat-api")
    assert zellij.commands()[-1] == f"new-pane --cwd {tmp_path} --name feat-api"


@pytest.mark.parametrize("version", VERSIONS)
def test_zellij_runs_a_program_in_a_pane(zellij: FakeZellij, version: str, tmp_path: Path) -> None:
    zellij.version(version)
    assert "lazygit" in multiplexer.open_worktree("zellij", str(tmp_path), "feat-api", ("lazygit", "-p"))
    assert zellij.state["panes"][-1]["pane_command"] == "lazygit -p"


@pytest.mark.parametrize("name", ["#(touch owned)", "$(touch owned)", "-x", "--create", "a b"])
def test_zellij_does_not_read_names_as_commands_or_options(zellij: FakeZellij, name: str, tmp_path: Path) -> None:
    zellij.version("0.43.1")
    place = tmp_path / name
    place.mkdir()
    for _ in range(2):
        multiplexer.open_worktree("zellij", str(place), name)
    assert zellij.state["panes"][-1]["pane_cwd"] == str(place) and not list(tmp_path.rglob("owned"))


def test_unreadable_pane_lists_open_a_new_tab(
    zellij: FakeZellij, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zellij.version("0.45.0")
    for answer in ("{", "null", '["x", {"id": "1"}, {}]', '[{"id": 1, "tab_id": null, "pane_cwd": 3}]'):
        zellij.change(answer=answer, tabs=zellij.state["tabs"][:1])
        assert "new tab" in multiplexer.open_worktree("zellij", str(tmp_path), "feat-api")
    monkeypatch.setenv("FAKE_ZELLIJ_VERSION", "broken")
    with pytest.raises(Refused, match="zellij failed"):
        multiplexer.open_worktree("zellij", str(tmp_path), "feat-api")


def test_the_fake_zellij_refuses_commands_of_newer_versions(zellij: FakeZellij) -> None:
    """Otherwise the tests above would prove nothing."""
    zellij.version("0.43.1")
    for words in (
        "list-panes --all --json",
        "focus-pane-id terminal_1",
        "new-tab --cwd / -- ls",
        "new-pane --no-focus",
        "go-to-tab-by-id 1",
        "query-tab-names --json",
    ):
        with pytest.raises(Refused, match="wasn't"):
            run_multiplexer("zellij", "action", *words.split())


# -- an agent's own pane ------------------------------------------------------------------------------------------------


def agent_at(pid: int | None, **facts: str) -> Agent:
    truth = Truth("running", None, "registry", "exact")
    return Agent("claude:1", "claude", "claude-1", None, None, "1", pid, None, truth, SessionFacts(**facts))  # type: ignore[arg-type]


def test_tmux_focuses_the_pane_in_which_the_agent_runs(tmux: RunTmux, tmp_path: Path) -> None:
    there = tmux("new-window", "-d", "-P", "-F", "#{pane_id} #{pane_pid}", "-c", "/", "sh", "-c", "sleep 300; :")
    pane, leader = there.split()
    beside = tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", pane, "-c", "/", "sleep 300")
    tmux("select-pane", "-t", beside)
    for pid in (int(leader), child_of(int(leader)), None):
        tmux("select-window", "-t", "0")
        tmux("select-pane", "-t", beside)
        agent = agent_at(pid, tmux=f"one:@1.{pane}")
        assert multiplexer.may_have_pane(agent)
        assert multiplexer.open_agent("tmux", agent, str(tmp_path), "feat-api") == "claude-1: its own pane"
        assert tmux("display-message", "-p", "#{pane_id}") == pane
    assert pane_folders(tmux).count(str(tmp_path)) == 1, "no window was opened beside it"


def child_of(pid: int) -> int:
    for _ in range(200):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.02)
    raise AssertionError(f"{pid} has no child")


@pytest.mark.parametrize("place", ["%99", "no pane", "%0; kill-server", "one:@1.%"])
def test_tmux_opens_the_worktree_if_the_pane_is_not_the_agents(tmux: RunTmux, tmp_path: Path, place: str) -> None:
    """The pane is gone, its id is unreadable, or another server has a pane with this id."""
    other = tmux("new-window", "-d", "-P", "-F", "#{pane_id}", "-c", "/", "sleep", "300")
    (tmp_path / "feat-api").mkdir()
    for pane in (place, other):
        said = multiplexer.open_agent("tmux", agent_at(os.getpid(), tmux=pane), str(tmp_path / "feat-api"), "feat-api")
        assert said in ("feat-api: a new tmux window", "feat-api: the pane that is already open there")
        wait_for_pane(tmux, tmp_path / "feat-api")
        assert tmux("display-message", "-p", "#{pane_current_path}") == str(tmp_path / "feat-api")


@pytest.mark.parametrize(
    ("version", "place", "goes"),
    [
        ("0.45.0", "one:1", True),
        ("0.44.1", ":terminal_1", True),
        ("0.44.0", "one:1", False),  # lists panes, but cannot focus one
        ("0.43.1", "one:1", False),
        ("0.45.0", "two:1", False),  # another session
        ("0.45.0", "one:plugin_1", False),
        ("0.45.0", "one:", False),
        ("0.45.0", "--help", False),
    ],
)
def test_zellij_focuses_the_agents_pane_if_its_version_can(
    zellij: FakeZellij, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, place: str, goes: bool
) -> None:
    monkeypatch.setenv("ZELLIJ_SESSION_NAME", "one")
    zellij.version(version)
    own = zellij.state["panes"][0]
    zellij.change(panes=[own, {**own, "id": 1, "pane_cwd": "/"}])
    agent = agent_at(4711, zellij=place)
    assert multiplexer.may_have_pane(agent)
    said = multiplexer.open_agent("zellij", agent, str(tmp_path), "feat-api")
    assert (said == "claude-1: its own pane") is goes
    assert ("focus-pane-id terminal_1" in zellij.commands()) is goes
