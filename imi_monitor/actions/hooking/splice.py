"""Puts one piece into a JSON text and takes it out again: every byte that is not the piece's own stays as it is."""

from __future__ import annotations

import json

from imi_monitor.actions.hooking.jsonc import Node

_BLANK = " \t\r\n"


class Style:
    """How the text is laid out: by its own first lines."""

    __slots__ = ("newline", "unit")

    def __init__(self, text: str, root: Node) -> None:
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.unit = "  "
        if root.items:
            indent = _indent_of(text, (root.keys or root.items)[0].start)
            self.unit = indent or self.unit

    def rendered(self, value: object, indent: str, flat: bool) -> str:
        if flat:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + indent).join(lines)


def append(text: str, container: Node, key: str | None, value: object, depth: int, style: Style) -> str:
    """`value` as the last in `container` (with its key, if that is an object); `depth`: how deep the container lies."""
    inside = text[container.start + 1 : container.end - 1]
    flat = "\n" not in text[container.start : container.end] and bool(container.items)
    indent = style.unit * (depth + 1)
    if container.items:
        told = _indent_of(text, (container.keys or container.items)[-1].start)
        indent = indent if told is None else told
    piece = style.rendered(value, indent, flat)
    if key is not None:
        piece = f"{json.dumps(key, ensure_ascii=False)}: {piece}"
    before = " " if flat else style.newline + indent
    if not container.items:
        return _into_empty(text, container, before + piece, style.newline + style.unit * depth, inside)
    if len(container.commas) == len(container.items):  # a comma ends the last one already: ours ends so, too
        return _put(text, container.commas[-1] + 1, f"{before}{piece},")
    last = container.items[-1].end
    tail = text[last : container.end - 1]
    if not tail.strip(_BLANK):
        return _put(text, last, f",{before}{piece}")
    behind = last + len(tail.rstrip(_BLANK))  # a comment belongs to what stands before it
    return _put(_put(text, behind, (style.newline + indent if flat else before) + piece), last, ",")


def remove(text: str, container: Node, index: int) -> str:
    """Without one member or element, its comma, and the blanks in front of it."""
    start, end = (container.keys or container.items)[index].start, container.items[index].end
    if index == 0 and len(container.items) > 1:  # the next one takes its place
        comma = container.commas[0]
        after = text[comma + 1 :]
        return text[:start] + text[end:comma] + after[len(after) - len(after.lstrip(_BLANK)) :]
    while text[start - 1] in _BLANK:
        start -= 1
    if index < len(container.commas):
        comma = container.commas[index]
        return text[:start] + text[end:comma] + text[comma + 1 :]
    if index > 0:
        comma = container.commas[index - 1]
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def inside_of(text: str, container: Node) -> str:
    return text[container.start + 1 : container.end - 1]


def with_inside(text: str, container: Node, inside: str) -> str:
    return text[: container.start + 1] + inside + text[container.end - 1 :]


def _into_empty(text: str, container: Node, piece: str, closing: str, inside: str) -> str:
    kept = inside.rstrip(_BLANK)  # comments
    return text[: container.start + 1] + kept + piece + closing + text[container.end - 1 :]


def _put(text: str, at: int, piece: str) -> str:
    return text[:at] + piece + text[at:]


def _indent_of(text: str, at: int) -> str | None:
    """The blanks before it, if it is the first on its line."""
    start = text.rfind("\n", 0, at) + 1
    before = text[start:at]
    return before if start > 0 and not before.strip(" \t") else None
