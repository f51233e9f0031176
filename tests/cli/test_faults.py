"""Every command with its N-th write, fsync, rename or mkdir failing: a sentence, an exit status, no half state. # D3

The faults are made by strace in the command and in the git processes that it starts.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli import faults
from tests.cli.faults import ERRORS, FAMILIES, VERBS


def _strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    done = subprocess.run(
        ["strace", "--seccomp-bpf", "-f", "-o", "/dev/null", "-e", "trace=write", "true"],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not _strace_works(), reason="no strace here, or it may not trace")


# (family, error, how far into its calls in percent)
SOME = [
    ("page", "ENOSPC", 15),
    ("sync", "EIO", 50),
    ("mkdir", "ENOSPC", 99),
    ("page", "EIO", 60),
    ("rename", "EACCES", 50),
    ("link", "ENOSPC", 99),
    ("write", "EACCES", 50),
    ("unlink", "EIO", 50),
]


def run(tmp_path: Path, name: str, chosen: list[tuple[str, str, int]] | None) -> dict[str, list[str]]:
    """What went wrong, by fault; all faults there are when none are chosen."""
    verb = VERBS[name]
    world = faults.prepare(tmp_path, verb)
    families = list(FAMILIES) if chosen is None else sorted({family for family, _, _ in chosen})
    counts = {family: faults.count(world, verb, family) for family in families}
    if chosen is None:
        plan = [(f, e, n) for f, calls in counts.items() for e in ERRORS for n in range(1, calls + 1)]
    else:
        plan = [(f, e, max(1, counts[f] * part // 100)) for f, e, part in chosen if counts[f]]
    wrong = {}
    for family, error, number in plan:
        if problems := faults.broken(world, verb, family, error, number):
            wrong[f"{name}: {family} number {number} of {counts[family]} fails with {error}"] = problems
    assert plan
    return wrong


@pytest.mark.parametrize("name", VERBS)
def test_sampled_system_faults_are_handled(tmp_path: Path, name: str) -> None:
    first = list(VERBS).index(
        name
    )  # the commit itself, and another two for each command: together they are all of them
    assert run(tmp_path, name, [("sync", "EIO", 1), *(SOME[(first + step) % len(SOME)] for step in (0, 3))]) == {}


@pytest.mark.soak
@pytest.mark.parametrize("name", VERBS)
def test_every_system_fault_is_handled(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, name, None) == {}
