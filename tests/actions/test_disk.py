"""`imi disk`: as `du` counts, shared data once, the trash included, and it can be cancelled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.housekeeping.disk_action import DiskAction
from imi_monitor.disk_usage import DiskMeasurement
from imi_monitor.model.errors import ImiError
from imi_monitor.paths import default_database
from tests.helpers import Repo, imi
from tests.registry_faults import overwrite_header


def du(*paths: Path, exclude: tuple[str, ...] = ()) -> int:
    words = ["du", "-s", "-B1", "-c", *(f"--exclude={one}" for one in exclude), *map(str, paths)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()[0])


def rows(repo: Repo, *words: str) -> dict[tuple[str, str], dict[str, Any]]:
    data = imi("disk", "--json", *words, cwd=repo.path).data
    return {(one["kind"], one["worktree_name"] or one["repo"]): one for one in data["entries"]}


def test_worktrees_trash_and_git_data_are_as_du_counts_them(repo: Repo) -> None:
    one, two = repo.worktree("feat-one"), repo.worktree("feat-two")
    one.write("big.bin", "x" * 3_000_000)
    inner = Repo(one.path / "inner")
    repo.git("worktree", "add", "-q", "-b", "feat/inner", str(inner.path))
    inner.write("huge.bin", "x" * 5_000_000)
    assert imi("remove", "two", cwd=repo.path).code == 0
    found = rows(repo)
    git = repo.path / ".git"
    assert set(found) == {
        ("worktree", "app"),
        ("worktree", "feat-one"),
        ("worktree", "inner"),
        ("trash", "feat-two"),
        ("git", "app"),
    }
    assert found["worktree", "app"]["bytes"] == du(repo.path, exclude=(".git",))
    assert found["worktree", "feat-one"]["bytes"] == du(one.path, git / "worktrees" / "feat-one", exclude=("inner",))
    assert found["worktree", "inner"]["bytes"] == du(inner.path, git / "worktrees" / "inner")
    (entry,) = imi("trash", "list", "--json", cwd=repo.path).data["entries"]
    folder = Path(entry["trash_path"]).parent
    assert found["trash", "feat-two"]["bytes"] == du(folder, git / "worktrees" / "feat-two")
    assert found["trash", "feat-two"]["trash_id"] == entry["id"] and not two.path.exists()
    data = imi("disk", "--json", cwd=repo.path).data
    # the worktrees folder itself and the path to the trash are in no row
    assert 0 <= du(repo.path, one.path) - data["total_bytes"] <= 8192
    assert [row["worktree_name"] for row in data["entries"]][:2] == ["inner", "feat-one"], "largest first"
    assert data["total_bytes"] == data["worktree_bytes"] + data["trash_bytes"] + data["git_bytes"]


def test_the_trash_is_measured_without_the_registry_that_lists_it(repo: Repo, tmp_path: Path) -> None:
    repo.worktree("feat-one").write("big.bin", "x" * 3_000_000)
    assert imi("remove", "one", "--force", cwd=repo.path).code == 0
    before = rows(repo)
    overwrite_header(Path(default_database()))
    ran = imi("disk", "--json", cwd=repo.path)
    found = {(one["kind"], one["worktree_name"] or one["repo"]): one for one in ran.data["entries"]}
    for key in ("path", "bytes", "files", "trash_id"):
        assert {name: row[key] for name, row in found.items()} == {name: row[key] for name, row in before.items()}
    assert found["trash", "feat-one"]["bytes"] > 3_000_000
    assert ran.data["registry"]["code"].startswith("registry")
    (note,) = (repo.path / ".git" / "imi" / "trash").glob("*/note.json")
    note.write_text("broken")
    (trashed,) = [row for row in rows(repo).values() if row["kind"] == "trash"]
    assert trashed["bytes"] > 3_000_000, "an entry that nothing describes"


def test_the_oldest_first_and_one_worktree(repo: Repo) -> None:
    one, two = repo.worktree("feat-one"), repo.worktree("feat-two")
    for path in [*one.path.iterdir(), *one.path.glob("src/*")]:
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    os.utime(two.path / "README.md", (2e18 / 1e9, 2e18 / 1e9))
    data = imi("disk", "--oldest", "--json", cwd=repo.path).data
    assert data["entries"][0]["worktree_name"] == "feat-one"
    assert data["entries"][0]["changed_at"] == "2001-09-09T01:46:40.000000+00:00"
    done = imi("disk", "one", cwd=repo.path)
    assert done.out.splitlines()[-1].endswith("in 1 worktree") and "feat-two" not in done.out
    assert imi("disk", "nothing", cwd=repo.path).code == 1


def test_a_file_with_several_links_is_counted_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 1_000_000)
    os.link(tmp_path / "a" / "file", tmp_path / "b" / "file")
    (tmp_path / "b" / "out").symlink_to("/usr")
    measurement = DiskMeasurement(lambda: False)
    sizes = [measurement.measure(str(tmp_path / name)).size for name in ("a", "b")]
    assert sum(sizes) == du(tmp_path / "a", tmp_path / "b") and sizes[1] < 100_000


def test_it_shows_progress_and_can_be_cancelled(repo: Repo) -> None:
    tree = repo.worktree("feat-one")
    for number in range(200):
        (tree.path / f"d{number}").mkdir()
    shown: list[str] = []
    context = Context(str(repo.path), progress=shown.append, cancelled=lambda: len(shown) > 1)
    with context, pytest.raises(ImiError, match="cancelled"):
        DiskAction().run(context, Request("disk", {}))
    assert shown == ["measuring app", "measuring feat-one"]
