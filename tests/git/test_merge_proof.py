"""Proofs of a merge: what counts as merged, and above all what does not. R5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor.git.merge_proof import merge_proof
from tests.git.git_kit import commit_id, commit_on_main, make_branch, open_git
from tests.helpers import Repo, git

TRUNK = "refs/heads/main"
LINES = [f"line {number}\n" for number in range(40)]


def with_line(number: int, text: str, lines: list[str] = LINES) -> list[str]:
    return [*lines[:number], text, *lines[number + 1 :]]


@pytest.fixture
def base(repo: Repo) -> Repo:
    """A trunk with a 40-line file, so that edits to different parts of it do not touch."""
    commit_on_main(repo, "long.txt", "".join(LINES), "long")
    return repo


def prove(repo: Repo, tip: str, trunk: str = TRUNK) -> str | None:
    return merge_proof(open_git(repo), tip, trunk)


def squash(repo: Repo, branch: str, message: str = "squashed (#7)") -> str:
    repo.git("merge", "-q", "--squash", branch)
    repo.git("commit", "-q", "-m", message)
    return commit_id(repo)


def feature(repo: Repo) -> str:
    """Three commits: an edit, a new file, another edit of the same file."""
    once = with_line(10, "mine 1\n")
    twice = with_line(12, "mine 2\n", once)
    return make_branch(repo, "feat", ("long.txt", "".join(once)), ("new.py", "x = 1\n"), ("long.txt", "".join(twice)))


# --- proven -----------------------------------------------------------------------------------------------------------


def test_a_branch_without_commits_is_merged(base: Repo) -> None:
    tip = make_branch(base, "feat")
    assert prove(base, tip) == "ancestor"
    commit_on_main(base, "a", "a")
    assert prove(base, tip) == "ancestor"


def test_merged_with_a_merge_commit(base: Repo) -> None:
    tip = feature(base)
    commit_on_main(base, "other", "x")
    base.git("merge", "-q", "--no-ff", "-m", "merge", "feat")
    assert prove(base, tip) == "ancestor"


def test_a_reverted_merge_keeps_the_commits_so_it_is_merged(base: Repo) -> None:
    tip = feature(base)
    base.git("merge", "-q", "--no-ff", "-m", "merge", "feat")
    base.git("revert", "--no-edit", "-m", "1", "HEAD")
    assert prove(base, tip) == "ancestor"


def test_a_rebase_merge_is_proven_by_patch_ids(base: Repo) -> None:
    tip = feature(base)
    commit_on_main(base, "other", "x")
    base.git("cherry-pick", "main..feat")
    assert prove(base, tip) == "same tree"
    commit_on_main(base, "long.txt", "rewritten\n")  # now only the commits themselves tell
    assert prove(base, tip) == "patch-id"


def test_a_squash_merge_is_proven(base: Repo) -> None:
    tip = feature(base)
    commit_on_main(base, "other", "x")
    squash(base, "feat")
    assert prove(base, tip) == "same tree"


def test_squash_merged_and_the_trunk_moved_on(base: Repo) -> None:
    tip = feature(base)
    squash(base, "feat")
    commit_on_main(base, "other", "x")
    commit_on_main(
        base, "long.txt", "".join(with_line(30, "trunk\n", (base.path / "long.txt").read_text().splitlines(True)))
    )
    assert prove(base, tip) == "same tree"


def test_squash_merged_and_the_same_lines_edited_later(base: Repo) -> None:
    tip = feature(base)
    squash(base, "feat")
    commit_on_main(
        base, "long.txt", "".join(with_line(10, "later\n", (base.path / "long.txt").read_text().splitlines(True)))
    )
    assert prove(base, tip) == "squash"
    base.git("rm", "-q", "new.py")
    base.commit("not needed any more")
    # The trunk now has new.py as if the branch had never been. Nothing is lost by keeping the branch.
    assert prove(base, tip) is None


def test_squash_merged_beside_lines_that_had_moved(base: Repo) -> None:
    tip = make_branch(base, "feat", ("long.txt", "".join(with_line(10, "mine\n"))))
    commit_on_main(base, "long.txt", "".join(with_line(12, "trunk\n")))  # within the patch's context: another patch-id
    squash(base, "feat")
    commit_on_main(base, "long.txt", "rewritten\n")
    assert prove(base, tip) == "squash"


def test_squash_merged_after_taking_in_the_trunk(base: Repo) -> None:
    feature(base)
    commit_on_main(base, "other", "x")
    base.git("checkout", "-q", "feat")
    base.git("merge", "-q", "-m", "update", "main")
    tip = commit_id(base)
    base.git("checkout", "-q", "main")
    squash(base, "feat")
    commit_on_main(base, "long.txt", "rewritten\n")
    assert prove(base, tip) == "squash"


def test_squashed_reverted_and_squashed_again(base: Repo) -> None:
    tip = feature(base)
    squash(base, "feat")
    base.git("revert", "--no-edit", "HEAD")
    base.git("revert", "--no-edit", "HEAD")
    assert prove(base, tip) == "same tree"
    commit_on_main(base, "long.txt", "rewritten\n")
    assert prove(base, tip) == "squash"


def test_empty_commits_count_as_merged(base: Repo) -> None:
    base.git("checkout", "-q", "-b", "feat")
    base.git("commit", "-q", "--allow-empty", "-m", "nothing")
    tip = commit_id(base)
    base.git("checkout", "-q", "main")
    commit_on_main(base, "other", "x")
    assert prove(base, tip) == "same tree"


def test_a_merge_into_a_remote_branch_or_a_commit_id_is_proven(cloned: Repo) -> None:
    tip = make_branch(cloned, "feat", ("f", "f"))
    cloned.git("merge", "-q", "feat")
    assert prove(cloned, tip, "refs/remotes/origin/main") is None
    cloned.git("push", "-q", "origin", "main")
    assert prove(cloned, tip, "refs/remotes/origin/main") == "ancestor"
    assert prove(cloned, tip, commit_id(cloned)) == "ancestor"


def test_a_merge_in_a_bare_repository_is_proven(base: Repo, tmp_path: Path) -> None:
    tip = feature(base)
    squash(base, "feat")
    commit_on_main(base, "long.txt", "rewritten\n")
    git("clone", "-q", "--bare", str(base.path), str(tmp_path / "bare.git"), cwd=tmp_path)
    assert merge_proof(open_git(tmp_path / "bare.git"), tip, TRUNK) == "squash"


def test_squash_merged_and_then_renamed(base: Repo) -> None:
    tip = feature(base)
    squash(base, "feat")
    base.git("mv", "long.txt", "renamed.txt")
    base.commit("other names")
    assert prove(base, tip) == "squash"


# --- not proven -------------------------------------------------------------------------------------------------------


def test_an_unmerged_branch_has_no_proof(base: Repo) -> None:
    assert prove(base, feature(base)) is None


def test_a_partially_merged_branch_has_no_proof(base: Repo) -> None:
    tip = feature(base)
    base.git("cherry-pick", "feat~2")
    base.git("cherry-pick", "feat~1")
    assert prove(base, tip) is None
    commit_on_main(base, "other", "x")
    assert prove(base, tip) is None


def test_squash_merged_and_then_the_branch_went_on(base: Repo) -> None:
    feature(base)
    squash(base, "feat")
    base.git("checkout", "-q", "feat")
    base.write("new.py", "x = 2\n")
    tip = base.commit("one more")
    base.git("checkout", "-q", "main")
    assert prove(base, tip) is None


@pytest.mark.parametrize("message", ["as git says it", "Revert by hand"])
def test_squashed_then_reverted(base: Repo, message: str) -> None:
    tip = feature(base)
    squash(base, "feat")
    base.git("revert", "--no-edit", "HEAD")
    if message != "as git says it":
        base.git("commit", "-q", "--amend", "-m", message)
    assert prove(base, tip) is None
    now = (base.path / "long.txt").read_text().splitlines(True)
    commit_on_main(base, "long.txt", "".join(with_line(35, "trunk\n", now)))  # the file no longer is as it was
    commit_on_main(base, "new.py", "something = 'else'\n")
    assert prove(base, tip) is None


@pytest.mark.parametrize("github", [False, True])
def test_reverted_where_the_surroundings_had_changed(base: Repo, github: bool) -> None:
    """The revert's patch is no mirror image of the squash any more; only its words tell."""
    tip = make_branch(base, "feat", ("long.txt", "".join(with_line(10, "mine\n"))))
    squash(base, "feat", "the feature (#7)")
    now = (base.path / "long.txt").read_text().splitlines(True)
    commit_on_main(base, "long.txt", "".join(with_line(12, "trunk\n", now)))
    base.git("revert", "--no-edit", "HEAD~1")
    if github:
        base.git("commit", "-q", "--amend", "-m", 'Revert "the feature (#7)" (#9)\n\nReverts owner/repo#7')
    assert (base.path / "long.txt").read_text().splitlines(True)[10] == "line 10\n"
    assert prove(base, tip) is None


def test_rebase_merged_then_one_commit_reverted(base: Repo) -> None:
    tip = feature(base)
    commit_on_main(base, "other", "x")
    base.git("cherry-pick", "main..feat")
    base.git("revert", "--no-edit", "HEAD")
    assert prove(base, tip) is None


def test_a_change_of_indentation_is_another_patch(base: Repo) -> None:
    """`git patch-id` and `git cherry` ignore white space, in which Python's meaning lies."""
    commit_on_main(base, "code.py", "if a:\n    pass\nend = 1\n")
    tip = make_branch(base, "feat", ("code.py", "if a:\n    pass\nstop()\nend = 1\n"))
    commit_on_main(base, "code.py", "if a:\n    pass\n    stop()\nend = 1\n")
    assert base.git("cherry", "main", "feat").startswith("- ")  # what git itself would say
    assert prove(base, tip) is None


def test_different_binary_files_are_different_patches(base: Repo) -> None:
    tip = make_branch(base, "feat", ("logo.bin", "a\0b"))
    commit_on_main(base, "logo.bin", "c\0d")
    assert prove(base, tip) is None


def test_changes_that_undo_each_other_are_not_everywhere(base: Repo) -> None:
    tip = make_branch(base, "feat", ("idea.py", "precious\n"), ("long.txt", "".join(with_line(3, "x\n"))))
    base.git("checkout", "-q", "feat")
    base.git("revert", "--no-edit", "HEAD", "HEAD~1")
    tip = commit_id(base)
    base.git("checkout", "-q", "main")
    commit_on_main(base, "other", "x")
    assert prove(base, tip) is None


def test_unrelated_histories_have_no_proof(base: Repo) -> None:
    base.git("checkout", "-q", "--orphan", "island")
    tip = base.commit("the same files, without a past")
    base.git("checkout", "-q", "main")
    assert prove(base, tip) is None


def test_an_evil_merge_is_not_proven_by_the_commits_around_it(base: Repo) -> None:
    """Both sides of the merge are in the trunk as copies; what was written in the merge itself is nowhere."""
    make_branch(base, "side", ("side.py", "s\n"))
    make_branch(base, "feat", ("new.py", "n\n"))
    base.git("checkout", "-q", "feat")
    base.git("merge", "-q", "--no-commit", "--no-ff", "side")
    base.write("long.txt", "".join(with_line(10, "precious\n")))
    tip = base.commit("merge side")
    base.git("checkout", "-q", "main")
    commit_on_main(base, "long.txt", "".join(with_line(10, "trunk\n")))
    base.git("cherry-pick", "feat^1", "side")
    assert prove(base, tip) is None


@pytest.mark.parametrize("attribute", ["merge=keep", "merge=union", "-merge"])
def test_a_merge_driver_that_throws_changes_away_proves_nothing(base: Repo, own_home: Path, attribute: str) -> None:
    git("config", "--global", "merge.keep.driver", "true", cwd=own_home)  # "ours", as many have it for lock files
    commit_on_main(base, ".gitattributes", f"long.txt {attribute}\n")
    tip = make_branch(base, "feat", ("long.txt", "".join(LINES[:10] + LINES[11:])))
    commit_on_main(base, "long.txt", "".join(with_line(10, "trunk\n")))
    assert prove(base, tip) is None
    commit_on_main(base, "long.txt", "".join(with_line(30, "trunk\n")))
    assert prove(base, tip) is None


def test_the_default_merge_driver_proves_nothing_either(base: Repo, own_home: Path) -> None:
    git("config", "--global", "merge.keep.driver", "true", cwd=own_home)
    git("config", "--global", "merge.default", "keep", cwd=own_home)
    tip = make_branch(base, "feat", ("long.txt", "".join(with_line(10, "mine\n"))))
    commit_on_main(base, "long.txt", "".join(with_line(10, "trunk\n")))
    assert prove(base, tip) is None


def test_a_merge_driver_for_a_renamed_file_proves_nothing(base: Repo, own_home: Path) -> None:
    git("config", "--global", "merge.keep.driver", "true", cwd=own_home)
    tip = make_branch(base, "feat", ("long.txt", "".join(with_line(10, "mine\n"))))
    commit_on_main(base, ".gitattributes", "kept.txt merge=keep\n")
    base.git("mv", "long.txt", "kept.txt")
    commit_on_main(base, "kept.txt", "".join(with_line(10, "trunk\n")))
    assert prove(base, tip) is None


@pytest.mark.parametrize("trusted", [False, True])
def test_a_forged_replacement_does_not_count(base: Repo, trusted: bool) -> None:
    """refs/replace is local and any process with access to the repository can write it."""
    tip = feature(base)
    commit_on_main(base, "other", "x")  # else the forgery would make a circle
    forged = base.git("commit-tree", "main^{tree}", "-p", tip, "-m", "forged")
    base.git("replace", commit_id(base, "main"), forged)
    assert base.git("merge-base", tip, commit_id(base)) == tip  # git itself is taken in
    assert merge_proof(open_git(base, trusted=trusted), tip, TRUNK) is None


def test_missing_objects_prove_nothing(base: Repo, tmp_path: Path) -> None:
    feature(base)
    squash(base, "feat")
    commit_on_main(base, "long.txt", "rewritten\n")
    git("clone", "-q", "--depth=1", "--no-single-branch", f"file://{base.path}", "thin", cwd=tmp_path)
    thin = Repo(tmp_path / "thin")
    assert prove(thin, commit_id(thin, "origin/feat")) is None
    assert prove(thin, "1" * 40) is None
    assert prove(thin, commit_id(thin), "refs/heads/nowhere") is None


def test_an_old_git_proves_by_patches_only(base: Repo, shim: Callable[[str], Path]) -> None:
    shim('[ "$1" = version ] && echo git version 2.37.0 || exec "$real_git" "$@"')
    tip = feature(base)
    squash(base, "feat")
    assert prove(base, tip) == "squash"
    base.git("reset", "-q", "--hard", "HEAD~1")
    commit_on_main(base, "long.txt", "".join(["inserted\n", *LINES]))
    squash(base, "feat")
    assert prove(base, tip) == "squash"  # the same change, a line further down
    now = (base.path / "long.txt").read_text().splitlines(True)
    moved = make_branch(base, "other", ("long.txt", "".join(with_line(20, "o\n", now))))
    commit_on_main(base, "long.txt", "".join(with_line(22, "trunk\n", now)))
    squash(base, "other")
    assert prove(base, moved) is None  # 2.38 and newer can tell


def test_attributes_cannot_hide_a_difference(base: Repo) -> None:
    commit_on_main(base, ".gitattributes", "*.txt diff=x\nlong.txt -diff\n")
    tip = make_branch(base, "feat", ("long.txt", "".join(with_line(10, "mine\n"))))
    commit_on_main(base, "long.txt", "".join(with_line(10, "theirs\n")))
    assert prove(base, tip) is None
