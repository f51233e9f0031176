"""`imi go` and `imi trunk`: the worktree that a query finds."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.status import go_action
from imi_monitor.model.errors import Refused
from tests.helpers import ROOT, Repo, git, imi, imi_argv
from tests.limits import LIMIT, read_some


def register(repo: Repo) -> str:
    with Context(str(repo.path)) as context:
        return context.register(context.repository())


def where(cwd: Path, query: str, **options: object) -> str:
    """The name of the worktree that `imi go query` leads to."""
    with Context(str(cwd)) as context:
        outcome = go_action.GoAction().run(context, Request("go", {"query": query, **options}))
    assert outcome.path == outcome.data["target_path"]
    return str(outcome.data["worktree_name"])


@pytest.fixture
def app(repo: Repo) -> Repo:
    for name in ("feat-api", "feat-rapid-parser", "fix-login", "review-12"):
        repo.worktree(name)
    repo.worktree("odd-name", "topic/unicorn")
    register(repo)
    return repo


@pytest.fixture
def tool(tmp_path: Path) -> Repo:
    made = Repo.create(tmp_path / "tool")
    made.worktree("feat-other")
    made.worktree("feat-login-page")
    register(made)
    return made


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("feat-api", "feat-api"),
        ("api", "feat-api"),  # without its prefix it is exact, so `rapid` does not compete
        ("API", "feat-api"),
        ("feat-r", "feat-rapid-parser"),
        ("pars", "feat-rapid-parser"),
        ("12", "review-12"),
        ("frp", "feat-rapid-parser"),
        ("unicorn", "odd-name"),  # by its branch
        ("topic/unicorn", "odd-name"),
        ("main", "app"),
        ("app", "app"),
        ("tool", "tool"),  # by the repository's name, to its trunk
        ("other", "feat-other"),  # in another repository
        ("login", "fix-login"),  # here before there
        ("login-page", "feat-login-page"),
    ],
)
def test_go_finds_the_best_match(app: Repo, tool: Repo, query: str, name: str) -> None:
    assert where(app.path, query) == name
    assert where(app.path.parent / "feat-api", query) == name


def test_scattered_letters_here_rank_below_a_name_elsewhere(app: Repo, tool: Repo) -> None:
    app.worktree("fix-o-t-h-e-r")
    assert where(app.path, "other") == "feat-other"
    assert where(app.path, "fother") == "fix-o-t-h-e-r"


def test_go_prints_the_path_and_nothing_else(app: Repo) -> None:
    ran = imi("go", "api", cwd=app.path)
    assert (ran.code, ran.out, ran.err) == (0, f"{app.path.parent / 'feat-api'}\n", "")
    data = imi("--json", "go", "api", cwd=app.path).data
    assert data == {
        "target_path": str(app.path.parent / "feat-api"),
        "worktree_name": "feat-api",
        "repo": "app",
        "branch": "feat/api",
    }


def test_go_lists_equally_good_matches(app: Repo) -> None:
    app.worktree("fix-api")
    ran = imi("go", "api", cwd=app.path)
    assert (
        ran.code == 1 and ran.out == "" and "feat-api" in ran.err and "fix-api" in ran.err and "more letters" in ran.err
    )
    answer = imi("--json", "go", "api", cwd=app.path).json
    assert (answer["success"], answer["code"]) == (False, "ambiguous")
    assert [one["worktree_name"] for one in answer["data"]["candidates"]] == ["feat-api", "fix-api"]
    assert [one["path"] for one in answer["data"]["candidates"]] == [
        str(app.path.parent / name) for name in ("feat-api", "fix-api")
    ]


def test_go_without_a_match_is_refused(app: Repo) -> None:
    ran = imi("go", "feat-apx", cwd=app.path)
    assert ran.code == 1 and "nothing matches 'feat-apx'" in ran.err and "feat-api" in ran.err


def test_go_ignores_missing_worktrees(app: Repo) -> None:
    shutil.rmtree(app.path.parent / "review-12")
    with pytest.raises(Refused):
        where(app.path, "review-12")
    (app.path.parent / "fix-login" / ".git").unlink()
    with pytest.raises(Refused):
        where(app.path, "fix-login")


def test_go_repos_finds_repositories_only(app: Repo, tool: Repo) -> None:
    assert where(app.path, "tool", repos=True) == "tool"
    assert where(app.path, "ap", repos=True) == "app"
    with pytest.raises(Refused):
        where(app.path, "feat-api", repos=True)
    assert imi("go", "-r", "too", cwd=app.path).out == f"{tool.path}\n"


def test_go_searches_only_the_repository_of_the_repo_option(app: Repo, tool: Repo) -> None:
    assert imi("go", "--repo", "tool", "login", cwd=app.path).out == f"{tool.path.parent / 'feat-login-page'}\n"
    assert imi("go", "--repo", "tool", "feat-api", cwd=app.path).code == 1


def test_go_works_outside_of_any_repository(app: Repo, tool: Repo, tmp_path: Path) -> None:
    assert imi("go", "other", cwd=tmp_path / "home").out == f"{tool.path.parent / 'feat-other'}\n"


def test_go_without_a_query_needs_a_terminal(app: Repo) -> None:
    ran = imi("go", cwd=app.path)
    assert ran.code == 1 and ran.out == "" and "needs a query" in ran.err and "fix-login" in ran.err
    answer = imi("--json", "go", cwd=app.path).json
    assert len(answer["data"]["candidates"]) == 6 and answer["code"] == "choose"


def test_go_without_any_worktree_is_refused(tmp_path: Path) -> None:
    ran = imi("go", cwd=tmp_path / "home")
    assert ran.code == 1 and "imi feat NAME" in ran.err


@pytest.mark.parametrize(
    ("answer", "index"), [("2", 1), ("", None), ("7", None), ("0", None), ("x", None), ("-1", None)]
)
def test_go_offers_a_list_on_a_terminal(app: Repo, answer: str, index: int | None) -> None:
    main, other = pty.openpty()
    process = subprocess.Popen(
        imi_argv("go"),
        cwd=app.path,
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=other,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(other)
    shown = b""
    deadline = time.monotonic() + LIMIT
    while b"to cancel" not in shown and time.monotonic() < deadline:
        shown += read_some(main, 4096)
    os.write(main, answer.encode() + b"\n")
    out, _ = process.communicate(timeout=LIMIT)
    os.close(main)
    assert b"2  app  feat-api" in shown
    names = ["app", "feat-api"]
    expected = "" if index is None else f"{app.path.parent / names[index]}\n"
    assert (process.returncode, out) == (0 if index is not None else 1, expected)


def test_trunk_prints_the_path_of_the_trunk(app: Repo, tool: Repo) -> None:
    inside = app.path.parent / "feat-api" / "src"
    assert imi("trunk", cwd=inside).out == f"{app.path}\n"
    assert imi("trunk", "tool", cwd=inside).out == f"{tool.path}\n"
    assert imi("--json", "trunk", cwd=inside).data["target_path"] == str(app.path)


def test_trunk_of_a_cluster(cluster: Repo) -> None:
    assert imi("trunk", cwd=cluster.path.parent).out == f"{cluster.path}\n"


def test_trunk_of_a_bare_repository(cloned: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git("clone", "-q", "--bare", str(tmp_path / "origin.git"), str(bare), cwd=tmp_path)
    refused = imi("trunk", cwd=bare)
    assert refused.code == 1 and "bare and has no worktree on main" in refused.err
    git("worktree", "add", "-q", str(tmp_path / "trunk-main"), "main", cwd=bare)
    git("worktree", "add", "-q", "-b", "feat/x", str(tmp_path / "feat-x"), cwd=bare)
    assert imi("trunk", cwd=bare).out == f"{tmp_path / 'trunk-main'}\n"
    assert imi("trunk", cwd=tmp_path / "feat-x").out == f"{tmp_path / 'trunk-main'}\n"


def test_the_exact_path_is_written_for_the_shell(repo: Repo, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/feat-\xff\x1b[31m"
    subprocess.run(["git", "worktree", "add", "-q", "-b", "feat/odd", odd], cwd=repo.path, check=True)
    target = tmp_path / "cd"
    ran = imi("go", "feat/odd", cwd=repo.path, env={"IMI_CD_FILE": str(target)})
    assert ran.code == 0 and target.read_bytes() == odd and "\x1b" not in ran.out
