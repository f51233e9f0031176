"""Computes a rebase in the object store: the commits of a branch, made again one by one on another commit.

No work tree, index or ref changes. Any git from 2.38 on can do it: the merge of each commit is one of three commits without any
history but that, so that git finds the wanted base.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.git_merge import TRIAL_AUTHOR, merge_commit, preview_merge
from imi_monitor.git.refs import check_commit_id
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_MOST_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Replay:
    """The commit at the end, how many commits were made, and how many were left out because the new base has their changes."""

    tip: str
    made: int
    left_out: int


@dataclass(frozen=True, slots=True)
class _Commit:
    sha: str
    parent: str
    tree: str
    parent_tree: str
    author: dict[str, str]
    message: str


def replay(git: Git, branch: str, onto: str, *, trial: bool = False) -> Replay:
    """Make the commits of `branch` that `onto` lacks again on `onto` (both ids); Refused with the files of a conflict.

    A `trial` makes them without author, message and signature.
    """
    tip, made, left_out = onto, 0, 0
    tip_tree = _tree(git, onto)
    commits = _commits(git, branch, onto)
    for number, one in enumerate(commits, 1):
        tree = _merged(git, one, tip_tree, f"commit {number} of {len(commits)}")
        if tree == tip_tree and one.tree != one.parent_tree:
            left_out += 1
            continue
        if trial:
            tip = _bare_commit(git, tree, tip)
        else:
            tip = merge_commit(git, tree, [tip], one.message, author=one.author)
        tip_tree, made = tree, made + 1
    return Replay(tip, made, left_out)


def _commits(git: Git, branch: str, onto: str) -> list[_Commit]:
    """Return the commits, oldest first."""
    listed = git.text(
        "rev-list",
        "--reverse",
        "--topo-order",
        "--parents",
        "--end-of-options",
        check_commit_id(branch),
        f"^{onto}",
        "--",
    )
    lines = [line.split() for line in listed.splitlines()]
    if any(len(line) != 2 for line in lines):
        raise Refused(
            "the branch has merges of its own, which a rebase would lose: update it by a merge", code="merges"
        )
    if len(lines) > _MOST_COMMITS:
        raise Refused(
            f"{count(len(lines), 'commit')} are too many to rebase here: update by a merge, or run `git rebase` yourself",
            code="too-many",
        )
    return [_commit(git, sha, parent) for sha, parent in lines]


def _commit(git: Git, sha: str, parent: str) -> _Commit:
    words = ("log", "-1", "--no-show-signature", "--encoding=UTF-8", "--date=raw")
    fields = git.text(*words, "--format=%T%x00%an%x00%ae%x00%ad%x00%B", check_commit_id(sha), "--")
    tree, name, mail, date, message = fields.split("\0", 4)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": f"@{date}"}
    return _Commit(sha, parent, check_commit_id(tree), _tree(git, parent), author, message)


def _tree(git: Git, commit: str) -> str:
    return check_commit_id(git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}"))


def _merged(git: Git, one: _Commit, onto_tree: str, which: str) -> str:
    """Return the tree of `onto_tree` with the changes of a commit."""
    if one.parent_tree == onto_tree:
        return one.tree
    base = _bare_commit(git, one.parent_tree)
    result = preview_merge(git, _bare_commit(git, onto_tree, base), _bare_commit(git, one.tree, base))
    if result.tree is None or result.conflicts:
        subject = one.message.partition("\n")[0]
        raise Refused(
            f"{which} ({one.sha[:8]} {safe(subject, 60)}) conflicts with the trunk in "
            f"{count(len(result.conflicts), 'file')}: nothing was changed",
            code="conflicts",
            details=[safe(name) for name in result.conflicts[:20]],
            data={"conflicts": list(result.conflicts), "commit": one.sha},
        )
    return result.tree


def _bare_commit(git: Git, tree: str, *parents: str) -> str:
    words = [word for parent in parents for word in ("-p", parent)]
    return git.text("commit-tree", "--no-gpg-sign", *words, "-m", "imi", tree, env=TRIAL_AUTHOR)
