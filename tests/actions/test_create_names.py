"""Invalid names: exit 2, one line with the reason, nothing created; for every way to create a worktree."""

from __future__ import annotations

import pytest

from tests.actions.create_kit import picture
from tests.helpers import Repo, imi

BAD = {
    "empty": "",
    "300 characters": "x" * 300,
    "101 characters": "x" * 101,
    "space": "user auth",
    "only a space": " ",
    "unicode": "größe",
    "emoji": "🦊",
    "wide": "用户",
    "not UTF-8": "a\udcffb",
    "dots": "..",
    "dot": ".",
    "dots inside": "a..b",
    "leading dot": ".hidden",
    "trailing dot": "a.",
    "up": "../x",
    "slash": "a/b",
    "absolute": "/etc/passwd",
    "backslash": "a\\b",
    "leading dash": "-x",
    "two dashes": "--force",
    "newline": "a\nb",
    "carriage return": "a\rb",
    "tab": "a\tb",
    "escape": "a\x1b[31mb",
    "C1": "a\x9bb",
    "bidi": "a\u202eb",
    "zero width": "a\u200bb",
    "tilde": "a~1",
    "caret": "a^",
    "colon": "a:b",
    "question": "a?",
    "star": "a*",
    "bracket": "a[b",
    "at brace": "a@{b",
    "lock": "a.lock",
    "command": "$(id)",
    "backticks": "`id`",
    "semicolon": "a;b",
    "git": ".git",
    "HEAD": "HEAD",
    "sync": "sync",
    "prefix alone": "feat-",
    "prefix and dot": "feat-.x",
}


@pytest.mark.parametrize("name", BAD.values(), ids=BAD.keys())
def test_a_bad_name_is_refused_with_one_line_and_nothing_is_made(repo: Repo, name: str) -> None:
    before = picture(repo)
    done = imi("feat", "--", name, cwd=repo.path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert done.err.startswith("imi: the ")
    assert all(char.isprintable() for char in done.err.rstrip("\n"))
    assert picture(repo) == before


@pytest.mark.parametrize("name", ["", "a b", "..", "-x", "a\nb", "x" * 300], ids=repr)
def test_add_and_json_refuse_the_same_bad_names(repo: Repo, name: str) -> None:
    done = imi("--json", "add", "fix", "--", name, cwd=repo.path)
    assert (done.code, done.err, done.json["success"], done.json["code"]) == (2, "", False, "bad-name")
    assert picture(repo)["around"] == ["app"]


@pytest.mark.parametrize("name", ["", "a b", ".."])
def test_a_bad_name_is_reported_before_a_missing_repository(name: str) -> None:
    assert "the name" in imi("feat", "--", name).err


def test_a_leading_dash_without_the_double_dash_is_an_unknown_option(repo: Repo) -> None:
    done = imi("feat", "-x", cwd=repo.path)
    assert (done.code, "unknown option -x" in done.err) == (2, True)


@pytest.mark.parametrize(
    "branch",
    [
        "",
        "-f",
        "--lock",
        "a b",
        "a..b",
        "refs/heads/x",
        "a.lock",
        "a//b",
        "/a",
        "a/",
        "@",
        "HEAD",
        "a\nb",
        "b" * 300,
        "0" * 40,
        "a\u202eb",
        "x/.y",
        "@{-1}",
    ],
    ids=repr,
)
def test_a_bad_branch_name_is_refused(repo: Repo, branch: str) -> None:
    before = picture(repo)
    done = imi("feat", "x", f"--branch={branch}", cwd=repo.path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert picture(repo) == before


def test_case_twins_of_worktrees_folders_and_branches_are_refused_with_the_existing_name(repo: Repo) -> None:
    assert imi("feat", "user-auth", cwd=repo.path).code == 0
    (repo.path.parent / "app.worktrees" / "feat-Stray").mkdir()
    repo.git("branch", "feat/Alone")
    before = picture(repo)
    for name, existing in (("User-Auth", "feat-user-auth"), ("stray", "feat-Stray"), ("ALONE", "feat/Alone")):
        done = imi("feat", name, cwd=repo.path)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        assert f"differs from the existing {existing} only in case" in done.err.replace("the branch ", "")
    assert picture(repo) == before


def test_a_case_twin_on_the_remote_is_refused(cloned: Repo) -> None:
    cloned.git("push", "-q", "origin", "main:refs/heads/feat/X")
    cloned.git("fetch", "-q")
    done = imi("feat", "x", cwd=cloned.path)
    assert (done.code, "feat/X" in done.err) == (2, True)


def test_a_branch_that_would_be_a_folder_and_a_file_is_refused(repo: Repo) -> None:
    repo.git("branch", "feat")
    before = picture(repo)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "git cannot hold a branch feat/x beside the branch feat" in done.err) == (1, True)
    assert picture(repo)["branches"] == before["branches"]
    assert imi("feat", "x", "--branch", "topic/x", cwd=repo.path).code == 0


def test_a_name_of_the_longest_allowed_length_works(repo: Repo) -> None:
    assert imi("feat", "x" * 100, cwd=repo.path).code == 0


def test_unknown_types_and_the_review_type_are_refused(repo: Repo) -> None:
    unknown = imi("add", "docs", "x", cwd=repo.path)
    assert (unknown.code, "use one of feat, fix, aiops, devops" in unknown.err) == (2, True)
    review = imi("add", "review", "12", cwd=repo.path)
    assert (review.code, "imi review" in review.err) == (2, True)
    assert imi("add", "feat", cwd=repo.path).code == 2
