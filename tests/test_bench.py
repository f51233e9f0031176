"""The benchmarks do not affect each other, and none waits for something that cannot happen any more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import bench
from bench import __main__ as runner
from bench import common
from tests.limits import LIMIT


def test_a_benchmark_sees_no_environment_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make bench ARGS="ui claims"` stood still: the claims went to the registry that `ui` had named, and were waited for
    in another."""
    row = "from bench.common import Row\nimport os\n"
    (tmp_path / "first_one.py").write_text(
        f"{row}def run():\n    os.environ['IMI_DATABASE_PATH'] = '/gone'\n    yield Row('first', 1, 'ms')\n"
    )
    (tmp_path / "second_one.py").write_text(
        f"{row}def run():\n    yield Row('second', float('IMI_DATABASE_PATH' in os.environ), 'ms', budget=0)\n"
    )
    monkeypatch.setattr(bench, "__path__", [str(tmp_path)])
    assert runner.main(["first_one", "second_one"]) == 0, capsys.readouterr().out
    assert "IMI_DATABASE_PATH" not in os.environ


def test_waiting_ends_when_the_process_does() -> None:
    done: list[int] = []
    with subprocess.Popen(["/bin/sh", "-c", "exit 3"]) as waiter, pytest.raises(RuntimeError, match="exited with 3"):
        common.wait_until(lambda: bool(done), waiter, 0.001)


def test_waiting_for_a_process_that_did_it_and_ended(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with subprocess.Popen(["/bin/sh", "-c", f": > {made}"]) as waiter:
        common.wait_until(made.exists, waiter, 0.001)
        waiter.wait(LIMIT)
        common.wait_until(made.exists, waiter, 0.001)
