"""Open, focus and name in a real Zellij."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.actions.setup.layout_action import LAYOUTS
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.mux import multiplexer, zellij_layout
from imi_monitor.mux.tab_states import tab_states
from tests.mux.test_multiplexer import agent_at
from tests.mux.zellij_kit import MISSING, WHY, ZellijSession, touch, zellij_session

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
