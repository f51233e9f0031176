"""Keys that Zellij and tmux keep for themselves: whatever a key of the dashboard does, another key does as well."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.dom import DOMNode

import imi_monitor.ui
from imi_monitor.ui import commands
from tests.helpers import ROOT
from tests.mux.zellij_kit import MISSING, PROGRAM, WHY

_RECORDED = Path(__file__).with_name("zellij-0.45.1-keys.kdl")
_SECTION = re.compile(r'^    (\w+)((?: "\w+")*) \{$')
_NAMES = {"=": "equals_sign", "+": "plus", "-": "minus", "[": "left_square_bracket", "]": "right_square_bracket"}
TMUX_PREFIX = "ctrl+b"


def keys_in_normal_mode(config: str) -> set[str]:
    """The keys that this configuration of Zellij binds while a pane has the keyboard, as Textual names them."""
    found: set[str] = set()
    applies = False
    for line in config.splitlines():
        section = _SECTION.match(line)
        if section is not None:
            name, modes = section[1], re.findall(r'"(\w+)"', section[2])
            applies = name in ("normal", "shared") or (name == "shared_among" and "normal" in modes)
            applies = applies or (name == "shared_except" and "normal" not in modes)
        elif applies and line.strip().startswith("bind "):
            found |= {textual_key(key) for key in re.findall(r'"([^"]+)"', line.partition("{")[0])}
    return found


def textual_key(key: str) -> str:
    """`Ctrl p` as `ctrl+p`, `Alt Shift p` as `alt+P`."""
    *modifiers, last = key.split(" ")
    if "Shift" in modifiers and len(last) == 1:
        modifiers.remove("Shift")
        last = last.upper()
    elif len(last) > 1:
        last = last.lower()
    return "+".join([*(one.lower() for one in modifiers), _NAMES.get(last, last)])


KEPT = keys_in_normal_mode(_RECORDED.read_text()) | {TMUX_PREFIX}


def widget_classes() -> Iterator[type[DOMNode]]:
    """The app, the views, the dialogs and the widgets of the dashboard."""
    for module in pkgutil.walk_packages(imi_monitor.ui.__path__, "imi_monitor.ui."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module.name:
                yield value


def keys_by_action(of: type[DOMNode]) -> dict[str, set[str]]:
    """What the keys of a class do, those of the classes it is made from included, and of the commands that do the same."""
    found: dict[str, set[str]] = defaultdict(set)
    for base in of.__mro__:
        for binding in base.__dict__.get("BINDINGS", ()):
            keys, action = (binding[0], binding[1]) if isinstance(binding, tuple) else (binding.key, binding.action)
            found[action] |= set(keys.replace(" ", "").split(","))
    for command in commands.table():
        for action in (f"do('{command.word}')", command.word):
            if action in found and command.key:
                found[action].add(command.key)
    return found


def test_the_recorded_keys_are_those_that_zellij_is_known_for() -> None:
    assert {"ctrl+p", "ctrl+q", "ctrl+b", "alt+left", "alt+plus", "alt+P"} <= KEPT
    assert not KEPT & {"enter", "escape", "h", "q", "ctrl+c", "ctrl+d"}, "these reach the pane"


@pytest.mark.skipif(MISSING, reason=WHY)
def test_the_recorded_keys_are_those_of_the_zellij_on_this_machine() -> None:
    done = subprocess.run(
        [str(PROGRAM), "setup", "--dump-config"], capture_output=True, text=True, timeout=60, check=True
    )
    assert keys_in_normal_mode(done.stdout) == KEPT


def test_every_command_has_a_key_that_reaches_the_dashboard_or_is_in_the_palette() -> None:
    table = commands.table()
    assert [one.word for one in table if one.key in KEPT] == []
    palette = next(one for one in table if one.word == "palette")
    assert palette.key and palette.key not in KEPT, "it lists the commands without a key"


def test_no_kept_key_is_the_only_way_to_do_something() -> None:
    only = [
        (found.__name__, action)
        for found in widget_classes()
        for action, keys in keys_by_action(found).items()
        if keys <= KEPT
    ]
    assert only == []


def test_the_guide_lists_the_kept_keys_of_the_dashboard_with_another_way() -> None:
    bound = {
        key: action
        for found in widget_classes()
        for action, keys in keys_by_action(found).items()
        for key in keys & KEPT
    }
    guide = " ".join((ROOT / "docs" / "guide.md").read_text().split())
    sentence = guide[guide.index("Of the keys of the dashboard") :].partition(". ")[0]
    assert set(re.findall(r"`((?:ctrl|alt)\+\S+)`", sentence)) == set(bound)
    ways = {"do('palette')": ":", "quit": "q"}
    assert set(bound.values()) == set(ways)
    assert [one for one in ways.values() if f"`{one}`" not in sentence] == []
