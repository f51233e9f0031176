"""`imi diff` and `imi log`, as text and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git.git_kit import start_conflict
from tests.helpers import Repo, git, imi, tree_hash

HOSTILE = "\x1b]52;c;aGk=\x07 [/b] ev\u202eil \x9b31m"


@pytest.fixture
def feat(repo: Repo) -> Repo:
    imi("claims", cwd=repo.path)
    made = repo.worktree("feat-x")
    made.write("own.txt", "own\n")
    made.commit("own work")
    made.write("README.md", "hello\nmore\n")
    made.write("new.txt", "new\tnew\n")
    return made


def test_diff_shows_uncommitted_changes(feat: Repo, repo: Repo) -> None:
    done = imi("diff", "x", cwd=repo.path)
    assert done.code == 0 and done.err == ""
    assert done.out.splitlines() == [
        "── README.md  +1 −0",
        "@@ −1 +1 @@",
        "     1  hello",
        "     2 +more",
        "── new.txt  untracked, +1 −0",
        "     1 +new     new",
    ]
    assert imi("diff", cwd=feat.path).out == done.out, "without a name: the one you stand in"


def test_diff_options_select_kind_file_and_stat(feat: Repo, repo: Repo) -> None:
    feat.git("add", "new.txt")
    stat = imi("diff", "feat-x", "--trunk", "--stat", cwd=repo.path).out.splitlines()
    assert [line.split()[-1] for line in stat[:-1]] == ["README.md", "new.txt", "own.txt"]
    assert stat[-1] == "3 files, +3 −0"
    assert [file["path"] for file in imi("diff", "x", "--staged", "--json", cwd=repo.path).data["files"]] == ["new.txt"]
    assert "README.md" in imi("diff", "x", "--unstaged", cwd=repo.path).out
    assert imi("diff", "x", "--file", "own.txt", cwd=repo.path).out == "own.txt is unchanged\n"
    assert "own work" not in imi("diff", "x", "--trunk", "--file", "own.txt", cwd=repo.path).out
    both = imi("diff", "x", "--staged", "--trunk", cwd=repo.path)
    assert (both.code, both.err) == (2, "imi: --staged and --trunk exclude each other: give one\n")


def test_diff_json_has_lines_and_line_numbers(feat: Repo, repo: Repo) -> None:
    data = imi("diff", "x", "--json", cwd=repo.path).data
    assert (data["worktree_name"], data["kind"], data["added"], data["removed"]) == ("feat-x", "all", 2, 0)
    lines = data["files"][0]["hunks"][0]["lines"]
    assert lines[1] == {"sign": "+", "text": "more", "old": None, "new": 2, "cut": False}
    assert "hunks" not in imi("diff", "x", "--stat", "--json", cwd=repo.path).data["files"][0]


def test_diff_shortens_a_long_file_and_prints_the_command_for_all_of_it(feat: Repo, repo: Repo) -> None:
    feat.write("a b.txt", "line\n" * 5000)
    cut = imi("diff", "x", cwd=repo.path).out
    assert "… 2,000 more lines: imi diff feat-x --file 'a b.txt'" in cut
    assert len(imi("diff", "feat-x", "--file", "a b.txt", cwd=repo.path).out.splitlines()) == 5001


def test_diff_makes_hostile_text_safe(feat: Repo, repo: Repo) -> None:  # T2
    feat.write(f"{HOSTILE.replace('/', '_')}\n.txt", f"{HOSTILE}\n{'x' * 10_000}\n👩‍👩‍👧 日本\r\n")
    (feat.path / "latin").write_bytes(b"caf\xe9\n")
    feat.git("add", "-A")
    feat.git("commit", "-q", "-m", HOSTILE, "--author", f"{HOSTILE} <e@x>")
    for words in (
        ("diff", "x", "--trunk"),
        ("diff", "x", "--trunk", "--stat"),
        ("log", "x"),
        ("diff", "x", "--trunk", "--json"),
    ):
        done = imi(*words, cwd=repo.path)
        assert done.code == 0
        assert not set(done.out) & set("\x1b\x07\u202e\x9b\r"), words
    shown = imi("diff", "x", "--trunk", cwd=repo.path).out
    assert "[/b]" in shown and "\\x1b" in shown and "caf\\xe9" in shown and "日本␍" in shown


def test_diff_handles_conflicts_no_commits_and_missing_folders(repo: Repo, tmp_path: Path) -> None:
    start_conflict(repo)
    assert "conflict" in imi("diff", cwd=repo.path).out + imi("diff", "--unstaged", cwd=repo.path).out
    made = repo.worktree("feat-gone")
    made.path.rename(tmp_path / "elsewhere")
    for verb in ("diff", "log"):
        done = imi(verb, "feat-gone", cwd=repo.path)
        assert done.code == 1 and "feat-gone's folder is missing" in done.err


def test_diff_and_log_change_nothing(feat: Repo, repo: Repo) -> None:
    before = tree_hash(repo.path), tree_hash(feat.path)
    imi("diff", "x", cwd=repo.path)
    imi("diff", "x", "--trunk", cwd=repo.path)
    imi("log", "x", cwd=repo.path)
    assert (tree_hash(repo.path), tree_hash(feat.path)) == before


def test_log_shows_the_owner_of_the_claim(feat: Repo, repo: Repo) -> None:
    feat.git("stash", "-q", "-u")
    git("commit", "-q", "--amend", "--no-edit", cwd=feat.path, env={"GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"})
    imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
    feat.git("commit", "-q", "--allow-empty", "-m", "by the agent")
    lines = imi("log", "x", cwd=repo.path).out.splitlines()
    assert [line.split()[0] for line in lines] == ["Graph", "●", "●", "──", "●", "●"]
    assert "by the agent" in lines[1] and "claude-1" in lines[1]
    data = imi("log", "x", "-n", "3", "--json", cwd=repo.path).data
    assert (data["own"], data["more"], data["trunk"]) == (2, True, "main")
    assert [commit["by"] for commit in data["commits"]] == ["claude-1", None, None]
    assert imi("log", "x", "-n", "3", cwd=repo.path).out.splitlines()[-1] == "… more: -n 6"


def test_log_before_the_first_commit(tmp_path: Path) -> None:
    made = Repo(tmp_path / "r")
    made.path.mkdir()
    made.git("init", "-q")
    assert imi("log", cwd=made.path).out == "no commits yet\n"
    assert imi("diff", cwd=made.path).out == "nothing changed\n"
