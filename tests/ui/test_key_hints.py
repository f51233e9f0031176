"""Advice on the dashboard names keys: the user's, and the menu for commands without one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.model.advice import advised
from imi_monitor.ui import commands, key_hints
from tests.helpers import ROOT


@pytest.fixture(autouse=True)
def default_keys() -> Iterator[None]:
    key_hints.use(commands.table())
    yield
    key_hints.use(commands.table())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("removed x: `imi undo` brings it back", "removed x: U brings it back"),
        ("x exists: move it, then `imi undo 12`", "x exists: move it, then K"),
        ("run `imi repair` if it was moved, else `imi prune`", "press Z if it was moved, else P"),
        ("merged but not closed: see `imi remove feat-x`", "merged but not closed: see D"),
        ("no worktrees yet: `imi feat NAME` makes one", "no worktrees yet: n makes one"),
        ("use `imi review NUMBER`", "press v"),
        ("`imi start claude --prompt TEXT` starts one", "> starts one"),
        ("`imi push x` does that", "Push (a) does that"),
        ("correct it (`imi config servers.redis_url`)", "correct it (`imi config servers.redis_url`)"),
        (
            "`imi agents describe AGENT --team NAME` gives it one",
            "`imi agents describe AGENT --team NAME` gives it one",
        ),
        ("`imi trust` allows them", "`imi trust` allows them"),
        (advised("it is held", "wait with --wait SECONDS", "`imi claim` waits in line"), "it is held: c waits in line"),
    ],
)
def test_advice_names_the_key_of_the_same_command(text: str, shown: str) -> None:
    assert key_hints.in_keys(text) == shown


def test_advice_follows_the_users_keys() -> None:
    key_hints.use(commands.table({"undo": "f5", "sync": "Z", "menu": ""}))
    assert key_hints.in_keys("`imi undo` restores it") == "f5 restores it"
    assert (
        key_hints.in_keys("`imi repair` finds it") == "Repair finds it"
    )  # the keymap gave its key and the menu's away


def test_a_read_only_dashboard_names_no_key_that_it_does_not_have() -> None:
    key_hints.use(commands.table(read_only=True))
    assert key_hints.in_keys("`imi undo` restores it") == "`imi undo` restores it"
    assert key_hints.in_keys("`imi queue` shows the line") == "Q shows the line"


def test_no_advice_spells_a_key_itself() -> None:
    """A key in a text would be wrong where [ui.keymap] changes it; a view's own keys are not in it."""
    spelled = re.compile(
        r"(^|[ (:;,])([b-zA-HJ-Z]|a) (brings|shows|forgets|searches|makes|claims|lists|waits|to wait|restores)"
    )
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for folder in ("actions", "model", "sources", "ui")
        for path in sorted((Path(ROOT) / "imi_monitor" / folder).rglob("*.py"))
        if path.parent.name != "views"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        if spelled.search(node.value)
    ]
    assert not found
