"""A person who looks elsewhere is called back; one who looks is left alone."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from imi_monitor import paths
from imi_monitor.model.alert import Alert
from imi_monitor.ui import notifications
from tests.ui.payloads import PAYLOADS, bad_characters, leaked
from tests.ui.pty_kit import FOCUS_IN, FOCUS_OUT, Terminal

OSC9 = b"\x1b]9;imi: claude-1 lost feat-api to codex-2 (and 2 more)\x1b\\"


def fed(tmp_path: Path, *worlds: str, **env: str) -> Terminal:
    argv = [sys.executable, "-m", "tests.ui.dashboard_process", *worlds]
    return Terminal(argv, cwd=tmp_path, env=env)


def settings(text: str) -> None:
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True)
    file.write_text(f"[notify]\n{text}")


def news(tmp_path: Path, terminal: Terminal, *, focused: bool = False) -> None:
    """Show the first world, look away, and let the second one happen."""
    terminal.until(b"feat-api")
    if not focused:
        terminal.send(FOCUS_OUT)
        terminal.until((tmp_path / "unfocused").exists)
    terminal.mark = len(terminal.output)
    os.kill(terminal.process.pid, signal.SIGUSR1)


def finished(terminal: Terminal) -> bytes:
    terminal.until(b"dead")  # the second world is on the screen
    terminal.send(b"q")
    assert terminal.ended() == 0
    assert terminal.modes_left() == set()
    return bytes(terminal.output[terminal.mark :])


def test_notification_is_sent_while_the_window_is_unfocused(tmp_path: Path) -> None:
    with fed(tmp_path, "busy", "taken_over") as terminal:
        news(tmp_path, terminal)
        terminal.until(OSC9)
        assert b"\a" in terminal.output
        terminal.until(b"\x1b[22;2t\x1b]2;imi: claude-1 lost")
        terminal.send(FOCUS_IN)
        terminal.until(b"\x1b[23;2t")
        output = finished(terminal)
        assert output.count(b"\x1b]9;") == 1 and output.count(b"\x1b[23;2t") == 1


def test_notification_is_sent_when_an_agent_starts_to_wait(tmp_path: Path) -> None:
    with fed(tmp_path, "at_work", "asking") as terminal:
        news(tmp_path, terminal)
        terminal.until(b"\x1b]9;imi: codex-1 asks in fix-bug: permission prompt (and 1 more)\x1b\\")
        terminal.send(b"q")
        assert terminal.ended() == 0


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ("asking = false", b"\x1b]9;imi: claude-1 has finished its turn in feat-api\x1b\\"),
        ("finished = false", b"\x1b]9;imi: codex-1 asks in fix-bug: permission prompt\x1b\\"),
    ],
)
def test_notifications_about_agents_can_be_turned_off(tmp_path: Path, chosen: str, says: bytes) -> None:
    settings(chosen)
    with fed(tmp_path, "at_work", "asking") as terminal:
        news(tmp_path, terminal)
        terminal.until(says)
        terminal.send(b"q")
        assert terminal.ended() == 0
        assert terminal.output.count(b"\x1b]9;") == 1


def test_window_title_is_restored_at_the_end(tmp_path: Path) -> None:
    with fed(tmp_path, "busy", "taken_over") as terminal:
        news(tmp_path, terminal)
        terminal.until(b"\x1b]2;imi: ")
        terminal.signal(signal.SIGTERM)
        terminal.ended()
        assert terminal.output.count(b"\x1b[23;2t") == 1


def test_no_notification_while_the_window_is_focused(tmp_path: Path) -> None:
    with fed(tmp_path, "busy", "taken_over") as terminal:
        news(tmp_path, terminal, focused=True)
        output = finished(terminal)
        assert b"\x1b]" not in output and b"\a" not in output


@pytest.mark.parametrize(
    ("chosen", "there", "gone"),
    [
        ('when = "never"', (), (b"\x1b]", b"\a")),
        ("bell = false", (b"\x1b]9;", b"\x1b]2;"), (b"\a",)),
        ('desktop = "off"', (b"\a", b"\x1b]2;"), (b"\x1b]9;",)),
        ('desktop = "osc777"', (b"\x1b]777;notify;imi;claude-1 lost",), (b"\x1b]9;",)),
        ("title = false", (b"\x1b]9;", b"\a"), (b"\x1b]2;", b"\x1b[22;2t")),
        ("claim_lost = false", (b"\x1b]9;imi: feat-ui and devops-ci conflict in Makefile\x1b\\",), (b"lost",)),
        ("claim_lost = false\ncollision = false", (), (b"\x1b]", b"\a")),
    ],
)
def test_each_kind_of_notification_can_be_turned_off(
    tmp_path: Path, chosen: str, there: tuple[bytes, ...], gone: tuple[bytes, ...]
) -> None:
    settings(chosen)
    with fed(tmp_path, "busy", "taken_over") as terminal:
        news(tmp_path, terminal)
        for wanted in there:
            terminal.until(wanted)
        output = finished(terminal)
        assert not [one for one in gone if one in output]


def test_a_command_is_run_and_its_failure_shown(tmp_path: Path) -> None:
    settings(f'command = "cat > {tmp_path}/told; exit 3"\ntitle = false')
    with fed(tmp_path, "busy", "taken_over") as terminal:
        news(tmp_path, terminal)
        terminal.until(b".command ended with status 3")  # the border below it is painted in pieces
        assert (tmp_path / "told").read_text().startswith("claude-1 lost feat-api to codex-2\n")
        finished(terminal)


def test_notification_is_wrapped_for_tmux(tmp_path: Path) -> None:
    with fed(tmp_path, "busy", "taken_over", TMUX="/tmp/tmux-0/default,1,0") as terminal:
        news(tmp_path, terminal)
        terminal.until(b"\x1bPtmux;\x1b" + OSC9.replace(b"\x1b", b"\x1b\x1b")[1:] + b"\x1b\\")
        finished(terminal)


def test_notification_text_and_escape_sequences() -> None:
    one = Alert("asking", ("a",), "claude-1 asks; really\x1b]0;x\x07")
    assert notifications.summary([one]) == "claude-1 asks; really\\x1b]0;x\\x07"
    assert notifications.summary([one, one, one]).endswith("(and 2 more)")
    assert notifications.desktop_sequence("a;b", "auto", {"TERM": "foot"}) == "\x1b]777;notify;imi;a,b\x1b\\"
    assert notifications.desktop_sequence("a;b", "auto", {"TERM": "xterm-256color"}) == "\x1b]9;imi: a,b\x1b\\"


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("how", ["osc9", "osc777"])
@pytest.mark.parametrize("environ", [{}, {"TMUX": "/tmp/tmux-0/default,1,0"}], ids=["terminal", "tmux"])
def test_hostile_text_stays_inside_its_notification(payload: str, how: str, environ: dict[str, str]) -> None:  # T2
    """Between the beginning and the end of the sequence there is nothing that a terminal acts on."""
    text = notifications.summary([Alert("asking", ("a",), PAYLOADS[payload])])
    assert bad_characters(text) == [] and len(text) <= 200
    sequence = notifications.desktop_sequence(text, how, environ)
    esc = "\x1b\x1b" if environ else "\x1b"
    begin, end = ("\x1bPtmux;", "\x1b\\") if environ else ("", "")
    begin += esc + ("]777;notify;imi;" if how == "osc777" else "]9;imi: ")
    end = esc + "\\" + end
    inner = sequence.removeprefix(begin).removesuffix(end)
    assert sequence == begin + inner + end
    assert bad_characters(inner) == [] and ";" not in inner


@pytest.mark.parametrize("payload", ["title", "clipboard c1", "open osc", "tmux", "lines", "surrogates", "long wide"])
def test_hostile_alert_in_title_and_notification(payload: str, tmp_path: Path) -> None:
    settings('when = "always"\ntitle = true\nbell = false')
    with fed(tmp_path, "busy", f"hostile_loss:{payload}") as terminal:
        news(tmp_path, terminal)
        terminal.until(b"\x1b]2;imi: ")
        terminal.until(lambda: b"\x1b\\" in terminal.output.rpartition(b"\x1b]2;imi: ")[2])
        terminal.send(b"q")
        assert terminal.ended() == 0
        ours = re.compile(rb"\x1b\](?:2|9);imi: [^\x00-\x1f\x7f]*\x1b\\")
        found = ours.findall(bytes(terminal.output))
        assert len(found) == 2
        assert leaked(ours.sub(b"", bytes(terminal.output))) == []
        assert all(bad_characters(one[2:-2].decode()) == [] for one in found)
