"""`imi layout`: what it installs, and that Zellij and tmux take it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers import imi
from tests.mux.multiplexer_kit import tmux_server
from tests.mux.zellij_kit import MISSING, WHY, touch, zellij_session


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `imi` that only waits."""
    tool = tmp_path / "tools" / "imi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexec sleep 300\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")


def test_a_layout_is_printed_or_installed_once(tmp_path: Path) -> None:
    file = Path.home() / ".config/zellij/layouts/imi.kdl"
    printed = imi("layout", "zellij", cwd=tmp_path)
    assert printed.code == 0 and "size=60" in printed.out and not file.exists()
    assert imi("layout", "zellij", "--install", "--json", cwd=tmp_path).data["changed"] is True
    assert file.read_text() == printed.out
    assert imi("layout", "zellij", "--install", "--json", cwd=tmp_path).data["changed"] is False
    file.write_text("// made by `imi layout`: of an earlier version\n")
    assert imi("layout", "zellij", "--install", cwd=tmp_path).code == 0 and file.read_text() == printed.out
    assert str(file) in imi("uninstall", cwd=tmp_path).out


def test_a_file_of_another_is_never_replaced(tmp_path: Path) -> None:
    file = Path.home() / ".config/tmux/imi.conf"
    file.parent.mkdir(parents=True)
    file.write_text("set -g mouse on\n")
    refused = imi("layout", "tmux", "--install", cwd=tmp_path)
    assert refused.code == 1 and "is not imi's" in refused.err
    assert file.read_text() == "set -g mouse on\n"
    assert imi("layout", "screen", cwd=tmp_path).code == 2


@pytest.mark.usefixtures("program")
def test_tmux_shows_the_dashboard_in_sixty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imi("layout", "tmux", "--install", cwd=tmp_path)
    with tmux_server(tmp_path, monkeypatch) as tmux:
        tmux("resize-window", "-x", "140", "-y", "40")
        tmux("source-file", str(Path.home() / ".config/tmux/imi.conf"))
        panes = tmux("list-panes", "-F", "#{pane_width} #{pane_active} #{pane_start_command}").splitlines()
    assert [pane.split()[:2] for pane in panes] == [["79", "1"], ["60", "0"]]
    assert "imi monitor" in panes[1]


@pytest.mark.usefixtures("program")
@pytest.mark.skipif(MISSING, reason=WHY)
def test_zellij_shows_the_dashboard_in_sixty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imi("layout", "zellij", "--install", cwd=tmp_path)
    with zellij_session(tmp_path, monkeypatch) as zellij:
        touch(zellij)
        zellij.ask("new-tab", "--layout", "imi", "--name", "work")
        zellij.until(lambda: len(zellij.panes()) == 3)
        shell, dashboard = (pane for pane in zellij.panes() if pane["tab_name"] == "work")
        assert dashboard["terminal_command"] == "imi monitor"
        assert dashboard["pane_columns"] == 60 and shell["is_focused"]
