"""`make mutants`: its changes are small programs that differ, its table names tests that exist, its list is current."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import ROOT
from tests.mutants.__main__ import NAMED, draw, equivalents, named_mutants
from tests.mutants.belonging_tests import TESTS, list_test_files
from tests.mutants.changes import list_changes
from tests.mutants.reached_statements import ReachedStatements, Statement, add_probes
from tests.mutants.trial import KILLED, SURVIVED, verdict_of


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a is not None", {"a is None"}),
        ("a not in (b, c)", {"a in (b, c)"}),
        ("a and (b or c)", {"True and (b or c)", "a and (True)", "a and (False or c)", "a and (b or False)"}),
        ("a or []", {"False or []"}),
        ("not (a + 1)", {"(a + 1)", "not (a - 1)", "not (a + 0)"}),
        (
            "if a:\n    raise ValueError",
            {"if True:\n    raise ValueError", "if False:\n    raise ValueError", "if a:\n    pass"},
        ),
        ("x.y = f(True)", {"pass", "x.y = f(False)"}),
        ("p = os.A | os.B", {"p = os.A", "p = os.B"}),
        ("p = os.A | os.O_CLOEXEC", {"p = os.O_CLOEXEC"}),
        (
            "s = 'UPDATE x WHERE a = ? AND b IS NULL AND c = 1'",
            {"s = 'UPDATE x WHERE a = ? AND c = 1'", "s = 'UPDATE x WHERE a = ? AND b IS NULL'"},
        ),
        ("x = run(git, '--all', '-z')", {"x = run(git,  '-z')"}),
        ("T = {'a', 'b', 'c'}", {"T = {'b', 'c'}", "T = {'a', 'c'}"}),
        ('T = f("""\none two\n""")', {'T = f("""\n two\n""")', 'T = f("""\none \n""")'}),
        ("import os\nassert a < b\nx: int | None\nprint(f'{a < b}')", {"import os\nassert a < b\nx: int | None\npass"}),
        ('def f(a: int = 0) -> int | None:\n    """a < b"""', {'def f(a: int = 1) -> int | None:\n    """a < b"""'}),
        ("limit = 512", set()),
        ("if TYPE_CHECKING:\n    from x import y", set()),
    ],
)
def test_the_changes_of_a_piece_of_source(source: str, expected: set[str]) -> None:
    changes = list_changes(f"{source}\n".encode())
    assert {change.changed.decode().rstrip("\n") for change in changes if change.valid} == expected


def test_a_change_is_known_by_its_lines() -> None:
    (change,) = list_changes(b"def f():\n    return (\n        a\n        < b\n    )\n")
    assert change.line == 4
    assert change.lines == ("< b", "<= b")


SAMPLE = '''"""A module."""
from __future__ import annotations

def f(number, *, more=1):
    """Docstring."""
    if number > 1:
        return "many"
    elif (
        number == 1
    ):
        def inner():
            return "one"
        return inner()
    try:
        return 1 / number
    except ZeroDivisionError:
        with open("/dev/null") as file:
            text = file.read()
    finally:
        number = 0
    return [text for _ in range(2)]
'''


@pytest.mark.parametrize(
    ("given", "result", "lines"),
    [
        (5, "many", {6, 7}),
        (1, "one", {6, 8, 11, 12, 13}),
        (0.5, 2.0, {6, 8, 14, 15, 20}),
        (0, ["", ""], {6, 8, 14, 15, 17, 18, 20, 21}),
    ],
)
def test_probes_record_the_statements_and_change_nothing(
    given: float, result: object, lines: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[Statement] = []
    hits: list[int] = []
    monkeypatch.setitem(sys.modules, "imi_monitor._reached", SimpleNamespace(hit=hits.append))
    names: dict[str, Any] = {}
    exec(compile(add_probes("m.py", SAMPLE, statements), "m.py", "exec"), names)
    assert names["f"](given) == result
    assert {statements[number].first for number in hits} == lines


def test_a_change_is_tried_by_the_tests_that_execute_it_the_shortest_first(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    reached, module, file = ReachedStatements(record), "model/text.py", "tests/model/test_text.py"
    assert file in reached.list_unknown([module])
    one = next(one for one in reached.statements if one.module == module)
    reached.add(file, {"slow": (2.0, [one.number]), "quick": (0.1, [one.number]), "other": (0.0, [one.number + 1])})
    for again in (reached, ReachedStatements(record)):
        assert file not in again.list_unknown([module])
        assert again.list_reaching(module, one.first) == ["quick", "slow"]
        assert again.list_reaching(module, 1) is None, "the docstring of the module: all tests"


def test_each_module_has_tests_that_exist() -> None:
    for module in TESTS:
        assert (ROOT / "imi_monitor" / module).is_file(), module
        for test in list_test_files(module):
            assert (ROOT / test).is_file(), f"{module}: {test}"


def test_a_draw_is_repeatable_and_changes_each_line_once() -> None:
    modules = ["model/text.py", "store/claims.py"]
    first, again, other = (draw(modules, 30, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert max(Counter((one.module, one.change.line) for one in first).values()) == 1
    assert {one.module for one in first} == set(modules)
    for one in first:
        ast.parse(one.change.changed)


def test_each_equivalent_change_is_one_that_is_still_drawn() -> None:
    for module, old, new in equivalents():
        changes = list_changes((ROOT / "imi_monitor" / module).read_bytes())
        found = {change.line for change in changes if change.lines == (old, new)}
        assert len(found) == 1, f"{module} has no such change, or it says too little about which: {old} -> {new}"


def test_each_named_fault_is_one_change_of_the_program_as_it_is_and_has_tests() -> None:
    listed = tomllib.loads(NAMED.read_text())["mutant"]
    assert len({one["fault"] for one in listed}) == len(listed) >= 8
    for one, mutant in zip(listed, named_mutants([]), strict=True):
        source = (ROOT / "imi_monitor" / one["module"]).read_text()
        assert source.count(one["old"]) == 1, one["fault"]
        ast.parse(mutant.change.changed)
        assert mutant.tests, one["fault"]
        for test in mutant.tests:
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(), f"{one['fault']}: {test}"
    assert [one.module for one in named_mutants(["retry"])] == ["links/redis_link.py"]


def test_an_unknown_module_is_refused() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "no-such-module"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("no module contains no-such-module: there are store/claims.py, ")


def test_a_change_that_cannot_be_imported_is_noticed() -> None:
    found = verdict_of(
        4, "ImportError while loading conftest '/x/tests/conftest.py'.\nE   TypeError: no\n", ["a.py"], 1.0
    )
    assert (found.outcome, found.by) == (KILLED, "a.py")
    failed = verdict_of(1, "FAILED tests/a.py::test_b[1] - assert False\n", ["tests/a.py"], 1.0)
    assert (failed.outcome, failed.by) == (KILLED, "tests/a.py::test_b")
    assert verdict_of(0, "1 passed", ["a.py"], 1.0).outcome == SURVIVED
    with pytest.raises(RuntimeError, match="cannot run a"):
        verdict_of(4, "ERROR: file or directory not found", ["a.py"], 1.0)
