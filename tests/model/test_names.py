"""Which names are valid, and what a name stands for."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model import names, times

BAD_NAMES = [
    "",
    "x" * 300,
    "two words",
    "naïve",
    "a..b",
    "-leading",
    "new\nline",
    "bell\x07",
    "a/b",
    "a\\b",
    ".hidden",
    "end.",
    "x.lock",
    "a~b",
    "a^b",
    "a:b",
    "a?b",
    "a*b",
    "a[b",
    "a@{b",
    "sync",
    ".iMi",
    ".git",
    "\u202eabc",
    "tab\t",
    "\udcff",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_are_refused(name: str) -> None:
    assert names.name_problem(name)


@pytest.mark.parametrize("name", ["user-auth", "x", "v1.2", "a_b", "UPPER", "123", "a+b"])
def test_good_names_are_accepted(name: str) -> None:
    assert names.name_problem(name) is None


@settings(max_examples=300)
@given(st.text(min_size=1, max_size=30))
def test_a_good_name_makes_a_branch_git_accepts(name: str) -> None:
    if names.name_problem(name) is None:
        branch = names.branch_name("feat/", name, "slash")
        assert names.branch_problem(branch) is None
        done = subprocess.run(["git", "check-ref-format", "--branch", branch], capture_output=True, check=False)
        assert done.returncode == 0


@settings(max_examples=300)
@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda s: "\0" not in s)
)
def test_a_branch_we_accept_git_accepts(branch: str) -> None:
    if names.branch_problem(branch) is None:
        done = subprocess.run(["git", "check-ref-format", f"refs/heads/{branch}"], capture_output=True, check=False)
        assert done.returncode == 0


@pytest.mark.parametrize(
    "branch", ["-f", "--upload-pack=x", "@{-1}", "HEAD", "@", "a b", "x\x9b", "x\u202e", "a..b", "a.lock/b"]
)
def test_branch_names_that_only_git_accepts_are_refused(branch: str) -> None:  # G3
    assert names.branch_problem(branch)


def test_directory_and_branch_names() -> None:
    assert names.directory_name("feat-", "user-auth") == "feat-user-auth"
    assert names.directory_name("feat-", "feat-user-auth") == "feat-user-auth"
    assert names.branch_name("feat/", "user-auth", "slash") == "feat/user-auth"
    assert names.branch_name("feat/", "feat-user-auth", "slash") == "feat/user-auth"
    assert names.branch_name("feat/", "user-auth", "dash") == "feat-user-auth"


def test_pull_request_directories() -> None:
    assert [names.pull_request_of(n) for n in ("review-123", "pr-7", "pr-review-9")] == [123, 7, 9]
    assert [names.pull_request_of(n) for n in ("feat-1", "review-x", "review-", "pr-²")] == [None] * 4


def test_moments_with_any_fraction_are_parsed() -> None:
    for text in (
        "2025-12-30T14:15:09+00:00",
        "2025-12-30T14:15:09.470+00:00",
        "2025-12-30T14:15:09.470006187+00:00",
        "2025-12-30T14:15:09Z",
        "2025-12-30 14:15:09",
    ):
        moment = times.parse(text)
        assert moment is not None and moment.tzinfo is not None and moment.minute == 15
    assert times.parse("yesterday") is None
    assert times.parse(None) is None
    assert times.parse(times.stamp()) is not None


def test_ages_are_coarse_and_unknown_is_unknown() -> None:
    shown = [times.age(s) for s in (None, 0.4, 9.9, 11, 59, 61, 3599, 3601, 90000)]
    assert shown == ["?", "0s", "9s", "10s", "50s", "1m", "59m", "1h", "1d"]
    assert times.age_of("nonsense") == "?"


def test_a_displayed_age_changes_when_predicted() -> None:
    for seconds in (-90, -0.5, 0, 0.4, 9.99, 10, 19.5, 59, 60, 61, 3599.5, 3600, 86399, 86400, 90000, 172799.9):
        lasts = times.seconds_until_age_changes(seconds)
        assert lasts > 0, seconds
        assert times.age(seconds + lasts * 0.999) == times.age(seconds) != times.age(seconds + lasts), seconds
