"""Runs tests against a changed module, in a copy of the checkout: the working tree is never changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import ROOT
from tests.mutants.belonging_tests import list_test_files
from tests.mutants.changes import Change
from tests.mutants.reached_statements import Reached, ReachedStatements

_COPIED = ("imi_monitor", "tests", "docs", "styles", "snapshots", "pyproject.toml", "README.md", "CHANGELOG.md")
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)  # without the parameters of the test
_TESTS_FAILED, _STOPPED = 1, 2  # pytest's exit status; the second also for a file that cannot be imported
_NOT_STARTED, _NO_CONFTEST = 4, "while loading conftest"  # status and message where a conftest cannot be imported
_OPTIONS = ("-n", "0", "-p", "no:cacheprovider", "-p", "tests.mutants.reach_plugin")
_LIMIT = 1800  # seconds for the tests of a module; a test has a limit of its own
KILLED, SURVIVED, HUNG = "killed", "survived", "hung"
BROKEN = "broken"  # the test that failed also fails without the change


@dataclass(frozen=True)
class Mutant:
    """A change of a module, which is named by its path in the package."""

    module: str
    change: Change
    tests: tuple[str, ...] = ()  # empty: those that execute the changed line


@dataclass(frozen=True)
class Verdict:
    """What the tests said; `by` is the test that failed."""

    outcome: str
    by: str
    seconds: float


class Workspace:
    """A copy of the checkout in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._root, self._temporary = folder / "copy", folder / "tmp"
        self._root.mkdir()
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self._root / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
            else:
                shutil.copy2(source, self._root / name)

    def attempt(self, mutant: Mutant, chosen: list[str] | None) -> Verdict:
        """Run tests on the changed package, and the one that failed once more on the unchanged package.

        `chosen` are tests in their order, None is all tests of the module.
        """
        path = self._root / "imi_monitor" / mutant.module
        self._write(path, mutant.change.changed)
        try:
            named = list(mutant.tests) or list_test_files(mutant.module)
            verdict = self._run(named) if mutant.tests or chosen is None else self._run_chosen(chosen)
        finally:
            self._write(path, mutant.change.source)
        if verdict.outcome == KILLED and self._run([verdict.by]).outcome != SURVIVED:
            return Verdict(BROKEN, verdict.by, verdict.seconds)
        return verdict

    def record(self, reached: ReachedStatements, file: str) -> tuple[str, Reached]:
        """Run a test file on the package with probes: the file, and what each of its tests executes."""
        area, lines = self._root.with_name("area"), self._root.with_name("reached")
        reached.instrument(self._root, area)
        lines.write_text("")
        self._run([file], {"MUTANTS_AREA": str(area), "MUTANTS_REACHED": str(lines)}, stop_at_first=False)
        found = map(json.loads, lines.read_text().splitlines())
        return file, {test: (seconds, numbers) for test, seconds, numbers in found}

    def _run_chosen(self, tests: list[str]) -> Verdict:
        if not tests:
            return Verdict(SURVIVED, "", 0)
        listed = self._root.with_name("tests")
        listed.write_text("\n".join(tests))
        return self._run([*dict.fromkeys(test.partition("::")[0] for test in tests)], {"MUTANTS_TESTS": str(listed)})

    def _write(self, path: Path, content: bytes) -> None:
        """Replace a module; Python takes its compiled file for current if time and size are equal."""
        path.write_bytes(content)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def _run(self, tests: list[str], variables: dict[str, str] | None = None, *, stop_at_first: bool = True) -> Verdict:
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        shutil.rmtree(self._root / ".hypothesis", ignore_errors=True)  # no examples of the mutant before
        began = time.monotonic()
        log = self._root.with_name("log")  # no pipe, whose end would be held open by what the tests leave behind
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *_OPTIONS, *(["-x"] if stop_at_first else []), *tests],
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(self._root), "TMPDIR": str(self._temporary), **(variables or {})},
            )
        _running.add(process)
        try:
            process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            return Verdict(HUNG, f"no end within {_LIMIT} s", time.monotonic() - began)
        finally:
            _end_group(process)
            _running.discard(process)
        return verdict_of(process.returncode, log.read_text(errors="replace"), tests, time.monotonic() - began)


def verdict_of(status: int, output: str, tests: list[str], seconds: float) -> Verdict:
    """The verdict by pytest's exit status and output."""
    if status == 0:
        return Verdict(SURVIVED, "", seconds)
    if status == _NOT_STARTED and _NO_CONFTEST in output:  # the changed module cannot be imported
        return Verdict(KILLED, tests[0], seconds)
    failed = _FAILED.search(output)
    if status not in (_TESTS_FAILED, _STOPPED) or failed is None:
        raise RuntimeError(f"pytest cannot run {' '.join(tests)}:\n{output[-2000:]}")
    return Verdict(KILLED, failed.group(1), seconds)


def end_all() -> None:
    """End what runs in any workspace."""
    for process in tuple(_running):
        _end_group(process)


_running: set[subprocess.Popen[bytes]] = set()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what the tests have left behind, such as an agent that a mutant did not stop."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
