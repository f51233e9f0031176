"""Single changes of a module's source, each a small fault that a test has to notice.

Not changed: annotations, docstrings, decorators, `assert`, imports, text for people (f-strings), and numbers other than 0 and 1,
because most limits and times may as well be a little higher.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_OPPOSITE: dict[type[ast.cmpop], tuple[bytes, bytes]] = {
    ast.Lt: (rb"<", b"<="),
    ast.LtE: (rb"<=", b"<"),
    ast.Gt: (rb">", b">="),
    ast.GtE: (rb">=", b">"),
    ast.Eq: (rb"==", b"!="),
    ast.NotEq: (rb"!=", b"=="),
    ast.In: (rb"\bin\b", b"not in"),
    ast.NotIn: (rb"\bnot\s+in\b", b"in"),
    ast.Is: (rb"\bis\b", b"is not"),
    ast.IsNot: (rb"\bis\s+not\b", b"is"),
}
_SQL_CONDITION = re.compile(rb" AND [^\"']+?(?= AND |[\"'])")
_WORD = re.compile(rb"(?<=[\s])[^\s\"']+(?=[\s])")
_IMPLIED_FLAGS = {b"os.O_RDONLY", b"os.O_CLOEXEC"}  # the first is 0, and os.open sets the other in any case
_SKIPPED = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)


@dataclass(frozen=True)
class Change:
    """Replace the bytes from `start` to `end` of a file."""

    source: bytes
    start: int
    end: int
    by: bytes

    @property
    def changed(self) -> bytes:
        return self.source[: self.start] + self.by + self.source[self.end :]

    @property
    def line(self) -> int:
        return self.source.count(b"\n", 0, self.start) + 1

    @property
    def lines(self) -> tuple[str, str]:
        """The changed lines without their indentation, before and after: what a change is known by when other lines move."""
        first = self.source.rfind(b"\n", 0, self.start) + 1
        last = self.source.index(b"\n", self.end)
        old = self.source[first:last]
        new = self.source[first : self.start] + self.by + self.source[self.end : last]
        return _stripped(old), _stripped(new)

    @property
    def valid(self) -> bool:
        """Whether the changed module is a program."""
        try:
            ast.parse(self.changed)
        except SyntaxError:
            return False
        return True


def _stripped(lines: bytes) -> str:
    return "\n".join(line.strip() for line in lines.decode().split("\n"))


class _Source:
    """A module's bytes, with the offsets of its nodes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self._lines = [0]
        for line in source.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> bytes:
        return self.source[self.start(node) : self.end(node)]

    def replaced(self, node: ast.expr | ast.stmt, by: bytes) -> Change:
        return Change(self.source, self.start(node), self.end(node), by)


def list_changes(source: bytes) -> list[Change]:
    """Return every change of this module, in the order of the file; a few are not `valid`."""
    module = _Source(source)
    found = [change for node in _nodes(module.tree) for change in _changes(module, node)]
    unique = {(change.start, change.end, change.by): change for change in found}
    return [unique[key] for key in sorted(unique)]


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in which a change is of interest."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, _SKIPPED) or not isinstance(child, ast.AST) or _is_for_types(child):
                continue
            yield child
            yield from _nodes(child)


def _is_for_types(node: ast.AST) -> bool:
    """Whether a statement only matters to type checkers and readers, or lists slots."""
    if isinstance(node, ast.If | ast.Assign):
        shown = ast.unparse(node.test if isinstance(node, ast.If) else node.targets[0])
        return shown in ("TYPE_CHECKING", "__slots__")
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(module: _Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        yield from _compared(module, node)
    elif isinstance(node, ast.BoolOp):
        neutral = b"True" if isinstance(node.op, ast.And) else b"False"
        yield from (module.replaced(operand, neutral) for operand in node.values if not _is_default(operand))
    elif isinstance(node, ast.BinOp):
        yield from _operator(module, node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield module.replaced(node, b"(" + module.text(node.operand) + b")")
    elif isinstance(node, ast.If | ast.IfExp):
        if not any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node.test)):
            yield module.replaced(node.test, b"True")
            yield module.replaced(node.test, b"False")
    elif isinstance(node, ast.Constant):
        yield from _constant(module, node)
    elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
        yield from _statement(module, node)
    elif isinstance(node, ast.Call):
        yield from _option(module, node)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
        yield from _elements(module, node)


def _is_default(operand: ast.expr) -> bool:
    """Whether an operand only replaces what is missing, as in `names or []`: another empty value would do as well."""
    if isinstance(operand, ast.List | ast.Tuple):
        return not operand.elts
    return (isinstance(operand, ast.Dict) and not operand.keys) or (
        isinstance(operand, ast.Constant) and not operand.value
    )


def _compared(module: _Source, node: ast.Compare) -> Iterator[Change]:
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        pattern, opposite = _OPPOSITE[type(operator)]
        start = module.end(left)
        found = re.search(pattern, module.source[start : module.start(right)])
        if found:
            yield Change(module.source, start + found.start(), start + found.end(), opposite)
        left = right


def _operator(module: _Source, node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.op, ast.BitOr):  # flags, or one set and another
        if module.text(node.right) not in _IMPLIED_FLAGS:
            yield module.replaced(node, module.text(node.left))
        if not {flag.strip() for flag in module.text(node.left).split(b"|")} <= _IMPLIED_FLAGS:
            yield module.replaced(node, module.text(node.right))
    elif isinstance(node.op, ast.Add | ast.Sub):
        sign, other = (b"+", b"-") if isinstance(node.op, ast.Add) else (b"-", b"+")
        at = module.source.find(sign, module.end(node.left), module.start(node.right))
        if at >= 0:
            yield Change(module.source, at, at + 1, other)


def _constant(module: _Source, node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield module.replaced(node, b"False" if node.value else b"True")
    elif node.value in (0, 1) and isinstance(node.value, int):
        yield module.replaced(node, b"1" if node.value == 0 else b"0")
    elif isinstance(node.value, str):
        start, text = module.start(node), module.text(node)
        words = _WORD if text.startswith(b'"""') else _SQL_CONDITION
        for found in words.finditer(text):
            yield Change(module.source, start + found.start(), start + found.end(), b"")


def _statement(module: _Source, node: ast.stmt) -> Iterator[Change]:
    """Leave a statement out: a call, a change of an object, a refusal, a jump."""
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call | ast.Await):
        return
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return  # what comes next would fail for lack of the name
    yield module.replaced(node, b"pass")


def _option(module: _Source, node: ast.Call) -> Iterator[Change]:
    """Leave out an argument that is an option of a program."""
    for argument in node.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value.startswith("-"):
            end = module.end(argument)
            comma = re.match(rb"\s*,", module.source[end:])
            if comma:
                yield Change(module.source, module.start(argument), end + comma.end(), b"")


def _elements(module: _Source, node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> Iterator[Change]:
    """Leave one row out of a table of constants."""
    keys = node.keys if isinstance(node, ast.Dict) else node.elts
    if len(keys) > 2 and all(isinstance(key, ast.Constant | ast.Tuple) for key in keys):
        starts = [module.start(key) for key in keys if key is not None]
        for start, after in pairwise(starts):
            yield Change(module.source, start, after, b"")
