"""Open, focus and name in a real Zellij."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.notes import terminal_context
from imi_monitor.actions.setup.layout_action import LAYOUTS
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model.terminal_layout import LayoutPane, LayoutTab, TerminalLayout
from imi_monitor.mux import multiplexer, zellij_layout
from imi_monitor.mux.tab_states import tab_states
from tests.limits import LIMIT
from tests.mux.test_multiplexer import agent_at
from tests.mux.zellij_kit import MISSING, WHY, ZellijSession, servers, touch, zellij_session
from tests.ui.pty_kit import Terminal

pytestmark = pytest.mark.skipif(MISSING, reason=WHY)


@pytest.fixture
def zellij(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZellijSession]:
    with zellij_session(tmp_path, monkeypatch) as session:
        touch(session)
        yield session


def test_a_worktree_gets_one_tab_and_then_the_focus(zellij: ZellijSession, tmp_path: Path) -> None:
    place = tmp_path / "feat-api"
    place.mkdir()
    assert multiplexer.current() == "zellij"
    assert "new tab" in multiplexer.open_worktree("zellij", str(place), "feat-api")
    zellij.until(lambda: zellij.active_tab() == "feat-api")
    zellij.until(lambda: any(pane["pane_cwd"] == str(place) for pane in zellij.panes()))
    zellij.ask("go-to-tab", "1")
    zellij.until(lambda: zellij.active_tab() == "Tab #1")
    assert "already open" in multiplexer.open_worktree("zellij", str(place), "feat-api")
    zellij.until(lambda: zellij.active_tab() == "feat-api")
    assert len(zellij.tab_names()) == 2


def test_open_right_after_another_change_opens_no_second_tab(zellij: ZellijSession, tmp_path: Path) -> None:
    """After a change Zellij answers its lists with nothing for a moment."""
    for name in ("feat-a", "feat-b", "feat-c"):
        (tmp_path / name).mkdir()
        for _ in range(3):
            multiplexer.open_worktree("zellij", str(tmp_path / name), name)
    assert zellij.tab_names() == ["Tab #1", "feat-a", "feat-b", "feat-c"]


def test_a_tab_is_opened_with_a_layout(zellij: ZellijSession, tmp_path: Path) -> None:
    layout = tmp_path / "two.kdl"
    layout.write_text('layout {\n pane\n pane command="sleep" {\n  args "300"\n }\n}\n')
    (tmp_path / "feat-api").mkdir()
    multiplexer.open_worktree("zellij", str(tmp_path / "feat-api"), "feat-api", layout=str(layout))
    zellij.until(lambda: zellij.active_tab() == "feat-api")
    inside = [pane for pane in zellij.panes() if pane["tab_name"] == "feat-api"]
    assert len(inside) == 2
    zellij.until(lambda: {pane.get("pane_cwd") for pane in zellij.panes()} >= {str(tmp_path / "feat-api")})


def test_only_the_first_tab_of_imis_layout_has_a_dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zellij opens a new tab like the session's first one, unless the layout has a template: a dashboard in each tab."""
    layout = tmp_path / "imi.kdl"
    layout.write_text(LAYOUTS["zellij"].replace('command="imi"', 'command="sleep"').replace('"monitor"', '"300"'))
    (tmp_path / "feat-api").mkdir()
    with zellij_session(tmp_path, monkeypatch, layout=layout) as zellij:
        multiplexer.open_worktree("zellij", str(tmp_path / "feat-api"), "feat-api")
        zellij.ask("new-tab", "--layout", str(layout), "--name", "second", "--cwd", "/")
        zellij.until(lambda: len(zellij.panes()) == 5)
        found = [
            (pane["tab_name"], pane["pane_columns"], bool(pane.get("terminal_command"))) for pane in zellij.panes()
        ]
        dashboard = [(80, False), (60, True)]
        assert found == [
            *(("Tab #1", *one) for one in dashboard),
            ("feat-api", 140, False),
            *(("second", *one) for one in dashboard),
        ]


def test_a_command_gets_a_floating_pane(zellij: ZellijSession, tmp_path: Path) -> None:
    multiplexer.open_worktree("zellij", str(tmp_path), "test feat-api", ("sleep", "300"), floating=True)
    zellij.until(lambda: any(pane["is_floating"] and pane["is_focused"] for pane in zellij.panes()))
    assert next(pane for pane in zellij.panes() if pane["is_floating"])["title"] == "test feat-api"
    assert len(zellij.tab_names()) == 1


def test_an_agents_pane_gets_the_focus_in_another_tab(zellij: ZellijSession, tmp_path: Path) -> None:
    zellij.ask("new-tab", "--name", "elsewhere", "--cwd", "/")
    zellij.until(lambda: len(zellij.panes()) == 2)
    agent = agent_at(4711, zellij="one:0")
    assert multiplexer.open_agent("zellij", agent, str(tmp_path), "feat-api") == "claude-1: its own pane"
    zellij.until(lambda: zellij.active_tab() == "Tab #1")


def test_tabs_show_the_state_and_get_their_names_back(zellij: ZellijSession, tmp_path: Path) -> None:
    for name in ("feat-api", "feat-web"):
        (tmp_path / name).mkdir()
        multiplexer.open_worktree("zellij", str(tmp_path / name), name)
    zellij.ask("new-tab", "--name", "feat-own name", "--cwd", "/")
    states = tab_states("zellij")
    states.show({"feat-api": "◆", "feat-web": "", "feat-own": "▸"})
    zellij.until(lambda: zellij.tab_names() == ["Tab #1", "◆ feat-api", "feat-web", "feat-own name"])
    assert "already open" in multiplexer.open_worktree("zellij", str(tmp_path / "feat-api"), "feat-api")
    states.show({"feat-api": "▸", "feat-web": "✗"})
    zellij.until(lambda: zellij.tab_names() == ["Tab #1", "▸ feat-api", "✗ feat-web", "feat-own name"])
    states.restore()
    zellij.until(lambda: zellij.tab_names() == ["Tab #1", "feat-api", "feat-web", "feat-own name"])


def test_a_dashboard_that_was_killed_leaves_names_that_the_next_one_corrects(
    zellij: ZellijSession, tmp_path: Path
) -> None:
    (tmp_path / "feat-api").mkdir()
    multiplexer.open_worktree("zellij", str(tmp_path / "feat-api"), "feat-api")
    tab_states("zellij").show({"feat-api": "◆"})
    zellij.until(lambda: "◆ feat-api" in zellij.tab_names())
    tab_states("zellij").show({"feat-api": ""})
    zellij.until(lambda: zellij.tab_names() == ["Tab #1", "feat-api"])


def test_tabs_and_panes_are_captured_and_built_again_with_programs_held(zellij: ZellijSession, tmp_path: Path) -> None:
    """A program waits behind Enter; folders and the arrangement are the same."""
    layout = tmp_path / "work.kdl"
    layout.write_text(
        f'layout {{\n tab name="work" {{\n  pane split_direction="vertical" {{\n   pane cwd="{tmp_path}"\n'
        '   pane size="30%" command="sleep" {\n    args "300"\n   }\n  }\n }\n}\n'
    )
    zellij.ask("new-tab", "--layout", str(layout))
    zellij.until(lambda: "sleep" in str(zellij.panes()))
    zellij.until(lambda: any(pane.get("pane_cwd") == str(tmp_path) for pane in zellij.panes()))
    found = zellij_layout.capture("one", commands=True)
    work = next(tab for tab in found.tabs if tab.name == "work")
    assert [(pane.program, pane.command) for pane in work.panes] == [("", ""), ("sleep", "sleep 300")], work
    again = replace(found, tabs=(replace(work, name="again"),))
    assert zellij_layout.rebuild(again, "one") == []
    zellij.until(lambda: sum(pane["tab_name"] == "again" for pane in zellij.panes()) == 2)
    held = [pane for pane in zellij.panes() if pane["tab_name"] == "again" and pane["is_held"]]
    assert len(held) == 1 and "sleep" in str(held[0]["terminal_command"])
    made = next(tab for tab in zellij_layout.capture("one", commands=False).tabs if tab.name == "again")
    assert [pane.rectangle[2] for pane in made.panes] == pytest.approx(
        [pane.rectangle[2] for pane in work.panes], abs=2
    )
    assert not any(pane.command for pane in made.panes)


def named(session: str, *words: str) -> list[dict[str, Any]]:
    """What another session than the test's own lists; it answers with nothing while it starts."""
    argv = ["zellij", "--session", session, "action", *words, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT)
    return json.loads(done.stdout) if done.stdout.startswith("[") else []


def panes_of(session: str) -> list[dict[str, Any]]:
    return [pane for pane in named(session, "list-panes", "--all") if not pane["is_plugin"]]


def layout_of(session: str, folder: Path) -> TerminalLayout:
    panes = (
        LayoutPane(str(folder), "", "", "", True, (0, 1, 70, 38)),
        LayoutPane(str(folder), "sleep", "sleep 300", "", False, (70, 1, 70, 38)),
    )
    return TerminalLayout("zellij", session, (LayoutTab("work", True, panes), LayoutTab("other", False, panes[:1])))


def test_a_session_that_is_gone_is_started_from_its_layout(zellij: ZellijSession, tmp_path: Path) -> None:
    """Zellij does not list it any more, so its tabs are built in the background; then a terminal attaches to it."""
    layout = layout_of("two", tmp_path)
    assert not zellij_layout.can_resurrect("two")
    argv = terminal_context.reopen(layout)
    assert argv[1:] == ["attach", "two"]
    zellij.until(lambda: [tab["name"] for tab in named("two", "list-tabs")] == ["work", "other"])
    zellij.until(lambda: len(panes_of("two")) == 3)
    held = [pane for pane in panes_of("two") if pane["is_held"]]
    assert len(held) == 1 and "sleep" in str(held[0]["terminal_command"]), "it waits behind Enter"
    with Terminal(argv, cwd=tmp_path, size=(140, 40)) as terminal:
        terminal.until(b"work")


def test_zellij_itself_brings_back_what_it_still_lists(zellij: ZellijSession, tmp_path: Path) -> None:
    config = Path.home() / ".config" / "zellij" / "config.kdl"
    config.write_text(config.read_text().replace("session_serialization false", "session_serialization true"))
    zellij_layout.start_session(layout_of("three", tmp_path), "three")
    zellij.until(lambda: len(panes_of("three")) == 3)
    before = {
        pid
        for pid in servers(zellij.sockets)
        if f"{zellij.sockets}" in cmdline(pid) and cmdline(pid).endswith("/three")
    }
    assert len(before) == 1
    subprocess.run(["zellij", "--session", "three", "action", "save-session"], check=True, timeout=LIMIT)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    zellij.until(lambda: zellij_layout.can_resurrect("three"))
    argv = terminal_context.reopen(layout_of("three", tmp_path))
    assert argv[1:] == ["attach", "three"] and not before & set(servers(zellij.sockets)), "nothing is built by imi"
    with Terminal(argv, cwd=tmp_path, size=(140, 40)) as terminal:
        terminal.until(b"work")
        zellij.until(lambda: len(panes_of("three")) == 3)
        assert any(pane["is_held"] for pane in panes_of("three")), "its programs wait behind Enter"


def cmdline(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace").rstrip("\0")
    except OSError:
        return ""
