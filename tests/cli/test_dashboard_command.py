"""Plain `imi` without a terminal: the status, or the first steps."""

from __future__ import annotations

import re
from pathlib import Path

from tests.helpers import Repo, imi


def test_without_any_repository_the_first_steps_are_printed(tmp_path: Path) -> None:
    ran = imi(cwd=tmp_path / "home")
    assert (ran.code, ran.err) == (0, "")
    assert "git worktrees" in ran.out and "imi feat NAME" in ran.out and "imi review 123" in ran.out
    assert imi("--json", cwd=tmp_path / "home").data == {"worktrees": [], "count": 0, "failed": 0}


def test_in_a_pipe_plain_imi_is_the_status(repo: Repo) -> None:
    repo.worktree("feat-api")
    plain, status = (re.sub(r"\d+s$", "", imi(*args, cwd=repo.path).out, flags=re.M) for args in ((), ("status",)))
    assert plain == status and "feat/api" in plain
    assert [row["worktree_name"] for row in imi("--json", cwd=repo.path).data["worktrees"]] == ["app", "feat-api"]


def test_plain_imi_takes_repositories_by_path(repo: Repo, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "tool")
    data = imi("--json", str(repo.path), str(other.path), str(other.path / "src"), cwd=tmp_path / "home").data
    assert [row["repo"] for row in data["worktrees"]] == ["app", "tool"]


def test_a_repository_is_named_by_its_folder_where_the_registry_calls_it_by_its_origin(tmp_path: Path) -> None:
    store = Repo.create_with_origin(tmp_path / "mystore", tmp_path / "shop-origin.git")
    imi("feat", "one", cwd=store.path)
    away = tmp_path / "home"
    for name in ("mystore", "shop-origin"):
        assert "feat-one" in imi("list", "--repo", name, cwd=away).out
    other = Repo.create_with_origin(tmp_path / "second" / "mystore", tmp_path / "tool-origin.git")
    imi("feat", "two", cwd=other.path)
    ran = imi("list", "--repo", "mystore", cwd=away)  # two have the folder: neither is guessed
    assert ran.code == 1 and "shop-origin, tool-origin" in ran.err


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    ran = imi(str(tmp_path / "home"), cwd=tmp_path)
    assert ran.code == 1 and "not inside a git repository" in ran.err
    ran = imi("--repo", "nowhere", cwd=tmp_path)
    assert ran.code == 1 and "nowhere" in ran.err
