"""G1, G2: a repository cannot make imi run a program, neither by its configuration nor by its content (rules 23-28)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from imi_monitor.git import layout, safety
from imi_monitor.git.config_scan import pinned_variables
from imi_monitor.git.dirty import is_dirty
from imi_monitor.git.environment import git_environment
from imi_monitor.git.runner import Git, git_version
from imi_monitor.model.errors import GitError
from tests.git import canary_kit
from tests.git.attack_vectors import NEEDS_GIT, VECTORS
from tests.git.canary_kit import ANY_STATUS, Target, cells, run_plain, run_wrapped
from tests.helpers import git

# How many verbs must fall for the vector under plain git: the matrix proves that its canaries work.
# Together at least 30 (a test of its own adds them up).
SINGS = {
    "core.fsmonitor": 4,
    "filter.ev.clean": 2,
    "include.path": 4,
    "hooks": 3,
    "config.worktree": 4,
    "partial clone": 3,
}


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """Built once per worker, with an environment as clean as the one each test gets."""
    root = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        for who in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{who}_NAME", "Test")
            patch.setenv(f"GIT_{who}_EMAIL", "test@example.invalid")
        return canary_kit.build(root / "t")


@pytest.fixture
def target(template: Target, tmp_path: Path) -> Target:
    return canary_kit.copy(template, tmp_path / "t")


def plant(name: str, target: Target) -> Target:
    if git_version() < (*NEEDS_GIT.get(name, (0, 0)), 0):
        pytest.skip(f"git {NEEDS_GIT[name]} brought it")
    VECTORS[name](target)
    target.quiet()
    return target


@pytest.mark.parametrize("name", VECTORS)
def test_no_configuration_key_runs_a_program(name: str, target: Target) -> None:  # G1
    plant(name, target)
    assert cells(target, run_wrapped) == {}


@pytest.mark.parametrize("name", VECTORS)
def test_every_attack_works_under_plain_git(name: str, target: Target) -> None:  # G1, the oracle
    plant(name, target)
    assert len(cells(target, run_plain)) >= SINGS.get(name, 1)


def test_attacks_and_verbs_are_many_enough() -> None:  # G1: at least 20 vectors, at least 30 cells that fire without us
    assert len(VECTORS) >= 20
    assert sum(SINGS.get(name, 1) for name in VECTORS) >= 30


def test_all_verbs_work_on_a_harmless_repository(target: Target) -> None:  # otherwise "nothing ran" proves nothing
    failed = {}
    for verb, act in canary_kit.VERBS.items():
        target.touch()
        done = target.wrapped().run(*act(target), ok=ANY_STATUS, stdin=canary_kit.STDIN.get(verb))
        if done.returncode:
            failed[verb] = done.stderr
    assert list(failed) == ["credential"], failed  # credentials cannot be asked for without a terminal


@pytest.mark.parametrize("name", VECTORS)
def test_gitpython_runs_no_program_with_our_environment(
    name: str, target: Target
) -> None:  # G1, GitPython's too (rule 27)
    plant(name, target)
    _gitpython(target, fenced=True)
    assert target.fired == []


@pytest.mark.parametrize("name", ["core.fsmonitor", "filter.ev.clean", "diff.ev.textconv", "gpg.program"])
def test_gitpython_alone_runs_programs_of_the_repository(name: str, target: Target) -> None:
    plant(name, target)
    _gitpython(target, fenced=False)
    assert target.fired != []


def _gitpython(target: Target, *, fenced: bool) -> None:
    """Everything `recent_commits` reads, and more."""
    import git as gitpython

    target.touch()
    with gitpython.Repo(target.tree) as repo:
        if fenced:
            common, admin = str(target.common), str(target.admin)
            env = git_environment(safety.neutral_settings(common, admin, False))
            repo.git.update_environment(
                **env, **pinned_variables(common, admin), GIT_DIR=admin, GIT_WORK_TREE=str(target.tree)
            )
        reads = (
            lambda: [commit.hexsha for commit in repo.iter_commits("HEAD", max_count=5)],
            lambda: repo.is_dirty(untracked_files=True),
            lambda: repo.untracked_files,
            lambda: [change.diff for change in repo.head.commit.diff(repo.head.commit.parents[0], create_patch=True)],
            lambda: repo.index.diff(None),
            lambda: [(ref.name, ref.commit.hexsha) for ref in repo.references],
            lambda: [str(remote.url) for remote in repo.remotes],
            lambda: repo.config_reader().sections(),
            lambda: repo.git.log("-2"),
            lambda: repo.git.diff("HEAD"),
        )
        for read in reads:
            try:
                read()
            except (
                gitpython.GitCommandError,
                ValueError,
                KeyError,
            ):  # what it executed is the question, not its answer
                continue


# --- G2: content, which every pull request may bring


def _looks(git: Git, target: Target) -> None:
    """status, diff, add and snapshot, as the product runs them."""
    index = {"GIT_INDEX_FILE": str(target.root / "index-copy")}
    git.run("status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all")
    git.run("diff", "HEAD")
    git.run("diff", "--submodule=log", "HEAD", ok=ANY_STATUS)
    git.run("read-tree", "HEAD", env=index)
    git.run("add", "-A", env=index, ok=ANY_STATUS)  # newer versions of git refuse a hostile .gitmodules here
    git.run("commit-tree", git.text("write-tree", env=index), "-m", "snapshot")
    is_dirty(git)


def test_a_bare_repository_in_the_tree_is_not_used(target: Target) -> None:  # G2
    lib = target.tree / "lib"
    git("init", "-q", "--bare", str(lib), cwd=target.root)
    git("config", "core.bare", "false", cwd=lib)
    git("config", "core.worktree", str(target.tree), cwd=lib)
    git("config", "core.fsmonitor", target.canary, cwd=lib)
    git("status", cwd=lib, check=False)
    assert target.fired
    target.quiet()
    place = layout.discover(str(lib))
    assert place is not None
    assert place.path == str(target.tree)
    _looks(Git(place.repository.common_dir, place.admin_dir, place.path), target)
    assert target.fired == []


def test_a_rewritten_git_file_runs_nothing(target: Target) -> None:  # G2, rule 25
    evil = target.root / "evil"
    git("clone", "-q", str(target.app), str(evil), cwd=target.root)
    target.config(("extensions.worktreeConfig", "true"))  # then the other git directory has a word too
    for key in ("core.fsmonitor", "filter.ev.clean"):
        git("config", key, target.canary, cwd=evil)
        git("config", "--file", str(evil / ".git" / "config.worktree"), key, target.canary, cwd=evil)
    (target.tree / ".git").write_text(f"gitdir: {evil}/.git\n")
    target.touch()
    git("status", cwd=target.tree, check=False)
    assert target.fired
    target.quiet()
    assert target.wrapped().text("rev-parse", "--absolute-git-dir") == str(target.admin)
    _looks(target.wrapped(), target)
    for action in ("move", "remove"):
        with pytest.raises(GitError):
            target.wrapped().at(str(target.common), str(target.app)).run("worktree", action, str(target.tree), "/x")
    assert target.fired == []
    assert (target.tree / "x.f").exists()


@pytest.fixture
def nested(target: Target) -> Target:
    """A repository inside the worktree, recorded as a gitlink, with programs of its own."""
    inner = target.tree / "inner"
    git("init", "-q", "-b", "main", str(inner), cwd=target.root)
    (inner / ".gitattributes").write_text("*.f filter=unheardof\n")
    (inner / "y.f").write_text("one\n")
    git("add", "-A", cwd=inner)
    git("commit", "-q", "-m", "inner", cwd=inner)
    git("add", "-A", cwd=target.tree)
    git("commit", "-q", "-am", "with a gitlink", cwd=target.tree)
    for key in ("core.fsmonitor", "filter.unheardof.clean", "filter.unheardof.process"):
        git("config", key, target.canary, cwd=inner)
    (inner / "y.f").write_text("ONE\n")
    target.quiet()
    return target


def test_a_nested_repository_is_not_entered(nested: Target) -> None:  # G2
    git("status", cwd=nested.tree)
    assert nested.fired
    nested.quiet()
    _looks(nested.wrapped(), nested)
    assert nested.fired == []


def test_submodules_are_not_followed(nested: Target) -> None:  # G2
    modules = nested.tree / ".gitmodules"
    modules.write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n')
    nested.config(
        ("submodule.inner.active", "true"),
        ("submodule.inner.update", f"!{nested.canary}"),
        ("submodule.inner.url", f"ext::{nested.peer}"),
        ("submodule.inner.fetchRecurseSubmodules", "true"),
        ("submodule.recurse", "true"),
        ("protocol.ext.allow", "always"),
        ("diff.submodule", "diff"),
        ("status.submoduleSummary", "true"),
    )
    git("commit", "-q", "-am", "not the recorded one", cwd=nested.tree / "inner")
    nested.quiet()
    git("submodule", "update", cwd=nested.tree, check=False)
    assert nested.fired
    modules.write_text(
        f'[submodule "inner"]\n\tpath = inner\n\turl = -u{nested.peer}\n\tupdate = !{nested.canary}\n\tignore = all\n'
        f'[submodule "-x"]\n\tpath = -x\n\turl = ext::{nested.peer}\n'
    )
    nested.quiet()
    _looks(nested.wrapped(), nested)
    for verb in canary_kit.VERBS:
        run_wrapped(nested, verb)
    assert nested.fired == []


def test_the_users_lfs_filter_works_and_that_of_the_repository_does_not(target: Target, own_home: Path) -> None:  # G2
    own = target.root / "users-own"
    script = target.root / "lfs.sh"
    script.write_text(f"#!/bin/sh\necho ran >>{own}\ncat\n")
    script.chmod(0o755)
    git("config", "--global", "filter.lfs.clean", str(script), cwd=target.root)
    VECTORS["LFS by its own name"](target)
    (target.tree / "big.bin").write_text("LARGE\n")
    _looks(target.wrapped(), target)
    assert target.fired == []
    assert own.exists()


def test_programs_in_the_work_tree_are_not_found_by_path(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:  # G2
    """`node_modules/.bin` in PATH is common; git starts ssh from inside the work tree."""
    (target.tree / "bin").mkdir()
    (target.tree / "bin" / "ssh").symlink_to(target.peer)
    monkeypatch.setenv("PATH", f"bin{os.pathsep}{os.environ['PATH']}")
    target.config(("remote.origin.url", "ssh://host.invalid/x"))
    run_plain(target, "fetch")
    assert target.fired
    target.quiet()
    run_wrapped(target, "fetch")
    assert target.fired == []


def test_hooks_of_the_user_do_not_run_in_an_untrusted_tree(target: Target) -> None:  # G2, rule 24
    git("config", "--global", "core.hooksPath", str(target.root / "mine"), cwd=target.root)
    git("config", "--global", "hook.mine.command", target.canary, cwd=target.root)
    (target.root / "mine").mkdir()
    for name in canary_kit.HOOKS:
        (target.root / "mine" / name).symlink_to(target.canary)
        git("config", "--global", "--add", "hook.mine.event", name, cwd=target.root)
    run_plain(target, "update-ref")
    assert target.fired
    found = cells(target, run_wrapped)
    found.pop("push")  # here the remote is a repository of the user's on the same machine, and its hooks are its own
    assert found == {}


def test_trust_enables_the_programs(target: Target) -> None:  # rule 24
    VECTORS["filter.ev.clean"](target)
    VECTORS["hooks"](target)
    trusted = Git(str(target.common), str(target.admin), str(target.tree), trusted=True)
    target.touch()
    trusted.run("status", "--porcelain")
    assert any("canary.sh" in line for line in target.fired)
    target.quiet()
    trusted.run("update-ref", "refs/heads/more", "HEAD")
    assert any("reference-transaction" in line for line in target.fired)


def test_a_disabled_merge_driver_leaves_the_default_merge(target: Target) -> None:
    """Blanking a merge driver by an empty command would fail every merge: git's own text merge stands in."""
    plain = target.git("merge-tree", "--write-tree", "main", "other", check=False)
    VECTORS["merge.ev.driver"](target)
    done = target.wrapped().run("merge-tree", "--write-tree", "main", "other", ok=(0, 1))
    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[0] == plain.splitlines()[0]


def test_no_child_process_of_an_attack_is_left_running(target: Target) -> None:
    run_wrapped(target, "fetch")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(target.root) not in listed
