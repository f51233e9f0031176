"""G3: no name from outside becomes an option, a program, a file or another name, in any function that takes one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from imi_monitor.git import fast_forward, git_merge, git_status, merge_proof, refs, remotes, update_ref, worktree_list
from imi_monitor.git.gitpython_commits import recent_commits
from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_add import add_worktree
from imi_monitor.model.errors import UsageError
from imi_monitor.model.names import branch_problem
from tests.git.git_kit import commit_id, make_branch, open_git
from tests.helpers import Repo, tree_hash

Act = Callable[[Git, str], object]

HOSTILE = [
    "",
    "-",
    "--",
    "-f",
    "-B",
    "--force",
    "--lock",
    "--orphan",
    "--output=canary",
    "--upload-pack=touch canary",
    "-oProxyCommand=touch canary",
    "--exec=touch canary",
    "@",
    "@{-1}",
    "a@{1}",
    "HEAD",
    "a..b",
    "a b",
    "a~1",
    "a^",
    "a^{}",
    "a:b",
    "a?",
    "a*",
    "a[b]",
    "a\\b",
    "/a",
    "a/",
    "a//b",
    ".a",
    "a/.b",
    "a.",
    "a.lock",
    "a.lock/b",
    "a\nb",
    "a\0b",
    "a\tb",
    "a\x1b[31m",
    "a\x7f",
    "a\x9b31m",
    "a\u202eb",
    "a\u200bb",
    "a\u2028b",
    "a\udcffb",
    "\ud800",
    "x" * 201,
    "é" * 101,
    "refs/heads/main",
    "1" * 40,
    "ext::sh -c touch% canary",
    "../../canary",
]
SHA = "1" * 40

ACTS: dict[str, Act] = {
    "resolve": lambda git, name: refs.resolve(git, f"refs/heads/{name}"),
    "branch_sha": refs.branch_sha,
    "remote_branches": refs.remote_branches,
    "default_branch": refs.default_branch,
    "commits_only_on tip": lambda git, name: refs.commits_only_on(git, f"refs/heads/{name}"),
    "commits_only_on excluded": lambda git, name: refs.commits_only_on(git, "HEAD", f"refs/remotes/{name}"),
    "create_branch": lambda git, name: update_ref.create_branch(git, name, SHA),
    "move_branch": lambda git, name: update_ref.move_branch(git, name, SHA, SHA),
    "delete_branch": lambda git, name: update_ref.delete_branch(git, name, SHA),
    "delete_remote_branch": lambda git, name: update_ref.delete_remote_branch(git, "origin", name, SHA),
    "delete_remote_branch remote": lambda git, name: update_ref.delete_remote_branch(git, name, "main", SHA),
    "merge_proof": lambda git, name: merge_proof.merge_proof(git, SHA, f"refs/heads/{name}"),
    "check_remote": remotes.check_remote,
    "fetch": remotes.fetch,
    "fetch refspec": lambda git, name: remotes.fetch(git, "origin", [f"refs/heads/{name}:refs/remotes/origin/x"]),
    "fetch target": lambda git, name: remotes.fetch(git, "origin", [f"refs/heads/main:refs/remotes/{name}"]),
    "preview": lambda git, name: git_merge.preview_merge(git, f"refs/heads/{name}", "HEAD"),
    "add new": lambda git, name: add_worktree(git, "/nowhere/x", new_branch=name),
    "add existing": lambda git, name: add_worktree(git, "/nowhere/x", branch=name),
    "add known": lambda git, name: add_worktree(git, "/nowhere/x", branch=name, at=SHA),
    "add start": lambda git, name: add_worktree(git, "/nowhere/x", detach=True, start=f"refs/heads/{name}"),
    "recent_commits": lambda git, name: recent_commits(git.common_dir, f"refs/heads/{name}"),
}
AS_IT_IS: dict[str, Act] = {
    "resolve": refs.resolve,
    "move_branch sha": lambda git, name: update_ref.move_branch(git, "feat", name, SHA),
    "delete_branch sha": lambda git, name: update_ref.delete_branch(git, "feat", name),
    "merge_proof": lambda git, name: merge_proof.merge_proof(git, name, "refs/heads/main"),
    "merge_commit tree": lambda git, name: git_merge.merge_commit(git, name, [SHA], "m"),
    "merge_commit parent": lambda git, name: git_merge.merge_commit(git, SHA, [name], "m"),
    "fast_forward": fast_forward.fast_forward,
    "fetch refspec": lambda git, name: remotes.fetch(git, "origin", [name]),
    "recent_commits": lambda git, name: recent_commits(git.common_dir, name),
}


def recorded_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The list to which the arguments of each run of git are added."""
    seen: list[tuple[str, ...]] = []
    real = Git.run

    def run(self: Git, *args: str, **options: object) -> object:
        seen.append(args)
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", run)
    return seen


@pytest.mark.parametrize("act", [*ACTS, *(f"{name} as it is" for name in AS_IT_IS)])
def test_hostile_names_are_refused_and_never_reach_git(repo: Repo, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    git = open_git(repo)
    before = tree_hash(repo.path.parent)
    bare = act.removesuffix(" as it is")
    function = ACTS[act] if bare == act else AS_IT_IS[bare]
    lawful = set() if bare == act else {"HEAD", SHA, "refs/heads/main"}  # a revision may be one of these
    runs = recorded_runs(monkeypatch)
    for name in HOSTILE:
        if name in lawful:
            continue
        with pytest.raises(UsageError) as refused:
            function(git, name)
        assert refused.value.sentence.isprintable()
        spellings = {name, f"refs/heads/{name}", f"refs/remotes/{name}", f"^{name}", name + "^{commit}"}
        given = {word for run in runs for word in run}
        assert not spellings & given - {"", "--", "HEAD^{commit}", SHA, SHA + "^{commit}", "refs/heads/main"}
    assert tree_hash(repo.path.parent) == before


def test_valid_but_unusual_names_are_only_names(repo: Repo, tmp_path: Path) -> None:
    odd = ["`id`", "a;b", "$(id)", "a&b", "a|b", "a'b", 'a"b', "%s", "é", "漢字", "#1", "!x", "{a,b}"]
    for number, name in enumerate(odd):
        assert branch_problem(name) is None
        path = str(tmp_path / "trees" / f"--force {number} {name}")
        add_worktree(open_git(repo), path, new_branch=name, start="refs/heads/main")
        assert refs.branch_sha(open_git(repo), name) == commit_id(repo)
        assert (path, name) in {(one.path, one.branch) for one in worktree_list.list_worktrees(open_git(repo))}


def test_names_from_outside_follow_the_end_of_options(cloned: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit: a tour through every function that takes a name, looking at what git is really given."""
    tip = make_branch(cloned, "feat/x", ("outside.txt", "1\n"), ("outside.txt", "2\n"))
    cloned.git("push", "-q", "origin", "feat/x")
    make_branch(cloned, "landed", ("outside.txt", "1\n"))
    seen = recorded_runs(monkeypatch)
    git, tree = open_git(cloned), str(cloned.path.parent / "outside-tree")
    git_status.read_status(git, paths=["outside.txt"])
    git_status.hidden_edits(git)
    refs.branch_sha(git, "feat/x")
    refs.commits_only_on(git, "refs/heads/feat/x", "refs/heads/main")
    refs.remote_branches(git, "origin")
    refs.default_branch(git, "origin", "feat/x")
    cloned.git("merge", "-q", "--squash", "feat/x")
    cloned.git("commit", "-qm", "squashed")
    cloned.write("outside.txt", "3\n")
    cloned.commit("later")
    assert merge_proof.merge_proof(git, tip, "refs/heads/main") == "squash"
    shown = git_merge.preview_merge(git, "refs/heads/main", "refs/heads/landed")
    assert shown.conflicts == ("outside.txt",)
    git_merge.merge_commit(git, cloned.git("rev-parse", "main^{tree}"), [tip], "outside")
    add_worktree(git, tree, new_branch="outside", start="refs/remotes/origin/feat/x")
    fast_forward.fast_forward(open_git(Path(tree)), tip)
    update_ref.create_branch(git, "outside-2", tip)
    update_ref.move_branch(git, "outside-2", commit_id(cloned), tip)
    update_ref.delete_branch(git, "outside-2", commit_id(cloned))
    remotes.fetch(git, "origin", ["refs/heads/feat/x:refs/remotes/origin/feat/x"])
    update_ref.delete_remote_branch(git, "origin", "feat/x", tip)
    assert {args[0] for args in seen} >= {
        "status",
        "rev-list",
        "diff-tree",
        "merge-tree",
        "worktree",
        "update-ref",
        "push",
    }
    words = ("outside", "feat/x", "origin", tip, "refs/")
    for args in seen:
        ends = [args.index(mark) for mark in ("--", "--end-of-options") if mark in args]
        options = args[1 : min(ends, default=len(args))]
        for before, option in pairwise(("", *options)):
            # `-b NAME` and `-p ID` take the next word whatever it looks like; `--reason=…` and the like hold theirs
            own = option.startswith("--") or before in ("-b", "-p")
            assert own or not any(word in option for word in words), args
