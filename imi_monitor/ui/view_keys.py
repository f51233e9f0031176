"""The keys of an open view, made from its bindings and those of its focused widget: for `?`, the palette and docs/keys.md.

A binding is explained if it has a tooltip. Its id, where it has one, is the command it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from imi_monitor.ui.commands import key_label
from imi_monitor.ui.dialogs.menu import KEY_WIDTH
from imi_monitor.ui.widgets.key_bar import KeyHint

MOVEMENT = "Movement"
_LEAVE = "leave"
_OF_TERMINALS = ("edit", "commit")  # the editor has the terminal; in a browser they say that there is none


@dataclass(frozen=True, slots=True)
class ViewKey:
    """One thing a view does by key."""

    group: str  # the view's label, or MOVEMENT
    keys: tuple[str, ...]  # as Textual names them
    label: str
    help: str
    action: str
    word: str  # the command it stands for; empty without one
    node: DOMNode | None = None  # whose action it is
    in_bar: bool = False  # shown in the bottom line

    @property
    def key_label(self) -> str:
        """The first keys as the screen shows them: two where they fit."""
        two = " ".join(map(key_label, self.keys[:2]))
        return two if len(two) < KEY_WIDTH else key_label(self.keys[0])


def active_keys(screen: Screen[Any]) -> list[ViewKey]:
    """The keys that work in this view now: its own, how to leave it, how to move."""
    label = getattr(screen, "label", "")
    active = [(one.node, one.binding) for one in screen.active_bindings.values() if one.node is not screen.app]
    order = {action: place for place, action in enumerate(_declared_actions(type(screen)))}
    active.sort(key=lambda pair: order.get(pair[1].action, len(order)))
    return _joined((label if node is screen else MOVEMENT, node, binding) for node, binding in active)


def hints(screen: Screen[Any]) -> list[KeyHint]:
    """The bottom line of a view: how to leave it, what it does, and the help last, which is always shown."""
    keys = sorted((one for one in active_keys(screen) if one.in_bar), key=lambda one: one.action != _LEAVE)
    refused = _OF_TERMINALS if getattr(screen.app, "in_browser", False) else ()
    name: Callable[[str], str] = getattr(screen.app, "shown_key", str)
    shown = [
        KeyHint(
            name(key_label(one.keys[0])), one.label, f"app.simulate_key('{one.keys[0]}')", one.action not in refused
        )
        for one in keys
    ]
    helps = [one.binding for one in screen.active_bindings.values() if one.binding.action == "do('help')"]
    return [*shown, *(KeyHint(key_label(one.key), "Help", "app.do('help')") for one in helps)]


def declared_keys(view: type[Screen[Any]]) -> list[ViewKey]:
    """The keys that a class of views declares, without those of its widgets."""
    order = {action: place for place, action in enumerate(_declared_actions(view))}
    found = [one for same in view._merge_bindings().key_to_bindings.values() for one in same]
    found.sort(key=lambda one: order.get(one.action, len(order)))
    return _joined((getattr(view, "label", ""), None, binding) for binding in found)


def _declared_actions(view: type[Screen[Any]]) -> list[str]:
    """The actions of the class's own bindings, in the order in which it lists them."""
    return [one.action for one in Binding.make_bindings(view.__dict__.get("BINDINGS", ()))]


def _joined(bindings: Iterable[tuple[str, DOMNode | None, Binding]]) -> list[ViewKey]:
    """One entry for each action, the view's own first and leaving it behind them."""
    found: dict[tuple[str, str], tuple[DOMNode | None, list[Binding]]] = {}
    for group, node, binding in bindings:
        if binding.tooltip:
            found.setdefault((group, binding.action), (node, []))[1].append(binding)
    keys = [
        ViewKey(
            group,
            tuple(one.key for one in same),
            same[0].description,
            same[0].tooltip,
            action,
            next((one.id for one in same if one.id), ""),
            node,
            any(one.show for one in same),
        )
        for (group, action), (node, same) in found.items()
    ]
    return sorted(keys, key=lambda one: (one.group == MOVEMENT, one.action == _LEAVE))
