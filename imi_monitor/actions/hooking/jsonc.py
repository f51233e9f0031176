"""Where things stand in a JSON text, comments and trailing commas allowed, so that it can be changed in one place only.

Nothing is ever written back from values: a settings file keeps its order, its blanks and its comments.
"""

from __future__ import annotations

from imi_monitor.model.errors import Refused

_BLANK = " \t\r\n\ufeff"
_DEEPEST = 200


class Node:
    """A value and its place: `text[start:end]`. Of an object the members, of an array the elements; commas stand at `commas`."""

    __slots__ = ("commas", "end", "items", "keys", "kind", "start", "value")

    def __init__(self, kind: str, start: int) -> None:
        self.kind = kind  # object, array, string, other
        self.start = start
        self.end = start
        self.keys: list[Node] = []  # of an object, beside `items`
        self.items: list[Node] = []
        self.commas: list[int] = []
        self.value: str | None = None  # of a string

    def get(self, key: str) -> Node | None:
        """The value of a member; of two with the same key the last, as every reader has it."""
        found = None
        for name, item in zip(self.keys, self.items, strict=False):
            if name.value == key:
                found = item
        return found

    def text_of(self, key: str) -> str | None:
        found = self.get(key)
        return None if found is None else found.value


class NotJson(Refused):
    """The text cannot be understood, and so must not be changed."""

    def __init__(self, why: str, at: int, text: str) -> None:
        line = text.count("\n", 0, at) + 1
        super().__init__(f"line {line}: {why}", code="not-json")


def parse(text: str) -> Node:
    """The whole text as one value; NotJson says where it is none."""
    scanner = _Scanner(text)
    scanner.skip()
    node = scanner.value(0)
    scanner.skip()
    if scanner.at != len(text):
        raise NotJson("there is something behind the end", scanner.at, text)
    return node


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        """Over blanks and comments."""
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

    def value(self, depth: int) -> Node:
        if depth > _DEEPEST or self.at >= len(self.text):
            raise NotJson("a value is missing, or too deep", self.at, self.text)
        first = self.text[self.at]
        if first in "{[":
            return self._container(first, depth)
        return self.string() if first == '"' else self._word()

    def string(self) -> Node:
        node = Node("string", self.at)
        at = self.at + 1
        while at < len(self.text) and self.text[at] not in '"\n':
            at += 2 if self.text[at] == "\\" else 1
        if self.text[at : at + 1] != '"':
            raise NotJson("a string has no end", self.at, self.text)
        node.end = self.at = at + 1
        node.value = self._decoded(node)
        return node

    def _decoded(self, node: Node) -> str:
        import json

        try:
            return str(json.loads(self.text[node.start : node.end], strict=False))
        except ValueError:
            raise NotJson("a string is malformed", node.start, self.text) from None

    def _word(self) -> Node:
        import json

        node = Node("other", self.at)
        while self.at < len(self.text) and self.text[self.at] not in _BLANK + ",]}/":
            self.at += 1
        node.end = self.at
        try:
            json.loads(self.text[node.start : node.end])
        except ValueError:
            raise NotJson("this is no JSON value", node.start, self.text) from None
        return node

    def _container(self, first: str, depth: int) -> Node:
        node = Node("object" if first == "{" else "array", self.at)
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

    def _key(self, node: Node) -> None:
        if self.text[self.at : self.at + 1] != '"':
            raise NotJson("a key is missing", self.at, self.text)
        node.keys.append(self.string())
        self.skip()
        if self.text[self.at : self.at + 1] != ":":
            raise NotJson("a colon is missing", self.at, self.text)
        self.at += 1
        self.skip()
