"""File systems mounted in worktrees, and kernels without enough watches: nothing is missed, and the mode says why."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.helpers import ROOT, Repo
from tests.limits import LIMIT

UNSHARE = ("unshare", "--map-root-user", "--mount")


@cache
def _missing() -> str:
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr


@pytest.mark.parametrize(
    ("case", "watcher"),
    [
        ("a_file_system_mounted_and_unmounted_while_imi_runs", "inotify"),
        ("a_file_system_mounted_and_unmounted_while_imi_runs", "watchfiles"),
        ("a_file_system_that_was_mounted_before", "inotify"),
        ("a_file_system_that_was_mounted_before", "watchfiles"),
        ("one_folder_mounted_in_two_worktrees", "inotify"),
        ("no_instance_of_inotify_is_left", "inotify"),
        ("no_instance_of_inotify_is_left", "watchfiles"),
        ("an_unreadable_folder_hides_no_other", "inotify"),
        ("an_unreadable_folder_hides_no_other", "watchfiles"),
        ("fewer_watches_than_folders", "inotify"),
        ("fewer_watches_than_folders", "watchfiles"),
    ],
)
def test_in_namespaces(case: str, watcher: str, repo: Repo) -> None:  # W1
    if _missing():
        pytest.skip(f"no namespaces: {_missing()}")
    for name in ("feat-a", "feat-b"):
        repo.worktree(name)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IMI_WATCHER": watcher}
    as_user = ("setpriv", "--bounding-set=-all") if "unreadable" in case else ()
    argv = [
        *UNSHARE,
        *as_user,
        sys.executable,
        "-P",
        "-m",
        "tests.sources.namespace_cases",
        case,
        str(repo.path.parent),
    ]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
