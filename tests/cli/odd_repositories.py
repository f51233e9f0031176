"""Builders of odd repositories. Each gives the folder to stand in; what git itself does with them is not our business,
that we answer rightly or with one clear sentence is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.helpers import Repo, git

Builder = Callable[[Path], Path]
BUILDERS: dict[str, Builder] = {}


def odd(build: Builder) -> Builder:
    BUILDERS[build.__name__] = build
    return build


@odd
def plain(base: Path) -> Path:
    return Repo.create(base / "app").path


@odd
def with_origin(base: Path) -> Path:
    return Repo.create_with_origin(base / "app", base / "origin.git").path


@odd
def cluster_folder(base: Path) -> Path:
    made = Repo.create_with_origin(base / "proj" / "trunk-main", base / "proj.git")
    (base / "proj" / ".iMi").mkdir()
    return made.path.parent


@odd
def bare_with_worktrees(base: Path) -> Path:
    source = Repo.create(base / "source")
    home = base / "proj"
    home.mkdir()
    git("clone", "-q", "--bare", source.path, home / ".bare", cwd=base)
    (home / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "-q", home / "trunk-main", "main", cwd=home)
    return home


@odd
def inside_bare(base: Path) -> Path:
    source = Repo.create(base / "source")
    git("clone", "-q", "--bare", source.path, base / "proj.git", cwd=base)
    return base / "proj.git"


@odd
def detached(base: Path) -> Path:
    made = Repo.create(base / "app")
    made.git("switch", "-q", "--detach")
    return made.path


@odd
def unborn(base: Path) -> Path:
    git("init", "-q", "-b", "main", base / "app", cwd=base)
    return base / "app"


@odd
def shallow(base: Path) -> Path:
    Repo.create_with_origin(base / "source", base / "origin.git")
    git("clone", "-q", "--depth=1", f"file://{base / 'origin.git'}", base / "app", cwd=base)
    return base / "app"


@odd
def with_submodule(base: Path) -> Path:
    inner = Repo.create(base / "inner")
    made = Repo.create(base / "app")
    made.git("submodule", "--quiet", "add", str(inner.path), "sub")
    made.commit("with a submodule")
    return made.path


@odd
def inside_submodule(base: Path) -> Path:
    return with_submodule(base) / "sub"


@odd
def sparse(base: Path) -> Path:
    made = Repo.create(base / "app")
    made.git("sparse-checkout", "set", "--no-cone", "/README.md")
    return made.path


@odd
def lfs_filters(base: Path) -> Path:
    made = Repo.create(base / "app")
    made.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    made.git("config", "filter.lfs.clean", "git-lfs clean -- %f")
    made.git("config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    made.git("config", "filter.lfs.process", "git-lfs filter-process")
    made.commit("attributes")
    return made.path


@odd
def locked_worktree(base: Path) -> Path:
    made = Repo.create(base / "app")
    other = made.worktree("feat-old")
    made.git("worktree", "lock", "--reason", "on a stick", other.path)
    return made.path


@odd
def prunable_worktree(base: Path) -> Path:
    made = Repo.create(base / "app")
    shutil.rmtree(made.worktree("feat-old").path)
    return made.path


@odd
def moved_worktree(base: Path) -> Path:
    made = Repo.create(base / "app")
    made.worktree("feat-old").path.rename(base / "feat-elsewhere")
    return made.path


@odd
def unreachable_remote(base: Path) -> Path:
    made = Repo.create(base / "app")
    made.git("remote", "add", "origin", str(base / "nowhere.git"))
    return made.path


@odd
def no_identity(base: Path) -> Path:
    made = Repo.create(base / "app")
    (base / "home" / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    return made.path


@odd
def many_branches(base: Path) -> Path:
    made = Repo.create(base / "app")
    head = made.git("rev-parse", "HEAD")
    lines = "".join(f"create refs/heads/topic/{n} {head}\n" for n in range(500))
    subprocess.run(["git", "update-ref", "--stdin"], input=lines, text=True, cwd=made.path, check=True)
    return made.path


@odd
def subdirectory(base: Path) -> Path:
    return plain(base) / "src"


@odd
def inside_another_worktree(base: Path) -> Path:
    return Repo(plain(base)).worktree("feat-old").path


@odd
def in_the_middle_of_a_merge(base: Path) -> Path:
    made = Repo.create(base / "app")
    made.git("switch", "-q", "-c", "other")
    made.write("README.md", "theirs\n")
    made.commit("theirs")
    made.git("switch", "-q", "main")
    made.write("README.md", "ours\n")
    made.commit("ours")
    made.git("merge", "other", check=False)
    return made.path


@odd
def odd_folder_name(base: Path) -> Path:
    return Repo.create(base / "a b" / "it's [odd] ünï").path


@odd
def tampered_worktree(base: Path) -> Path:
    made = Repo.create(base / "app")
    victim, other = made.worktree("feat-a"), made.worktree("feat-b")
    (victim.path / ".git").write_text((other.path / ".git").read_text())
    return made.path


@odd
def outside_any(base: Path) -> Path:
    folder = base / "empty"
    folder.mkdir()
    return folder
