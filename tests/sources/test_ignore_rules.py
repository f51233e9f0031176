"""Our ignore decisions are git's, on generated rules and trees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imi_monitor.sources.files.ignore_rules import IgnoreRules
from tests.helpers import Repo, git


def ours(repo: Repo) -> IgnoreRules:
    common = str(repo.path / ".git")
    return IgnoreRules(str(repo.path), common, common)


def gits(repo: Repo, paths: list[str]) -> set[str]:
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"], input=asked, cwd=repo.path, capture_output=True, check=False
    )
    return {os.fsdecode(path) for path in done.stdout.split(b"\0") if path}


def test_levels_exclude_and_tracked_files(repo: Repo) -> None:
    repo.write("sub/.gitignore", "!keep.sqlite\n*.tmp\n/only-here\n")
    (repo.path / ".git" / "info" / "exclude").write_text("private/\n")
    repo.write("build/tracked.txt", "x")
    repo.git("add", "-f", "build/tracked.txt")
    repo.commit("force-added")
    rules = ours(repo)
    paths = [
        "a.sqlite", "sub/keep.sqlite", "sub/x.tmp", "x.tmp", "sub/only-here", "sub/deep/only-here", "private/x",
        "node_modules/a/b.js", ".env", "src/.env", "build/other.txt", "build/tracked.txt", "src/api.py",
    ]  # fmt: skip
    found = {path for path in paths if rules.ignores(path, is_dir=False)}
    assert found == gits(repo, paths)
    assert rules.prunes("node_modules") and not rules.prunes("build"), "something in build is tracked"


def test_a_tracked_file_of_the_same_ending_does_not_count(repo: Repo) -> None:
    repo.write("src/x.sqlite", "x")
    repo.git("add", "-f", "src/x.sqlite")
    rules = ours(repo)
    assert rules.ignores("x.sqlite", is_dir=False)
    assert not rules.ignores("src/x.sqlite", is_dir=False)


def test_changed_rules_are_seen_after_forget(repo: Repo) -> None:
    rules = ours(repo)
    assert not rules.ignores("notes.md", is_dir=False)
    repo.write(".gitignore", "notes.md\n")
    rules.forget()
    assert rules.ignores("notes.md", is_dir=False)


def test_a_rule_nobody_can_read_is_passed_over(repo: Repo) -> None:
    repo.write(".gitignore", "[z-a]\n***[\n*.log\n")
    assert ours(repo).ignores("x.log", is_dir=False)


def test_bytes_that_are_no_text(repo: Repo) -> None:
    (repo.path / ".gitignore").write_bytes(b"caf\xe9.txt\n*.log\n")
    rules = ours(repo)
    assert rules.ignores(os.fsdecode(b"caf\xe9.txt"), is_dir=False)
    assert rules.ignores(os.fsdecode(b"\xff.log"), is_dir=False)


PART = st.sampled_from(
    ["a", "b", "ab", "x.log", "build", "*.log", "*", "**", "a*", "?", "[ab]", "[!a]", "[a-c]*", "a**b", "[]a]", "[a",
     "\\a", "[[:alpha:]]", "***", "x[.]log", "a\\*", "!a", "#b"]
)  # fmt: skip
RULE = st.builds(
    lambda negate, root, parts, folder: f"{negate}{root}{'/'.join(parts)}{folder}",
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(PART, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
NAME = st.sampled_from(["a", "b", "ab", "x.log", "build", "axb"])
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    base = tmp_path_factory.mktemp("ignore")
    git("init", "-q", "-b", "main", base, cwd=base)
    return Repo(Path(base))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RULE, max_size=5), st.lists(RULE, max_size=3), st.lists(PATH, min_size=1, max_size=8, unique=True))
def test_generated_rules(shared: Repo, top: list[str], nested: list[str], paths: list[str]) -> None:
    shared.write(".gitignore", "\n".join(top) + "\n")
    shared.write("a/.gitignore", "\n".join(nested) + "\n")
    rules = ours(shared)
    # a path that exists nowhere is a file to `check-ignore`; `a` is a folder here, so it is left out
    asked = [path for path in paths if path != "a"]
    assert {path for path in asked if rules.ignores(path, is_dir=False)} == gits(shared, asked)
