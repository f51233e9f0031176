"""Dialogs with numbered choices, as Gemini 0.61.0 and Copilot 1.0.102 draw them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.runs import screen_dialog

GEMINI = """\
✦ I run it.
╭────────────────────────────────────╮
│ ? Shell  touch asked.txt           │
│ ╭────────────────────────────────╮ │
│ │ touch asked.txt                │ │
│ ╰────────────────────────────────╯ │
│ Allow execution of [Shell]?        │
│                                    │
│ ● 1. Allow once                    │
│   2. Allow for this session        │
│   3. No, suggest changes (esc)     │
╰────────────────────────────────────╯
"""
COPILOT = """\
 ● I run it.
╭──────────────────────────────────────────╮
│ A command                                │
│ touch asked.txt                          │
│ Do you want to run this command?         │
│ ❯ 1. Yes                                 │
│   2. Yes, and approve it for the session │
│   3. No (Esc)                            │
│ ↑/↓ to navigate · enter to select        │
╰──────────────────────────────────────────╯
"""


@pytest.mark.parametrize(
    ("screen", "text", "last"),
    [
        (GEMINI, "? Shell touch asked.txt touch asked.txt Allow execution of [Shell]?", "No, suggest changes (esc)"),
        (COPILOT, "A command touch asked.txt Do you want to run this command?", "No (Esc)"),
    ],
)
def test_a_dialog_is_what_stands_in_its_frame_above_the_choices(screen: str, text: str, last: str) -> None:
    found = screen_dialog.find(screen)
    assert found is not None and (found.text, len(found.choices), found.choices[-1]) == (text, 3, last)
    moved = screen.replace("●", " ").replace("❯", " ").replace("  2.", "❯ 2.")
    assert screen_dialog.find(moved) == found, "another choice is marked"


@pytest.mark.parametrize("screen", ["", "ready\n> ", "1. only one\n", "the steps are 1. this 2. that\n"])
def test_other_screens_have_no_dialog(screen: str) -> None:
    assert screen_dialog.find(screen) is None


@given(st.text(alphabet="│╭╮❯●123. ab?\n", max_size=300))
def test_no_screen_raises_anything(screen: str) -> None:
    found = screen_dialog.find(screen)
    assert found is None or (len(found.choices) > 1 and found.text)
