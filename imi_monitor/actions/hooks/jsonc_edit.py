"""Edits a JSON text, with comments and trailing commas allowed, in one place without changing any other byte.

`parse` finds the position of every value; nothing is written back from values, so order, blanks and comments stay.
"""

from __future__ import annotations

import json

from imi_monitor.model.errors import Refused

_BLANK = " \t\r\n\ufeff"
_DEEPEST = 200


class JsonNode:
    """A value at `text[start:end]`. `items` are the values of an object or array, `keys` an object's keys."""

    __slots__ = ("commas", "end", "items", "keys", "kind", "start", "value")

    def __init__(self, kind: str, start: int) -> None:
        self.kind = kind  # object, array, string, other
        self.start = start
        self.end = start
        self.keys: list[JsonNode] = []  # the keys of an object, parallel to `items`; empty for an array
        self.items: list[JsonNode] = []
        self.commas: list[int] = []  # their positions
        self.value: str | None = None  # of a string

    def get(self, key: str) -> JsonNode | None:
        """The value of a member; of two with the same key the last, as in every JSON parser."""
        found = None
        for name, item in zip(self.keys, self.items, strict=False):
            if name.value == key:
                found = item
        return found

    def text_of(self, key: str) -> str | None:
        found = self.get(key)
        return None if found is None else found.value


class NotJson(Refused):
    """The text cannot be parsed and must not be changed."""

    def __init__(self, why: str, at: int, text: str) -> None:
        line = text.count("\n", 0, at) + 1
        super().__init__(f"line {line}: {why}", code="not-json")


def parse(text: str) -> JsonNode:
    """The text as one value; NotJson gives the line of an error."""
    scanner = _JsonScanner(text)
    scanner.skip()
    node = scanner.value(0)
    scanner.skip()
    if scanner.at != len(text):
        raise NotJson("there is text after the end", scanner.at, text)
    return node


class _JsonScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        """Skip blanks and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in _BLANK:
                self.at += 1
            elif text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise NotJson("a comment has no end", self.at, text)
                self.at = end + 2
            else:
                return

    def value(self, depth: int) -> JsonNode:
        if depth > _DEEPEST or self.at >= len(self.text):
            raise NotJson("a value is missing, or too deep", self.at, self.text)
        first = self.text[self.at]
        if first in "{[":
            return self._container(first, depth)
        return self.string() if first == '"' else self._word()

    def string(self) -> JsonNode:
        node = JsonNode("string", self.at)
        at = self.at + 1
        while at < len(self.text) and self.text[at] not in '"\n':
            at += 2 if self.text[at] == "\\" else 1
        if self.text[at : at + 1] != '"':
            raise NotJson("a string has no end", self.at, self.text)
        node.end = self.at = at + 1
        node.value = self._decoded(node)
        return node

    def _decoded(self, node: JsonNode) -> str:
        import json

        try:
            return str(json.loads(self.text[node.start : node.end], strict=False))
        except ValueError:
            raise NotJson("a string is malformed", node.start, self.text) from None

    def _word(self) -> JsonNode:
        import json

        node = JsonNode("other", self.at)
        while self.at < len(self.text) and self.text[self.at] not in _BLANK + ",]}/":
            self.at += 1
        node.end = self.at
        try:
            json.loads(self.text[node.start : node.end])
        except ValueError:
            raise NotJson("this is not a JSON value", node.start, self.text) from None
        return node

    def _container(self, first: str, depth: int) -> JsonNode:
        node = JsonNode("object" if first == "{" else "array", self.at)
        closing = "}" if first == "{" else "]"
        self.at += 1
        while True:
            self.skip()
            if self.text[self.at : self.at + 1] == closing:
                self.at += 1
                node.end = self.at
                return node
            if len(node.commas) < len(node.items):
                raise NotJson(f"a comma or {closing} is missing", self.at, self.text)
            if first == "{":
                self._key(node)
            node.items.append(self.value(depth + 1))
            self.skip()
            if self.text[self.at : self.at + 1] == ",":
                node.commas.append(self.at)
                self.at += 1

    def _key(self, node: JsonNode) -> None:
        if self.text[self.at : self.at + 1] != '"':
            raise NotJson("a key is missing", self.at, self.text)
        node.keys.append(self.string())
        self.skip()
        if self.text[self.at : self.at + 1] != ":":
            raise NotJson("a colon is missing", self.at, self.text)
        self.at += 1
        self.skip()


_BLANKS_AFTER = " \t\r\n"


class JsonStyle:
    """The text's newline and indentation, from its first member."""

    __slots__ = ("newline", "unit")

    def __init__(self, text: str, root: JsonNode) -> None:
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


def append(text: str, container: JsonNode, key: str | None, value: object, depth: int, style: JsonStyle) -> str:
    """The text with `value` appended to `container`, under `key` if that is an object; `depth` is the container's depth."""
    inside = text[container.start + 1 : container.end - 1]
    flat = "\n" not in text[container.start : container.end] and bool(container.items)
    indent = style.unit * (depth + 1)
    if container.items:
        found = _indent_of(text, (container.keys or container.items)[-1].start)
        indent = indent if found is None else found
    piece = style.rendered(value, indent, flat)
    if key is not None:
        piece = f"{json.dumps(key, ensure_ascii=False)}: {piece}"
    before = " " if flat else style.newline + indent
    if not container.items:
        return _into_empty(text, container, before + piece, style.newline + style.unit * depth, inside)
    if len(container.commas) == len(container.items):  # trailing comma: the new value gets one too
        return _put(text, container.commas[-1] + 1, f"{before}{piece},")
    last = container.items[-1].end
    tail = text[last : container.end - 1]
    if not tail.strip(_BLANKS_AFTER):
        return _put(text, last, f",{before}{piece}")
    behind = last + len(tail.rstrip(_BLANKS_AFTER))  # a comment belongs to the value before it
    return _put(_put(text, behind, (style.newline + indent if flat else before) + piece), last, ",")


def remove(text: str, container: JsonNode, index: int) -> str:
    """The text without one member or element, its comma, and the blanks before it."""
    start, end = (container.keys or container.items)[index].start, container.items[index].end
    if index == 0 and len(container.items) > 1:  # the next one moves to its position
        comma = container.commas[0]
        after = text[comma + 1 :]
        return text[:start] + text[end:comma] + after[len(after) - len(after.lstrip(_BLANKS_AFTER)) :]
    while text[start - 1] in _BLANKS_AFTER:
        start -= 1
    if index < len(container.commas):
        comma = container.commas[index]
        return text[:start] + text[end:comma] + text[comma + 1 :]
    if index > 0:
        comma = container.commas[index - 1]
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def inner_text(text: str, container: JsonNode) -> str:
    return text[container.start + 1 : container.end - 1]


def with_inner_text(text: str, container: JsonNode, inside: str) -> str:
    return text[: container.start + 1] + inside + text[container.end - 1 :]


def _into_empty(text: str, container: JsonNode, piece: str, closing: str, inside: str) -> str:
    kept = inside.rstrip(_BLANKS_AFTER)  # comments
    return text[: container.start + 1] + kept + piece + closing + text[container.end - 1 :]


def _put(text: str, at: int, piece: str) -> str:
    return text[:at] + piece + text[at:]


def _indent_of(text: str, at: int) -> str | None:
    """The indentation of the text at `at`; None when it is not the first on its line."""
    start = text.rfind("\n", 0, at) + 1
    before = text[start:at]
    return before if start > 0 and not before.strip(" \t") else None
