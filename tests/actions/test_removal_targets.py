"""R4: never the wrong target. Whatever is typed, wherever one stands, however the worktrees lie: at most the one worktree meant
goes, and it never is the main one, the trunk, or a folder that git does not list."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model.errors import ImiError, Refused, UsageError
from tests.actions.removal_kit import act, force, remove, undo
from tests.helpers import Repo, git, tree_hash

BASES = ("feat-a", "feat-b", "a", "fix-a", "trunk-main", "sync", "app", "main")
PLACES = ("", "wt", "deep/er", "app/inside", "feat-a/inside", "other", ".hidden")
TYPED = (
    *BASES,
    "b",
    "er",
    "inside",
    "other",
    "..",
    ".",
    "/",
    "",
    "~",
    ".iMi",
    ".git",
    "wt",
    "not-git",
    "feat-a@wt",
    "origin",
)


@dataclass
class Layout:
    """One generated repository with its surroundings."""

    bare: bool
    main_branch: str
    trees: list[tuple[str, str, bool]]  # place, base name, whether the trunk is checked out there
    linked_root: bool
    typed: list[str | int]  # a number stands for the name of one of the trees, cut short when it is odd
    standing: int
    made: list[Path] = field(default_factory=list)


layouts = st.builds(
    Layout,
    bare=st.booleans(),
    main_branch=st.sampled_from(["main", "feat/m"]),
    trees=st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(BASES), st.sampled_from([False, False, False, True])),
        min_size=1,
        max_size=5,
        unique_by=lambda tree: tree[:2],
    ),
    linked_root=st.booleans(),
    typed=st.lists(st.one_of(st.sampled_from(TYPED), *[st.integers(0, 9)] * 3), min_size=2, max_size=5),
    standing=st.integers(0, 20),
)


def build(layout: Layout, root: Path) -> Repo:
    """The repository `app` and its worktrees, as far as git lets them be made there."""
    source = Repo.create(root / "app")
    if layout.bare:
        git("clone", "-q", "--bare", str(source.path), str(root / "app.git"), cwd=root)
        shutil.rmtree(source.path)
        repo = Repo(root / "app.git")
    else:
        repo = source
        if layout.main_branch != "main":
            repo.git("checkout", "-q", "-b", layout.main_branch)
    for place, base, trunk in layout.trees:
        path = root / place / base
        if path.exists() and any(path.iterdir()):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        where = ["main"] if trunk else ["-b", f"branch-{len(layout.made)}"]
        start = [] if trunk else ["main"]
        options = where if not trunk else []
        repo.git("worktree", "add", "-q", *options, str(path), *(where if trunk else start), check=False)
        if (path / ".git").exists():
            layout.made.append(path)
    (root / "not-git").mkdir()
    (root / "not-git" / "precious").write_text("x\n")
    Repo.create(root / "other-repo")
    return repo


def listed(repo: Repo) -> dict[Path, str]:
    """The linked worktrees that git lists outside the trash, and their branch."""
    found: dict[Path, str] = {}
    for block in repo.git("worktree", "list", "--porcelain").split("\n\n")[1:]:
        words = dict(line.partition(" ")[::2] for line in block.splitlines())
        if not words.get("locked", "").startswith("imi trash"):
            found[Path(words["worktree"])] = words.get("branch", "").removeprefix("refs/heads/")
    return found


def may_mean(path: Path, typed: str) -> bool:
    """Whether the typed word names this folder: its name, or its name without what kind of work it is."""
    names = {path.name, f"{path.name}@{path.parent.name}"}
    return typed in names or any(path.name == prefix + typed for prefix in ("feat-", "fix-", "trunk-"))


def spelled(layout: Layout, word: str | int) -> str:
    if isinstance(word, str):
        return word
    name = layout.trees[word % len(layout.trees)][1]
    return name.removeprefix("feat-").removeprefix("fix-") if word % 2 else name


def check(layout: Layout, root: Path) -> None:
    repo = build(layout, root)
    before = tree_hash(root, skip=_registry(root))
    spots = [root, repo.path, *layout.made, root / "not-git"]
    standing = spots[layout.standing % len(spots)]
    if layout.linked_root:  # reached through a link
        (root.parent / "link").symlink_to(root)
        standing = root.parent / "link" / standing.relative_to(root)
    for word in layout.typed:
        typed = spelled(layout, word)
        there = listed(repo)
        untouched = _folders(root)
        try:
            act("remove", cwd=standing if standing.is_dir() else root, repo=repo.path, name=typed, force=True)
        except ImiError:
            assert listed(repo) == there
            assert _folders(root) == untouched
            continue
        gone = set(there) - set(listed(repo))
        assert len(gone) == 1
        path = gone.pop()
        assert may_mean(path, typed)
        assert len([other for other in there if other.name == path.name]) == 1, "the name was ambiguous"
        assert there[path] != "main"
        assert path.name not in ("trunk-main", "sync")
        assert not any(other != path and path in other.parents for other in there)
        assert not path.exists()
        undo(repo)
        assert path.exists()
    assert tree_hash(root, skip=_registry(root)) == before


def _registry(root: Path) -> list[str]:
    return []


def _folders(root: Path) -> set[str]:
    """All folders outside git's own; removing one of them is what this is about."""
    found = set()
    for folder, names, _ in os.walk(root):
        names[:] = [name for name in names if name != ".git" and not name.endswith(".git")]
        found.update(os.path.join(folder, name) for name in names)
    return found


def run(layout: Layout) -> None:
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="imi-layout-")))
    home = base / "home"
    home.mkdir()
    before = dict(os.environ)
    try:
        os.environ["HOME"] = str(home)
        os.environ["IMI_DATABASE_PATH"] = str(base / "registry" / "iMi.db")
        (base / "root").mkdir()
        layout.made.clear()
        check(layout, base / "root")
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(base)


SOME = settings(max_examples=30, database=None)


@SOME
@given(layouts)
def test_random_layouts(layout: Layout) -> None:  # R4, short
    run(layout)


@pytest.mark.soak
@settings(SOME, max_examples=2000)
@given(layouts)
def test_random_layouts_long(layout: Layout) -> None:  # R4
    run(layout)


@pytest.mark.parametrize("name", ["..", ".", "/", "", "a/b", "../feat-x", "/etc"])
def test_a_path_is_no_name(repo: Repo, name: str) -> None:
    repo.worktree("feat-x")
    with pytest.raises(UsageError):
        remove(repo, name, **force(name))


@pytest.mark.parametrize("name", ["app", "main", "trunk", "sync", ".iMi", "HEAD", ".git", "not-git"])
def test_what_git_does_not_list(repo: Repo, name: str) -> None:
    (repo.path.parent / "not-git").mkdir()
    (repo.path.parent / "sync").mkdir()
    with pytest.raises(Refused) as refused:
        remove(repo, name, **force(name))
    assert refused.value.code in ("main-worktree", "no-worktree")
    assert repo.path.is_dir() and (repo.path.parent / "not-git").is_dir()


def never(repo: Repo, name: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        remove(repo, name, **force(name))
    assert refused.value.code == code, refused.value.sentence
    assert "cannot be overridden" in refused.value.details[-1]


def test_the_trunk_of_a_cluster(cluster: Repo) -> None:
    never(cluster, "trunk-main", "main-worktree")


def test_the_trunk_of_a_bare_repository(tmp_path: Path, repo: Repo) -> None:
    git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "cluster" / ".bare"), cwd=tmp_path)
    bare = Repo(tmp_path / "cluster" / ".bare")
    bare.git("worktree", "add", "-q", str(tmp_path / "cluster" / "trunk-main"), "main")
    never(bare, "trunk-main", "trunk")


def test_the_default_branch_wherever_it_is(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "feat/elsewhere")
    repo.git("worktree", "add", "-q", str(repo.path.parent / "work"), "main")
    never(repo, "work", "trunk")


def test_the_main_worktree_on_a_feature_branch(repo: Repo) -> None:  # disaster 1 and 3 of the field
    repo.git("checkout", "-q", "-b", "feat/app")
    never(repo, "app", "main-worktree")


def test_one_with_another_inside(repo: Repo) -> None:
    outer = repo.worktree("feat-outer")
    repo.git("worktree", "add", "-q", "-b", "feat/inner", str(outer.path / "wt" / "feat-inner"))
    never(repo, "feat-outer", "contains")
    remove(repo, "feat-inner")


def test_one_around_the_repository(tmp_path: Path) -> None:
    outer = tmp_path / "feat-outer"
    repo = Repo.create(outer / "app")
    git("worktree", "add", "-q", "-b", "x", str(tmp_path / "w"), cwd=repo.path)
    # made by hand: git refuses to make a worktree in a folder that is not empty
    admin = repo.path / ".git" / "worktrees" / "w"
    (admin / "gitdir").write_text(f"{outer}/.git\n")
    (outer / ".git").write_text(f"gitdir: {admin}\n")
    never(repo, "feat-outer", "contains")


def test_home(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repo.worktree("feat-x")
    monkeypatch.setenv("IMI_DATABASE_PATH", str(repo.path.parent / "iMi.db"))
    monkeypatch.setenv("HOME", str(tree.path))
    never(repo, "feat-x", "contains")


def test_the_registry_inside(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repo.worktree("feat-x")
    monkeypatch.setenv("IMI_DATABASE_PATH", str(tree.path / "iMi.db"))
    never(repo, "feat-x", "contains")


def test_the_imi_that_is_asked_inside(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment would go into the trash under its feet, and `imi undo` with it."""
    tree = repo.worktree("feat-x")
    monkeypatch.setattr(sys, "prefix", str(tree.path / ".venv"))
    with pytest.raises(Refused, match="holds the running imi"):
        remove(repo, "feat-x", force=True, yes_really="feat-x")


def test_a_link_in_its_place(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    tree.path.rename(repo.path.parent / "really-here")
    tree.path.symlink_to(repo.path.parent / "really-here")
    never(repo, "feat-x", "symlinked")
    assert (repo.path.parent / "really-here" / "README.md").exists()


def test_a_linked_parent(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(tmp_path / "wt" / "feat-x"))
    (tmp_path / "wt").rename(tmp_path / "really")
    (tmp_path / "wt").symlink_to(tmp_path / "really")
    never(repo, "feat-x", "symlinked")


def test_a_record_that_lies_elsewhere(repo: Repo, tmp_path: Path) -> None:
    """Through a link the record could be any folder, which would be changed and later deleted."""
    tree = repo.worktree("feat-x")
    admin = repo.path / ".git" / "worktrees" / "feat-x"
    admin.rename(tmp_path / "elsewhere")
    admin.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "commondir").write_text(f"{repo.path}/.git\n")
    before = tree_hash(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="is not below the repository"):
        remove(repo, "feat-x", force=True, yes_really="feat-x")
    assert tree_hash(tmp_path / "elsewhere") == before and tree.path.is_dir()


def test_a_tampered_git_file(repo: Repo) -> None:  # G2, as far as removal goes
    tree = repo.worktree("feat-x")
    other = repo.worktree("feat-y")
    (tree.path / ".git").write_text((other.path / ".git").read_text())
    never(repo, "feat-x", "tampered")


def test_missing(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    shutil.rmtree(tree.path)
    never(repo, "feat-x", "missing")


def test_a_worktree_of_another_repository_inside(repo: Repo, tmp_path: Path) -> None:
    tree = repo.worktree("feat-x")
    other = Repo.create(tmp_path / "other")
    other.git("worktree", "add", "-q", "-b", "x", str(tree.path / "build" / "theirs"))
    never(repo, "feat-x", "nested-worktree")


def test_the_same_name_twice(repo: Repo, tmp_path: Path) -> None:
    for place in ("one", "two"):
        repo.git("worktree", "add", "-q", "-b", f"feat/{place}", str(tmp_path / place / "feat-x"))
    with pytest.raises(Refused, match="may mean"):
        remove(repo, "feat-x")
    remove(repo, "feat-x@two")
    assert (tmp_path / "one" / "feat-x").is_dir() and not (tmp_path / "two" / "feat-x").exists()


def test_a_short_name_for_two(repo: Repo) -> None:
    repo.worktree("feat-auth")
    repo.worktree("fix-auth")
    with pytest.raises(Refused, match="may mean feat-auth or fix-auth"):
        remove(repo, "auth")
    remove(repo, "fix-auth")
    remove(repo, "auth")


def test_a_name_of_another_repository(repo: Repo, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "other")
    other.worktree("feat-z")
    remove(other, "feat-z")
    undo(other)
    with pytest.raises(Refused, match="is in other, not in the current repository"):
        remove(repo, "feat-z")
    act("remove", cwd=repo.path, name="feat-z", repo="other")


def test_yes_really_must_name_it(repo: Repo) -> None:
    repo.worktree("feat-x")
    with pytest.raises(UsageError, match="whole name, feat-x"):
        remove(repo, "feat-x", force=True, yes_really="x")
    with pytest.raises(UsageError, match="needs --force"):
        remove(repo, "feat-x", yes_really="feat-x")
