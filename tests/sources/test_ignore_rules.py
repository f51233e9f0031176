"""IgnoreRules decides as `git check-ignore`, also for generated rules and paths."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.sources.files.ignore_rules import IgnoreRules
from tests.helpers import Repo, git


def rules_of(repo: Repo) -> IgnoreRules:
    common = str(repo.path / ".git")
    return IgnoreRules(str(repo.path), common, common)


def ignored_by_git(repo: Repo, paths: list[str]) -> set[str]:
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"], input=asked, cwd=repo.path, capture_output=True, check=False
    )
    return {os.fsdecode(path) for path in done.stdout.split(b"\0") if path}


def test_nested_rules_exclude_files_and_tracked_files(repo: Repo) -> None:
    repo.write("sub/.gitignore", "!keep.sqlite\n*.tmp\n/only-here\n")
    (repo.path / ".git" / "info" / "exclude").write_text("private/\n")
    repo.write("build/tracked.txt", "x")
    repo.git("add", "-f", "build/tracked.txt")
    repo.commit("force-added")
    rules = rules_of(repo)
    paths = [
        "a.sqlite",
        "sub/keep.sqlite",
        "sub/x.tmp",
        "x.tmp",
        "sub/only-here",
        "sub/deep/only-here",
        "private/x",
        "node_modules/a/b.js",
        ".env",
        "src/.env",
        "build/other.txt",
        "build/tracked.txt",
        "src/api.py",
    ]
    found = {path for path in paths if rules.ignores(path, is_dir=False)}
    assert found == ignored_by_git(repo, paths)
    assert rules.prunes("node_modules") and not rules.prunes("build"), "something in build is tracked"


def test_a_tracked_file_with_the_same_ending_is_not_confused(repo: Repo) -> None:
    repo.write("src/x.sqlite", "x")
    repo.git("add", "-f", "src/x.sqlite")
    rules = rules_of(repo)
    assert rules.ignores("x.sqlite", is_dir=False)
    assert not rules.ignores("src/x.sqlite", is_dir=False)


def test_changed_rules_apply_after_forget(repo: Repo) -> None:
    rules = rules_of(repo)
    assert not rules.ignores("notes.md", is_dir=False)
    repo.write(".gitignore", "notes.md\n")
    rules.forget()
    assert rules.ignores("notes.md", is_dir=False)


def test_an_invalid_rule_is_skipped(repo: Repo) -> None:
    repo.write(".gitignore", "[z-a]\n***[\n*.log\n")
    assert rules_of(repo).ignores("x.log", is_dir=False)


def test_rules_and_names_that_are_not_utf_8(repo: Repo) -> None:
    (repo.path / ".gitignore").write_bytes(b"caf\xe9.txt\n*.log\n")
    rules = rules_of(repo)
    assert rules.ignores(os.fsdecode(b"caf\xe9.txt"), is_dir=False)
    assert rules.ignores(os.fsdecode(b"\xff.log"), is_dir=False)


PART = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "x.log",
        "build",
        "*.log",
        "*",
        "**",
        "a*",
        "?",
        "[ab]",
        "[!a]",
        "[a-c]*",
        "a**b",
        "[]a]",
        "[a",
        "\\a",
        "[[:alpha:]]",
        "***",
        "x[.]log",
        "a\\*",
        "!a",
        "#b",
    ]
)
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


@settings(max_examples=200)
@given(st.lists(RULE, max_size=5), st.lists(RULE, max_size=3), st.lists(PATH, min_size=1, max_size=8, unique=True))
def test_generated_rules_are_decided_as_by_git(
    shared: Repo, top: list[str], nested: list[str], paths: list[str]
) -> None:
    shared.write(".gitignore", "\n".join(top) + "\n")
    shared.write("a/.gitignore", "\n".join(nested) + "\n")
    rules = rules_of(shared)
    # a path that exists nowhere is a file to `check-ignore`; `a` is a folder here, so it is left out
    asked = [path for path in paths if path != "a"]
    assert {path for path in asked if rules.ignores(path, is_dir=False)} == ignored_by_git(shared, asked)
