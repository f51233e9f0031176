"""aider on its own screen: its first prompt is typed, its questions are read from the terminal and answered there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.runs import aider_screen
from imi_monitor.runs.aider_screen import ASKS, BUSY, READY, AiderScreen
from tests.helpers import wait_for
from tests.mux.multiplexer_kit import RunTmux, tmux_server
from tests.mux.zellij_kit import MISSING, WHY, touch, zellij_session
from tests.runs.run_kit import RunWorld, family, has_ended, install

_OPTIONS = "(Y)es/(N)o/(D)on't ask again [Yes]: "
_CHOICES = ("Yes", "No", "Don't ask again")


@pytest.mark.parametrize(
    ("screen", "found"),
    [
        ("", AiderScreen(BUSY)),
        ("Aider v0.86.2\n────────\n> \n\n", AiderScreen(READY)),
        ("────────\nask> why", AiderScreen(READY, typed="why")),
        ("────────\nmulti> ", AiderScreen(READY)),
        ("> add x\n\n░█        Waiting for fake", AiderScreen(BUSY)),
        (
            "I change it.\n\ntouch x\nRun shell command? " + _OPTIONS,
            AiderScreen(ASKS, "Run shell command? touch x", _CHOICES),
        ),
        (
            "Run shell command? (Y)es/(N)o/(D)on'\nt ask again [Yes]: ",
            AiderScreen(ASKS, "Run shell command?", _CHOICES),
        ),
        ("Run shell command? " + _OPTIONS + "y", AiderScreen(BUSY)),
        ("Create new file? (Y)es/(N)o [No]: ", AiderScreen(ASKS, "Create new file?", ("Yes", "No"))),
        (
            "a.py\nAdd file to the chat? (Y)es/(N)o/(A)ll/(S)kip all/(D)on't ask again [Yes]: \n\n",
            AiderScreen(ASKS, "Add file to the chat? a.py", ("Yes", "No", "All", "Skip all", "Don't ask again")),
        ),
    ],
)
def test_the_last_lines_say_what_it_does(screen: str, found: AiderScreen) -> None:
    assert aider_screen.read(screen) == found


@pytest.fixture
def aider(world: RunWorld, tmp_path: Path) -> RunWorld:
    install(tmp_path / "bin", "aider")
    return world


@pytest.fixture
def tmux(aider: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    with tmux_server(tmp_path, monkeypatch) as run:
        yield run


@pytest.mark.parametrize(("answer", "typed"), [("yes", "y"), ("no", "n"), ("3", "d")])
def test_its_question_is_answered_in_tmux(aider: RunWorld, tmux: RunTmux, answer: str, typed: str) -> None:
    run = aider.start("[[ask]]", "aider")
    row = aider.wait(run, "asks")
    assert (row["way"], row["mode"]) == ("window", "ask")
    assert [one["text"] for one in row["asks"]] == ["Run shell command? touch x"]
    refused = aider.imi("say", run, "more")
    assert refused.code == 1 and "a text would answer" in refused.err
    unknown = aider.imi("answer", run, "perhaps")
    assert unknown.code == 2 and "1 (Yes), 2 (No), 3 (Don't ask again)" in unknown.err
    assert aider.imi("answer", run, answer).code == 0
    assert aider.wait(run, "idle")["asks"] == []
    assert f"[Yes]: {typed}" in Path(aider.folder(run).file("chat.md")).read_text()
    assert aider.messages(run)[-1] == "Hello."
    late = aider.imi("answer", run, "yes")
    assert late.code == 1 and late.err.count("\n") == 1


def test_a_follow_up_an_interrupt_and_a_stop_in_tmux(aider: RunWorld, tmux: RunTmux) -> None:
    run = aider.start("hi; there", "aider", "--edits")
    aider.wait(run, "idle")
    assert aider.messages(run) == ["Hello."]
    assert aider.imi("say", run, "[[slow]]").code == 0
    aider.wait(run, "works")
    refused = aider.imi("say", run, "more")
    assert refused.code == 1 and "aider takes no prompt within a turn" in refused.err
    assert aider.imi("interrupt", run).code == 0
    aider.wait(run, "idle")
    processes = family(run)
    assert aider.imi("stop", run).code == 0
    wait_for(has_ended(processes))
    assert aider.wait(run, "completed", "cancelled")["left_behind"] == []


def test_a_question_that_its_user_has_answered_is_too_late(aider: RunWorld, tmux: RunTmux) -> None:
    run = aider.start("[[ask]]", "aider")
    aider.wait(run, "asks")
    tmux("send-keys", "-t", ":1", "n", "Enter")
    late = aider.imi("answer", run, "yes")
    assert late.code == 1 and ("too late" in late.err or "asks nothing" in late.err)
    aider.wait(run, "idle")
    assert "[Yes]: n" in Path(aider.folder(run).file("chat.md")).read_text()


@pytest.mark.skipif(MISSING, reason=WHY)
def test_its_question_is_answered_in_zellij(aider: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zellij_session(tmp_path, monkeypatch) as session:
        touch(session)
        run = aider.start("[[ask]]", "aider")
        aider.wait(run, "asks")
        assert aider.imi("answer", run, "yes").code == 0
        aider.wait(run, "idle")
        assert aider.messages(run)[0] == "allowed"
        assert aider.imi("say", run, "[[slow]]").code == 0
        aider.wait(run, "works")
        assert aider.imi("interrupt", run).code == 0
        aider.wait(run, "idle")


def test_dtach_cannot_say_what_it_asks(aider: RunWorld, tmp_path: Path) -> None:
    (tmp_path / "bin" / "dtach").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "dtach").chmod(0o755)
    refused = aider.imi("start", "aider", "--prompt", "x", "--way", "window")
    assert refused.code == 2 and refused.err.startswith("imi: aider's window needs tmux or Zellij")
    assert aider.imi("runs", "--json").data["runs"] == []
