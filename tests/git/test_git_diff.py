"""Diffs of real repositories in every state."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.git import git_diff
from imi_monitor.git.runner import Git
from imi_monitor.model.diff import COUNTS_ONLY, Diff, DiffLimits, FileDiff
from imi_monitor.model.errors import GitError, Refused, UsageError
from tests.git.git_kit import commit_id, make_branch, open_git, start_conflict
from tests.helpers import Repo, git, tree_hash


def one(found: Diff, path: str) -> FileDiff:
    return next(file for file in found.files if file.path == path)


def signs(file: FileDiff) -> list[tuple[str, str]]:
    return [(line.sign, line.text) for hunk in file.hunks for line in hunk.lines]


def test_diffs_of_staged_unstaged_all_and_new_files(repo: Repo) -> None:
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    repo.write("README.md", "staged\nand more\n")
    repo.write("new/file.txt", "new\n")
    here = open_git(repo)
    assert signs(one(git_diff.read_diff(here, "staged"), "README.md")) == [("-", "hello"), ("+", "staged")]
    unstaged = git_diff.read_diff(here, "unstaged")
    assert signs(one(unstaged, "README.md")) == [(" ", "staged"), ("+", "and more")]
    assert (one(unstaged, "new/file.txt").state, signs(one(unstaged, "new/file.txt"))) == ("?", [("+", "new")])
    both = git_diff.read_diff(here, "all")
    assert signs(one(both, "README.md")) == [("-", "hello"), ("+", "staged"), ("+", "and more")]
    assert [file.path for file in git_diff.read_diff(here, "staged").files] == ["README.md"]
    assert [file.path for file in git_diff.read_diff(here, "all", paths=["new/file.txt"]).files] == ["new/file.txt"]
    assert [file.path for file in git_diff.read_diff(here, "all", new_files=False).files] == ["README.md"]


def test_a_diff_against_the_trunk_starts_at_the_merge_base(repo: Repo) -> None:
    other = repo.worktree("feat-x")
    other.write("own.txt", "own\n")
    other.commit("own")
    other.write("own.txt", "own\nnot committed\n")
    repo.write("theirs.txt", "theirs\n")
    repo.commit("trunk goes on")
    found = git_diff.read_diff(open_git(other), "trunk", trunk="refs/heads/main")
    assert [file.path for file in found.files] == ["own.txt"], "what only the trunk has is not ours"
    assert signs(found.files[0]) == [("+", "own"), ("+", "not committed")]
    assert found.base == "main"


def test_a_diff_without_trunk_or_common_history_is_refused(repo: Repo) -> None:
    with pytest.raises(Refused, match="no trunk"):
        git_diff.read_diff(open_git(repo), "trunk")
    repo.git("checkout", "-q", "--orphan", "alone")
    repo.git("commit", "-q", "-m", "alone")
    with pytest.raises(Refused, match="no commit in common"):
        git_diff.read_diff(open_git(repo), "trunk", trunk="refs/heads/main")


def test_a_diff_before_the_first_commit(tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "r"), cwd=tmp_path)
    unborn = Repo(tmp_path / "r")
    unborn.write("a.txt", "a\n")
    unborn.write("b.txt", "b\n")
    unborn.git("add", "a.txt")
    found = git_diff.read_diff(open_git(unborn), "all")
    assert [(file.path, file.state) for file in found.files] == [("a.txt", "A"), ("b.txt", "?")]
    assert [file.path for file in git_diff.read_diff(open_git(unborn), "staged").files] == ["a.txt"]
    with pytest.raises(Refused, match="nothing is committed"):
        git_diff.read_diff(open_git(unborn), "trunk", trunk="refs/heads/main")


def test_rename_mode_binary_link_and_empty(repo: Repo) -> None:
    repo.git("mv", "src/api.py", "src/moved.py")
    (repo.path / "src/db.py").chmod(0o755)
    (repo.path / "README.md").write_bytes(b"\0binary")
    (repo.path / "link").symlink_to("/etc/passwd")
    (repo.path / "empty").touch()
    (repo.path / "new.bin").write_bytes(b"x\0y" * 1000)
    found = git_diff.read_diff(open_git(repo), "all")
    assert (one(found, "src/moved.py").state, one(found, "src/moved.py").origin) == ("R", "src/api.py")
    assert (one(found, "src/db.py").old_mode, one(found, "src/db.py").new_mode) == ("100644", "100755")
    assert one(found, "README.md").binary and one(found, "new.bin").note == "3.0 kB"
    assert signs(one(found, "link")) == [("+", "/etc/passwd")], "the link itself, not what it leads to"
    assert (one(found, "empty").added, one(found, "empty").hunks) == (0, ())


def test_a_diff_of_a_conflict(repo: Repo) -> None:
    start_conflict(repo)
    found = one(git_diff.read_diff(open_git(repo), "unstaged"), "README.md")
    assert found.state == "U" and ("+", "<<<<<<< HEAD") in signs(found)
    assert {line.marks for hunk in found.hunks for line in hunk.lines} >= {"++", "+ ", " +"}
    assert one(git_diff.read_diff(open_git(repo), "staged"), "README.md").state == "U"


def test_a_diff_of_a_submodule(repo: Repo, tmp_path: Path) -> None:
    inner = Repo.create(tmp_path / "inner")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "sub")
    repo.commit("a submodule")
    Repo(repo.path / "sub").git("commit", "-q", "--allow-empty", "-m", "goes on")
    found = one(git_diff.read_diff(open_git(repo), "all"), "sub")
    assert found.submodule and (found.added, found.removed) == (1, 1)
    assert signs(found)[0][1].startswith("Subproject commit")


def test_a_file_with_only_a_new_time_stamp_is_no_change(repo: Repo) -> None:
    os.utime(repo.path / "README.md", (1, 1))
    before = tree_hash(repo.path)
    assert git_diff.read_diff(open_git(repo), "all").files == ()
    assert tree_hash(repo.path) == before, "looking writes nothing, not even the index"


def test_diffs_of_a_commit_a_merge_and_the_first_commit(repo: Repo) -> None:
    here = open_git(repo)
    assert [file.path for file in git_diff.read_commit_diff(here, commit_id(repo)).files] == ["src/db.py"]
    first = git_diff.read_commit_diff(here, commit_id(repo, "HEAD~1"))
    assert {file.path for file in first.files} == {"README.md", "src/api.py", ".gitignore"} and first.base is None
    make_branch(repo, "side", ("side.txt", "side\n"))
    repo.write("main.txt", "main\n")
    repo.commit("main goes on")
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    assert [file.path for file in git_diff.read_commit_diff(here, commit_id(repo)).files] == ["side.txt"], (
        "what the merge brought"
    )
    with pytest.raises(UsageError):
        git_diff.read_commit_diff(here, "HEAD")
    with pytest.raises(GitError):
        git_diff.read_commit_diff(here, "1" * 40)


ODD = [
    "na\nme",
    "ta\tb",
    'quo"te',
    "back\\slash",
    "ümläut",
    "日本",
    "sp ace",
    " lead",
    "-dash",
    "a => b",
    "ev\u202eil",
    "\x1b[31m",
    "[/b]",
    ":(top)x",
    "*.py",
    "b/x",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_tracked_renamed_and_new(repo: Repo, name: str) -> None:
    repo.write(name, "one\n")
    assert [file.path for file in git_diff.read_diff(open_git(repo), "all").files] == [name]
    repo.git("add", "-A")
    assert [(file.path, file.state) for file in git_diff.read_diff(open_git(repo), "staged").files] == [(name, "A")]
    repo.commit("odd")
    repo.write(name, "two\n")
    repo.write("README.md", "other\n")
    assert [file.path for file in git_diff.read_diff(open_git(repo), "all", paths=[name]).files] == [name]
    repo.git("checkout", "-q", "--", ".")
    (repo.path / name).rename(repo.path / "plain")
    repo.git("add", "-A")
    moved = git_diff.read_diff(open_git(repo), "staged").files
    assert [(file.path, file.origin, file.state) for file in moved] == [("plain", name, "R")]


def test_names_and_lines_that_are_not_utf8(repo: Repo) -> None:
    name = b"caf\xe9"
    with open(os.fsencode(repo.path) + b"/" + name, "wb") as file:
        file.write(b"caf\xe9 \x80\n")
    repo.git("add", "-A")
    found = git_diff.read_diff(open_git(repo), "staged").files[0]
    assert os.fsencode(found.path) == name
    assert os.fsencode(found.hunks[0].lines[0].text) == b"caf\xe9 \x80"


def test_user_settings_do_not_change_a_diff(repo: Repo) -> None:
    repo.write("README.md", "changed\n")
    plain = git_diff.read_diff(open_git(repo), "all")
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "0",
        "color.ui": "always",
        "diff.external": "false",
        "diff.wordRegex": ".",
        "core.quotePath": "true",
        "diff.renames": "copies",
        "diff.orderFile": "/nowhere",
        "diff.suppressBlankEmpty": "true",
        "diff.submodule": "log",
        "diff.relative": "true",
        "diff.interHunkContext": "9",
    }.items():
        git("config", "--global", key, value, cwd=repo.path)
    assert git_diff.read_diff(open_git(repo), "all") == plain


def test_a_diff_runs_no_program_of_the_repository(repo: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    repo.write(".gitattributes", "*.md diff=evil filter=evil\n")
    repo.commit("attributes")
    repo.write("README.md", "changed\n")
    for key in ("diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "diff.external", "core.fsmonitor"):
        repo.git("config", key, f"touch {canary}; cat")
    canary.unlink(missing_ok=True)  # plain git has run one of them by now
    found = git_diff.read_diff(open_git(repo), "all")
    git_diff.read_commit_diff(open_git(repo), commit_id(repo))
    assert not canary.exists()
    assert signs(one(found, "README.md")) == [("-", "hello"), ("+", "changed")]
    repo.git("config", "--unset", "filter.evil.clean")
    trusted = git_diff.read_diff(open_git(repo, trusted=True), "all")
    assert signs(one(trusted, "README.md")) == [("-", "hello"), ("+", "changed")], "a patch all the same"


def test_a_huge_diff_is_streamed_and_counted(repo: Repo) -> None:  # T5
    repo.write("big.txt", "".join(f"line {number}\n" for number in range(200_000)))
    repo.write("small.txt", "small\n")
    repo.git("add", "-A")
    found = git_diff.read_diff(open_git(repo), "staged")
    big = one(found, "big.txt")
    assert (big.added, big.kept, big.cut) == (200_000, 3000, 197_000)
    assert signs(one(found, "small.txt")) == [("+", "small")]
    parts: list[Diff] = []
    git_diff.read_diff(open_git(repo), "staged", on_part=parts.append)
    assert all(len(part.files) <= 2 for part in parts)


def test_a_diff_beyond_the_cap_and_one_that_takes_too_long_say_why_they_end(
    repo: Repo, shim: Callable[[str], Path]
) -> None:
    repo.write("big.txt", "line\n" * 100_000)
    repo.git("add", "-A")
    found = git_diff.read_diff(open_git(repo), "staged", limits=DiffLimits(patch_bytes=100_000))
    assert found.unfinished is not None and "larger than 100.0 kB" in found.unfinished
    assert one(found, "big.txt").kept == 3000
    shim('case " $* " in *" diff "*) exec sleep 5;; esac; exec "$real_git" "$@"')
    found = git_diff.read_diff(open_git(repo), "staged", limits=DiffLimits(seconds=0.2))
    assert found.unfinished is not None and "took longer" in found.unfinished and found.files == ()


def test_a_diff_can_be_cancelled(repo: Repo) -> None:
    here = open_git(repo)
    here.cancelled = lambda: True
    with pytest.raises(GitError) as caught:
        git_diff.read_diff(here, "all")
    assert caught.value.code == "cancelled"


def test_unusual_untracked_files_have_a_note(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    Repo.create(repo.path / "nested")
    os.mkfifo(repo.path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(repo.path)
        listening.bind("socket")
    repo.write("closed", "x")
    (repo.path / "closed").chmod(0)
    repo.write("no-end", "a\nb")
    repo.write("build/ignored", "x")
    found = {file.path: file for file in git_diff.read_diff(open_git(repo), "all").files}
    assert found["nested/"].note == "another repository"
    assert "build/ignored" not in found and "pipe" not in found
    assert signs(found["no-end"]) == [("+", "a"), ("+", "b"), ("\\", "No newline at end of file")]
    if os.geteuid():
        assert "cannot be read" in (found["closed"].note or "")


def test_a_link_that_replaced_an_untracked_file_is_not_followed(repo: Repo) -> None:
    (repo.path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="link"):
        git_diff.read_beginning(str(repo.path / "link"), 10)


def test_untracked_files_are_bounded(repo: Repo) -> None:
    for number in range(20):
        repo.write(f"new/{number:02}", "line\n" * 100)
    found = git_diff.read_untracked(open_git(repo), (), DiffLimits(lines_of_file=10, lines=25, files=15))
    assert (len(found.files), found.omitted) == (15, 5)
    assert [file.kept for file in found.files[:4]] == [10, 10, 5, 0]
    assert all(file.kept + file.cut == 100 for file in found.files)
    notes = [file.note for file in git_diff.read_untracked(open_git(repo), (), DiffLimits(untracked_bytes=700)).files]
    assert notes[0] is None and "not read" in (notes[1] or "") and "too many" in (notes[5] or "")
    assert git_diff.read_untracked(open_git(repo), (), DiffLimits(name_bytes=20)).unfinished


def test_a_bare_repository_has_no_diff(tmp_path: Path) -> None:
    git("init", "-q", "--bare", "bare.git", cwd=tmp_path)
    with pytest.raises(GitError, match="bare"):
        git_diff.read_diff(Git(str(tmp_path / "bare.git")), "all")


TEXT = st.binary(max_size=60).map(lambda text: text.replace(b"\0", b"\n"))


@settings(max_examples=25)
@given(
    st.dictionaries(st.sampled_from(["README.md", "src/api.py", "new", "sp ace/x"]), st.tuples(TEXT, TEXT), min_size=1)
)
def test_line_counts_equal_those_of_git(repo: Repo, texts: dict[str, tuple[bytes, bytes]]) -> None:
    """Old and new content of any bytes: our counts, kept or not, are those of git --numstat."""
    for side in (0, 1):
        for name, pair in texts.items():
            (repo.path / name).parent.mkdir(exist_ok=True)
            (repo.path / name).write_bytes(pair[side])
        if side == 0:
            repo.git("add", "-A")
            repo.git("commit", "-q", "--allow-empty", "-m", "before")
    told = subprocess.run(
        ["git", "diff", "--numstat", "-z", "HEAD"], cwd=repo.path, capture_output=True, check=True
    ).stdout.split(b"\0")
    wanted = {tuple(line.split(b"\t", 2)) for line in told if line}
    for limits in (DiffLimits(), DiffLimits(lines_of_file=1), COUNTS_ONLY):
        files = git_diff.read_diff(open_git(repo), "all", limits=limits).files
        assert {
            (str(file.added).encode(), str(file.removed).encode(), os.fsencode(file.path)) for file in files
        } == wanted
    whole = git_diff.read_diff(open_git(repo), "all").files
    for file in whole:
        new = [os.fsencode(line.text) for hunk in file.hunks for line in hunk.lines if line.sign == "+"]
        content = (repo.path / file.path).read_bytes().split(b"\n")
        assert all(line in content for line in new)
