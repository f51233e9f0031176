"""Which tests execute which statements of the dangerous modules, so that a change is tried by these tests alone.

A copy of the modules gets a call before each statement of a function. The call sets a byte of a file that all processes of a
test share, also those that the test starts; `reach_plugin.py` reads and clears the file after each test.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers import ROOT
from tests.mutants.belonging_tests import TESTS, list_test_files

Reached = dict[str, tuple[float, list[int]]]  # of each test its seconds and the numbers of the statements
_RECORDER_MODULE = "imi_monitor/_reached.py"
_RECORDER = """\
import mmap
import os

try:
    _fd = os.open({area!r}, os.O_RDWR)
    _area = mmap.mmap(_fd, {size})
    os.close(_fd)
except OSError:  # a process of another user, or behind a wall
    _area = bytearray({size})


def hit(number):
    _area[number] = 1
"""


@dataclass(frozen=True)
class Statement:
    """A statement of a function: its module, its lines, and its number in the shared file."""

    module: str
    first: int
    last: int
    number: int


class ReachedStatements:
    """The record of a checkout: of each test its seconds and the statements that it executes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.statements: list[Statement] = []
        self._probed: dict[str, str] = {}
        self._modules: dict[str, str] = {}  # the hash of each
        for module in TESTS:
            source = (ROOT / "imi_monitor" / module).read_text()
            self._probed[module] = add_probes(module, source, self.statements)
            self._modules[module] = hashlib.sha256(source.encode()).hexdigest()
        self._files: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}

    def list_unknown(self, modules: Iterable[str]) -> list[str]:
        """The test files of these modules that were not measured with the modules as they are now."""
        wanted = [(test, module) for module in modules for test in list_test_files(module)]
        return [*dict.fromkeys(test for test, module in wanted if not self._is_known(test, module))]

    def _is_known(self, test_file: str, module: str) -> bool:
        known = self._files.get(test_file, {})
        return bool(known) and (known["hash"], known["modules"].get(module)) == (
            _hash(test_file),
            self._modules[module],
        )

    def add(self, file: str, tests: Reached) -> None:
        """Keep what the tests of a file execute."""
        kept = {test: (seconds, self._by_module(numbers)) for test, (seconds, numbers) in tests.items()}
        self._files[file] = {"hash": _hash(file), "modules": self._modules, "tests": kept}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._files))

    def _by_module(self, numbers: list[int]) -> dict[str, list[int]]:
        """The first lines of the statements, which stay when another module changes."""
        found: dict[str, set[int]] = {}
        for number in numbers:
            found.setdefault(self.statements[number].module, set()).add(self.statements[number].first)
        return {module: sorted(lines) for module, lines in found.items()}

    def instrument(self, root: Path, area: Path) -> None:
        """Write the modules with their probes into a copy of the checkout; `area` is the shared file."""
        for module, source in self._probed.items():
            (root / "imi_monitor" / module).write_text(source)
        if not area.exists():  # an earlier test's processes may still use it
            area.write_bytes(bytes(len(self.statements)))
            area.chmod(0o666)
        (root / _RECORDER_MODULE).write_text(_RECORDER.format(area=str(area), size=len(self.statements)))

    def list_reaching(self, module: str, line: int) -> list[str] | None:
        """The tests that execute this line, the shortest first. None if it is executed at import, thus by all."""
        around = [one.first for one in self.statements if one.module == module and one.first <= line <= one.last]
        if not around:
            return None
        found = [
            (seconds, test)
            for file in list_test_files(module)
            for test, (seconds, reached) in self._files[file]["tests"].items()
            if max(around) in reached.get(module, ())
        ]
        return [test for _, test in sorted(found)]


def add_probes(module: str, source: str, statements: list[Statement]) -> str:
    """The source with a call before each statement of its functions; the statements are added to the list."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _probe_bodies(module, node, statements)
    at = sum(map(_is_beginning, tree.body))
    tree.body[at:at] = ast.parse("from imi_monitor._reached import hit as _hit").body
    return ast.unparse(ast.fix_missing_locations(tree))


def _probe_bodies(module: str, node: ast.AST, statements: list[Statement]) -> None:
    """Put a call before each statement inside of a node; functions inside of it are visited by themselves."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body:
            setattr(node, name, [made for one in body for made in _probed_statement(module, one, statements)])
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        _probe_bodies(module, inner, statements)


def _probed_statement(module: str, one: ast.stmt, statements: list[Statement]) -> list[ast.stmt]:
    if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
        return [one]
    number = len(statements)
    statements.append(Statement(module, one.lineno, one.end_lineno or one.lineno, number))
    if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        _probe_bodies(module, one, statements)
    return [*ast.parse(f"_hit({number})").body, one]


def _is_beginning(node: ast.stmt) -> bool:
    """Whether a statement has to be the first of a module: its docstring, an import from the future."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _hash(test_file: str) -> str:
    return hashlib.sha256((ROOT / test_file).read_bytes()).hexdigest()
