"""The system refuses a file or memory while imi imports its modules: one sentence, no traceback, nothing done. # D3"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT

# Imports the n-th module of imi with an error; `for_ever`: all later ones too, those of the error's own report included.
REFUSING = r"""
import os, sys
number, for_ever, raising = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3]
del sys.argv[1:4]
count = 0

class Refusing:
    def find_spec(self, name, path=None, target=None):
        global count
        count += 1
        if count == number or (for_ever and count > number):
            raise eval(raising)

def leave(status):
    os.write(2, f"imports: {count}\n".encode())
    leave_at_once(status)

leave_at_once, os._exit = os._exit, leave
from imi_monitor.__main__ import main
sys.meta_path.insert(0, Refusing())
os._exit(main())
"""
ERRORS = (
    "OSError(24, 'Too many open files', '/some/where')",
    "MemoryError()",
    "ImportError('libsqlite3.so.0: cannot open shared object file: Too many open files')",
)


def refused(
    repo: Repo, number: int, raising: str, *words: str, for_ever: bool = False
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REFUSING, str(number), str(for_ever), raising, *words],
        cwd=repo.path,
        text=True,
        capture_output=True,
        check=False,
        timeout=LIMIT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def imports(repo: Repo, *words: str) -> int:
    done = refused(repo, 0, "None", *words)
    return int(done.stderr.split("imports: ")[1])


def problems(done: subprocess.CompletedProcess[str], status: int, as_json: bool) -> str:
    said = done.stderr.split("imports:")[0]
    if done.returncode == 0:
        return ""  # a module that is not needed
    if done.returncode != status:
        return f"exit status {done.returncode}"
    if "Traceback" in done.stderr + done.stdout:
        return "a traceback"
    if as_json:
        return "" if json.loads(done.stdout)["success"] is False and said == "" else "no JSON"
    return "" if said.startswith("imi: ") and said.count("\n") == 1 else f"no sentence: {said!r}"


@pytest.fixture
def claimed(repo: Repo) -> Repo:
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "a", cwd=repo.path).code == 0
    return repo


def wrong(repo: Repo, words: tuple[str, ...], status: int, step: int, *, for_ever: bool) -> list[str]:
    as_json, last = "--json" in words, imports(repo, *words)
    assert last > 20
    found = []
    for number in range(1, last + 1, step):
        raising = ERRORS[number % len(ERRORS)]
        done = refused(repo, number, raising, *words, for_ever=for_ever)
        if what := problems(done, status, as_json):
            found.append(f"{number} of {last} {raising}: {what}")
        if for_ever and done.returncode == 0:
            found.append(f"{number} of {last}: done without a module")
    return found


VERBS = [
    (("verify-lock", "feat-x", "--agent", "a"), 2),
    (("verify-lock", "feat-x", "--agent", "a", "--json"), 2),
    (("list",), 1),
]


@pytest.mark.parametrize(("words", "status"), VERBS)
@pytest.mark.parametrize("for_ever", [False, True])
def test_a_refused_import_is_one_sentence(claimed: Repo, words: tuple[str, ...], status: int, for_ever: bool) -> None:
    assert wrong(claimed, words, status, 7, for_ever=for_ever) == []


@pytest.mark.soak
@pytest.mark.parametrize(("words", "status"), VERBS)
@pytest.mark.parametrize("for_ever", [False, True])
def test_every_refused_import_is_one_sentence(
    claimed: Repo, words: tuple[str, ...], status: int, for_ever: bool
) -> None:
    assert wrong(claimed, words, status, 1, for_ever=for_ever) == []


def test_the_first_modules_are_not_needed_for_the_sentence(claimed: Repo) -> None:
    done = refused(claimed, 1, ERRORS[0], "list", for_ever=True)
    assert done.stderr.startswith(
        "imi: the system refused to start imi (Too many open files): end programs or raise the limits (`ulimit -a`), "
        "then repeat\n"
    )
    broken = refused(claimed, 1, "ImportError('no module \"x\"')", "list", "--json")
    assert json.loads(broken.stdout)["error"] == "imi cannot start (ImportError: no module ?x?): install it again"
    assert broken.returncode == 1


def test_ctrl_c_during_the_first_imports_is_one_line(claimed: Repo) -> None:
    done = refused(claimed, 1, "KeyboardInterrupt()", "list")
    assert (done.returncode, done.stderr.splitlines()[0]) == (130, "imi: interrupted")


def test_memory_and_shared_libraries_are_the_systems_faults(claimed: Repo) -> None:
    from imi_monitor.cli import crash_log

    for error in (MemoryError(), ImportError("libsqlite3.so.0: failed to map segment from shared object")):
        assert crash_log.recorded(error).code == "system"
    assert crash_log.recorded(ImportError("no module named x")).code == "internal"
