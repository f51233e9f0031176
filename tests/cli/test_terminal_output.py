"""What the command line prints on a terminal: colours, and the user's pager for long output."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor import paths
from imi_monitor.model.styled_text import ADDED, MUTED, StyledText, join, styled
from tests.helpers import Repo, git, imi, imi_argv
from tests.ui.pty_kit import Terminal

GREEN_LINE = b"\x1b[32m+changed\x1b[m"


@pytest.fixture
def changed(repo: Repo) -> Repo:
    repo.write("README.md", "changed\n")
    return repo


def on_terminal(*words: str, cwd: Path, rows: int = 60, env: dict[str, str] | None = None) -> bytes:
    """The output of a command in a terminal with so many rows."""
    clean = {"NO_COLOR": "", "GIT_PAGER": "", "COLUMNS": "", "LINES": ""} | (env or {})
    with Terminal(imi_argv(*words), cwd=cwd, size=(100, rows), env=clean) as terminal:
        assert terminal.ended(60) == 0, terminal.text
        return bytes(terminal.output)


def test_a_terminal_gets_colours_and_a_pipe_gets_none(changed: Repo) -> None:
    assert GREEN_LINE in on_terminal("diff", cwd=changed.path)
    for verb in ("diff", "status", "list", "log", "help"):
        assert b"\x1b[" in on_terminal(verb, cwd=changed.path), verb
        assert "\x1b" not in imi(verb, cwd=changed.path).out


def test_no_color_a_dumb_terminal_and_the_option_decide(changed: Repo) -> None:
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in on_terminal("diff", cwd=changed.path, env=env)
    assert b"\x1b" not in on_terminal("diff", "--color", "never", cwd=changed.path)
    assert GREEN_LINE.decode() in imi("diff", "--color=always", cwd=changed.path).out
    assert "\x1b" not in imi("diff", "--color", "always", "--json", cwd=changed.path).out
    refused = imi("diff", "--color", "red", cwd=changed.path)
    assert refused.code == 2 and "--color must be one of auto, always, never, not 'red'" in refused.err


def test_text_from_outside_brings_no_colours_of_its_own(repo: Repo) -> None:
    repo.write("\x1b[31mred.txt", "\x1b[31mred\n")
    shown = imi("diff", "--color", "always", cwd=repo.path).out
    assert "\\x1b[31mred.txt" in shown and "\\x1b[31mred" in shown
    assert "\x1b[31m" not in shown


def test_long_output_goes_through_the_users_pager(changed: Repo, tmp_path: Path) -> None:
    pager = {"GIT_PAGER": "sed 's/^/paged /'"}
    assert b"paged " in on_terminal("diff", cwd=changed.path, rows=3, env=pager)
    assert b"paged " not in on_terminal("diff", cwd=changed.path, rows=60, env=pager)  # it fits
    assert b"paged " not in on_terminal("diff", "--json", cwd=changed.path, rows=3, env=pager)
    assert b"paged " in on_terminal("help", cwd=tmp_path, rows=3, env=pager)


def test_a_pager_that_cannot_start_or_ends_early_is_no_failure(changed: Repo) -> None:
    assert GREEN_LINE in on_terminal("diff", cwd=changed.path, rows=3, env={"GIT_PAGER": "no-such-pager"})
    changed.write("long.txt", "line\n" * 50_000)
    assert b"line" not in on_terminal("diff", "--file", "long.txt", cwd=changed.path, rows=3, env={"GIT_PAGER": "true"})


def test_the_repositorys_pager_never_runs_and_the_users_does(changed: Repo, own_home: Path) -> None:
    fired = own_home / "fired"
    git("config", "core.pager", f"touch {fired}; cat", cwd=changed.path)

    def paged_by() -> bytes:
        argv = ["env", "-u", "GIT_PAGER", *imi_argv("diff")]
        with Terminal(argv, cwd=changed.path, size=(100, 3), env={"PAGER": "sed 's/^/own /'"}) as terminal:
            assert terminal.ended(60) == 0, terminal.text
            return bytes(terminal.output)

    assert b"own " in paged_by()
    git("config", "--file", str(own_home / ".gitconfig"), "core.pager", "sed 's/^/users /'", cwd=changed.path)
    assert b"users " in paged_by() and not fired.exists()


def test_styles_survive_joining_padding_and_cutting() -> None:
    from imi_monitor.model import columns

    text = join(("a ", styled("bcd", ADDED), " e", styled("f", MUTED)))
    assert isinstance(text, StyledText) and text == "a bcd ef"
    assert text.spans == ((2, 5, ADDED), (7, 8, MUTED))
    cut = columns.clip(text, 4)
    assert isinstance(cut, StyledText) and (cut, cut.spans) == ("a b…", ((2, 4, ADDED),))
    padded = columns.pad(styled("7", ADDED), 3, right=True)
    assert isinstance(padded, StyledText) and (padded, padded.spans) == ("  7", ((2, 3, ADDED),))
    assert not isinstance(join(("plain", " text")), StyledText) and styled("", ADDED) == ""


def test_older_names_of_settings_are_noted_once_on_a_terminal(repo: Repo) -> None:
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[git_settings]\nremote_name = 'origin'\nprune_on_fetch = true\n")
    note = b"imi: settings with older names: git_settings.remote_name is now git.remote_name; `imi config` lists them"
    assert "older" not in imi("status", cwd=repo.path).err  # a program reads no notes
    assert note in on_terminal("status", cwd=repo.path)
    assert note not in on_terminal("status", cwd=repo.path)
    file.write_text("[sync_settings]\nenabled = true\n")
    assert b"sync_settings.enabled is now sync.enabled" in on_terminal("status", cwd=repo.path)
    file.write_text("[git_settings]\nprune_on_fetch = true\n")
    assert b"older" not in on_terminal("status", cwd=repo.path)
