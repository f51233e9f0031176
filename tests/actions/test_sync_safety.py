"""Links never leave the cluster, never replace anything and are never committed, whatever a branch or `sync/` holds. # S1"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.actions.context import Context
from imi_monitor.actions.sync import safe_links, worktree_links
from imi_monitor.git import shared_names
from imi_monitor.model.errors import GitError
from tests.actions.sync_world import Oracle, World, clear
from tests.audit_events import at_event, fail
from tests.helpers import Repo, git, imi, tree_hash


@pytest.fixture
def world(cluster: Repo) -> World:
    return World.of(cluster)


def _links_out(world: World) -> None:
    (world.feat.path / "config").symlink_to(world.outside)


def _links_to_dot_git(world: World) -> None:
    (world.feat.path / "config").symlink_to(world.trunk.path / ".git" / "hooks")


def _file_in_the_way(world: World) -> None:
    (world.feat.path / "config").mkdir()
    (world.feat.path / "config" / ".env").write_text("mine\n")


def _folder_in_the_way(world: World) -> None:
    (world.feat.path / "config" / ".env").mkdir(parents=True)
    (world.feat.path / "config" / ".env" / "kept").write_text("mine\n")


def _file_where_a_folder_is_needed(world: World) -> None:
    (world.feat.path / "config").write_text("mine\n")


def _foreign_link(world: World) -> None:
    (world.feat.path / "config").mkdir()
    (world.feat.path / "config" / ".env").symlink_to(world.outside / "secret")


def _foreign_dangling_link(world: World) -> None:
    (world.feat.path / "config").mkdir()
    (world.feat.path / "config" / ".env").symlink_to("../nowhere")


def _pipe(world: World) -> None:
    (world.feat.path / "config").mkdir()
    os.mkfifo(world.feat.path / "config" / ".env")


def _nested_repository(world: World) -> None:
    Repo.create(world.feat.path / "config")


def _tracked(world: World) -> None:
    world.feat.write("config/.env", "tracked\n")
    world.feat.git("add", "-f", "config/.env")
    world.feat.git("commit", "-q", "-m", "tracked")
    (world.feat.path / "config" / ".env").unlink()  # deleted, but git still minds it


def _tracked_above(world: World) -> None:
    world.feat.write("config", "tracked\n")
    world.feat.commit("tracked")
    (world.feat.path / "config").unlink()


def _tracked_below(world: World) -> None:
    world.feat.write("config/.env/a", "tracked\n")
    world.feat.git("add", "-f", "config/.env/a")
    world.feat.git("commit", "-q", "-m", "tracked")
    shutil.rmtree(world.feat.path / "config")


def _submodule(world: World) -> None:
    world.feat.git("update-index", "--add", "--cacheinfo", f"160000,{world.feat.git('rev-parse', 'HEAD')},config")
    world.feat.git("commit", "-q", "-m", "a submodule that was never fetched")
    (world.feat.path / "config").mkdir(exist_ok=True)


def _unignored(world: World) -> None:
    world.feat.write(".gitignore", "config/*\n!config/.env\n")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (_links_out, "its folder config is a link, which is never followed"),
        (_links_to_dot_git, "its folder config is a link, which is never followed"),
        (_file_in_the_way, "a real file of that name is in the way"),
        (_folder_in_the_way, "a folder of that name is in the way"),
        (_file_where_a_folder_is_needed, "its folder config is a file"),
        (_foreign_link, "a link to"),
        (_foreign_dangling_link, "a link to ../nowhere is in the way"),
        (_pipe, "a real file of that name is in the way"),
        (_nested_repository, "config is a repository of its own"),
        (_tracked, "is tracked by git"),
        (_tracked_above, "its folder config is tracked as a file or a submodule"),
        (_tracked_below, "is a folder with tracked files"),
        (_submodule, "its folder config is tracked as a file or a submodule"),
        (_unignored, "is un-ignored by a .gitignore"),
    ],
)
def test_a_file_in_the_way_of_a_link_stays_and_is_reported(
    world: World, prepare: Callable[[World], None], reason: str
) -> None:
    world.share("config/.env")
    prepare(world)
    before, outside = tree_hash(world.feat.path), tree_hash(world.outside)
    hooks = tree_hash(world.trunk.path / ".git" / "hooks")
    for check in (True, False):
        told = world.report(world.sync(check=check))
        assert set(told) == {"config/.env"} or (check and prepare is _unignored), told
        assert told.get("config/.env", reason).startswith(reason)
    assert tree_hash(world.feat.path) == before
    assert tree_hash(world.outside) == outside
    assert tree_hash(world.trunk.path / ".git" / "hooks") == hooks
    assert os.readlink(world.trunk.path / "config" / ".env") == "../../sync/repo/config/.env"
    assert imi("sync", cwd=world.feat.path).code == 1


@pytest.mark.parametrize("setting", [("index.version", "4"), ("core.splitIndex", "true"), ("index.sparse", "true")])
def test_tracked_files_are_seen_in_every_kind_of_index(world: World, setting: tuple[str, str]) -> None:
    world.share("config/.env")
    world.share("free")
    world.feat.write("other/x", "x\n")
    _tracked(world)
    world.feat.git("config", *setting)
    if setting[0] == "index.sparse":
        world.feat.git("sparse-checkout", "set", "--cone", "--sparse-index", "other")
    else:
        world.feat.git("update-index", "--split-index" if setting[0] == "core.splitIndex" else "--index-version=4")
    told = world.report(world.sync())
    assert list(told) == ["config/.env"] and told["config/.env"].startswith("is tracked")
    assert os.path.islink(world.feat.path / "free")


@pytest.mark.parametrize(
    ("make", "where", "reason"),
    [
        (lambda w: w.share(".git/hooks/post-checkout"), ".git", "git's own files"),
        (lambda w: w.share(".GIT/config"), ".GIT", "git's own files"),
        (lambda w: w.share("a/.Git/config"), "a/.Git", "git's own files"),
        (lambda w: w.share("git~1/config"), "git~1", "git's own files"),
        (lambda w: w.share("a\nb"), "a\nb", "control"),
        (lambda w: w.share("a\x1bb"), "a\x1bb", "control"),
        (lambda w: w.share(".g\u200cit/config"), ".g\u200cit", "invisible"),
        (lambda w: (w.home / "sync/repo/x").symlink_to(w.outside / "secret"), "x", "out of the cluster"),
        (lambda w: (w.home / "sync/repo/x").symlink_to("/etc/passwd"), "x", "out of the cluster"),
        (lambda w: (w.home / "sync/repo/x").symlink_to("../../trunk-main/.git/config"), "x", "git's own files"),
        (lambda w: (w.home / "sync/repo/x").symlink_to("nowhere"), "x", "is a broken link"),
        (lambda w: (w.home / "sync/repo/x").symlink_to("x"), "x", "is a broken link"),
        (lambda w: (w.home / "sync/repo/x").symlink_to("../global"), "x", "not a regular file"),
        (lambda w: os.mkfifo(w.home / "sync/repo/x"), "x", "not a regular file"),
        (lambda w: w.share(".gitattributes"), ".gitattributes", "git follows no link of that name"),
        (lambda w: w.share(".gitignore"), ".gitignore", "git follows no link of that name"),
        (lambda w: w.share("a/b/.GitIgnore"), "a/b/.GitIgnore", "git follows no link of that name"),
        (lambda w: w.share(".gitmodules"), ".gitmodules", "git follows no link of that name"),
        (lambda w: w.share(".mailmap"), ".mailmap", "git follows no link of that name"),
    ],
)
def test_sources_that_are_refused(world: World, make: Callable[[World], object], where: str, reason: str) -> None:
    (world.home / "sync" / "global").mkdir()
    make(world)
    oracle = Oracle(world, [world.feat.path, world.trunk.path])
    git_dir = tree_hash(world.trunk.path / ".git" / "hooks")
    told = world.report(world.sync())
    assert list(told) == [f"sync/repo/{where}"] and reason in told[f"sync/repo/{where}"], told
    assert tree_hash(world.trunk.path / ".git" / "hooks") == git_dir
    oracle.check()


@pytest.mark.parametrize("name", [".gitattributes", "a/.gitignore", ".mailmap"])
def test_a_link_that_git_does_not_follow_is_removed_and_git_is_quiet(world: World, name: str) -> None:
    """An earlier version made it, and listed it in info/exclude."""
    source = world.share(name)
    world.share("free")
    place = world.feat.path / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(os.path.relpath(source, place.parent))
    exclude = world.trunk.path / ".git" / "info" / "exclude"
    with shared_names.ExcludeBlock(str(exclude.parent.parent)) as block:
        block.put({name})
    result = world.sync()
    assert not os.path.lexists(place) and os.path.islink(world.feat.path / "free")
    assert (result.total("removed"), name in exclude.read_text()) == (1, False)
    done = subprocess.run(["git", "status", "--porcelain"], cwd=world.feat.path, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.parametrize("where", ["../outside", "trunk-main/.git", "sync/../../outside", "/etc", "out"])
def test_a_sync_folder_outside_is_refused(world: World, where: str) -> None:
    (world.home / "out").symlink_to(world.outside)
    (world.home / ".iMi" / "config.toml").write_text(f'[sync_settings]\nuser_sync_path = "{where}"\n')
    result = world.sync()
    assert len(result.shared.refused) == 1 and not result.shared.sources
    assert not os.path.lexists(world.feat.path / "secret")


@pytest.mark.parametrize("where", ["../trunk-main/.git", "..", "../../outside"])
def test_a_folder_of_sync_that_is_a_link(world: World, where: str) -> None:
    (world.home / "sync" / "repo").rmdir()
    (world.home / "sync" / "repo").symlink_to(where)
    result = world.sync()
    assert not result.shared.sources and [name for name, _ in result.shared.refused] == ["sync/repo"]
    assert world.feat.git("status", "--porcelain", "--ignored") == ""


def test_the_sync_folder_itself_may_not_lead_out(world: World) -> None:
    shutil.rmtree(world.home / "sync")
    (world.outside / "repo").mkdir()
    (world.outside / "repo" / ".env").write_text("x\n")
    (world.home / "sync").symlink_to(world.outside)
    assert world.report(world.sync()) == {"sync/repo": "leads out of the cluster"}
    assert not os.path.lexists(world.feat.path / ".env")


def test_links_to_a_source_that_leads_outside_are_removed(world: World) -> None:
    source = world.share("x")
    world.sync()
    source.unlink()
    source.symlink_to(world.outside / "secret")
    assert world.sync().total("removed") == 2
    assert not os.path.lexists(world.feat.path / "x")


def test_litter_of_editors_is_not_shared(world: World) -> None:
    for name in (".env.swp", ".env~", "#x#", ".#x", ".DS_Store", "conf/4913.tmp"):
        world.share(name)
    world.share(".env")
    assert sorted(world.sync().shared.sources) == [".env"]


def test_more_files_than_the_limit_are_not_shared(world: World) -> None:
    folder = world.home / "sync" / "repo" / "node_modules"
    folder.mkdir()
    for number in range(2001):
        (folder / f"{number}").touch()
    done = imi("sync", cwd=world.feat.path)
    assert (done.code, "more than 2000 files" in done.err) == (1, True)
    assert not os.path.lexists(world.feat.path / "node_modules")


def test_a_worktree_with_a_forged_git_file_is_left_alone(world: World, tmp_path: Path) -> None:
    world.share(".env")
    other = Repo.create(tmp_path / "other")
    (world.feat.path / ".git").write_text(f"gitdir: {other.path}/.git\n")
    told = world.report(world.sync())
    assert list(told.values()) == [
        f"the .git file of {world.feat.path} does not belong to this worktree: nothing was linked"
    ]
    assert not os.path.lexists(world.feat.path / ".env")


def test_a_private_copy_is_never_lost_to_a_race(world: World) -> None:
    """`sed -i` puts a real file in the link's place between the check and the removal."""
    source = world.share(".env", folder="sync/global")
    world.sync()
    world.share(".env")  # now repo wins: the link is to be moved
    link = world.feat.path / ".env"

    def replace() -> None:
        link.unlink()
        link.write_text("an agent's own\n")

    (world.trunk.path / ".env").unlink()
    with at_event("os.rename", replace, when=lambda source, *_: source == ".env" and link.is_symlink()):
        told = world.report(world.sync())
    assert told == {".env": "another file was created there at the same moment"}
    assert link.read_text() == "an agent's own\n"
    assert source.read_text() == "shared\n"
    assert [n for n in os.listdir(world.trunk.path / ".git" / "worktrees" / "feat-a") if "aside" in n] == []


def test_a_file_that_appears_before_the_link_stays(world: World) -> None:
    world.share(".env")
    first = world.feat.path / ".env"
    with at_event(
        "os.symlink", lambda: first.write_text("first\n"), when=lambda *args: in_folder(args[2], world.feat.path)
    ):
        told = world.report(world.sync())
    assert told == {".env": "a file was created there at the same moment"}
    assert (world.feat.path / ".env").read_text() == "first\n"


def test_a_file_that_appears_after_the_look_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.share(".env")
    judge = safe_links.LinkTree.check

    def early(tree: safe_links.LinkTree, *rest: object) -> str:
        found = judge(tree, *rest)  # type: ignore[arg-type]
        Path(tree.real, ".env").write_text("first\n")
        return found

    monkeypatch.setattr(safe_links.LinkTree, "check", early)
    assert world.report(world.sync()) == {".env": "a file was created there at the same moment"}
    assert (world.feat.path / ".env").read_text() == "first\n"


def in_folder(handle: int, folder: Path) -> bool:
    return os.path.samestat(os.fstat(handle), os.stat(folder))


@pytest.mark.parametrize("what", ["link", "file", "folder"])
def test_git_on_another_disk(world: World, what: str) -> None:
    """The old link cannot be moved into git's directory then, so it is moved aside within its folder."""
    world.share(".env", folder="sync/global")
    world.sync()
    world.share(".env")
    link = world.feat.path / ".env"

    def replace() -> None:
        link.unlink()
        link.mkdir() if what == "folder" else link.write_text("mine\n")

    def is_replaced(source: str, target: str, source_fd: int, target_fd: int) -> bool:
        return what != "link" and source == ".env" and source_fd == target_fd and in_folder(source_fd, world.feat.path)

    far = at_event("os.rename", fail(errno.EXDEV), when=lambda _s, _t, source_fd, fd: source_fd != fd, once=False)
    with far, at_event("os.rename", replace, when=is_replaced):
        told = world.report(world.sync())
    assert (told == {}) == (what == "link")
    assert link.is_symlink() == (what == "link") and link.is_dir() == (what == "folder")
    assert what != "file" or link.read_text() == "mine\n"
    assert not [name for name in os.listdir(world.feat.path) if "aside" in name]


def test_a_link_that_does_not_reach_its_source_is_removed(world: World) -> None:
    """A link is verified after its creation: here the source vanishes while it is being linked. # S2.33"""
    source = world.share(".env")
    with at_event("os.symlink", lambda: source.unlink(missing_ok=True)):
        result = world.sync()
    assert world.report(result) == {".env": "the link did not reach its source and was removed again"}
    assert not os.path.lexists(world.feat.path / ".env")
    assert b"/.env" not in world.exclude.read_bytes()


def test_a_link_that_leads_to_another_file_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the text of a link counts but where it leads; as when a worktree is seen through a bind mount."""
    world.share(".env")
    monkeypatch.setattr(safe_links.LinkTree, "target", lambda *_: "../../outside/secret")
    assert world.report(world.sync()) == {".env": "the link did not reach its source and was removed again"}
    assert not os.path.lexists(world.feat.path / ".env")


def test_a_link_of_the_user_to_the_same_file_stays(world: World) -> None:
    """A source may be a link itself; a user's link to the same file that bypasses sync/ stays."""
    (world.home / "sync" / "repo" / "x").symlink_to("../../trunk-main/README.md")
    (world.feat.path / "x").symlink_to(world.trunk.path / "README.md")
    told = world.report(world.sync())
    assert list(told) == ["x"] and told["x"].endswith("README.md is in the way")
    assert os.readlink(world.feat.path / "x") == str(world.trunk.path / "README.md")


@pytest.mark.parametrize("call", ["symlink", "mkdir", "readlink"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_a_failing_disk_is_reported_for_each_file(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    world.share("conf/a")
    real = getattr(os, call)

    def failing(*args: object, **more: object) -> object:
        if "dir_fd" in more:
            raise OSError(code, os.strerror(code))
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(safe_links.os, call, failing)
        told = world.report(world.sync())
    assert list(told) == ["conf/a"] and os.strerror(code) in told["conf/a"]
    assert world.report(world.sync()) == {}


class TestExclude:
    """Rule 37: exactly these names, and the rest of the file as it was."""

    NAMES = (
        ".env",
        "with space",
        "trailing ",
        "#hash",
        "!bang",
        "star*",
        "que?",
        "[x]",
        "back\\slash",
        "a/b c/[d",
        "ünï",
    )

    def test_odd_names_are_never_staged(self, world: World) -> None:
        for name in (*self.NAMES, os.fsdecode(b"not-utf8-\xff")):
            world.share(name)
        oracle = Oracle(world, [world.feat.path, world.trunk.path])
        result = world.sync()
        assert result.total("linked") == 2 * 12 and not result.problems()
        assert git("status", "--porcelain", cwd=world.feat.path) == ""
        oracle.check()
        assert shared_names.excluded_names(str(world.trunk.path / ".git")) == set(result.shared.sources)

    def test_a_rule_hides_that_name_and_no_other(self, world: World) -> None:
        world.share("star*")
        world.share("conf")
        world.sync()
        for name in ("star-two", "sub/conf", "conf.d"):
            world.feat.write(name, "x")
        status = git("status", "--porcelain", "--untracked-files=all", cwd=world.feat.path)
        assert {line[3:] for line in status.splitlines()} == {"star-two", "sub/conf", "conf.d"}

    @pytest.mark.parametrize("rest", [b"", b"# mine\n*.o\n", b"no end", b"a\r\nb\r\n", b"\xff\xfe\n\n\n", b"/\n"])
    def test_the_rest_stays_byte_for_byte(self, world: World, rest: bytes) -> None:
        world.exclude.write_bytes(rest)
        world.exclude.chmod(0o640)
        source = world.share(".env")
        world.sync()
        assert world.exclude.read_bytes().startswith(rest)
        assert world.exclude.stat().st_mode & 0o777 == 0o640
        stamp = world.exclude.stat().st_mtime_ns
        world.sync()
        assert world.exclude.stat().st_mtime_ns == stamp, "nothing changed, nothing is written"
        with world.exclude.open("ab") as file:
            file.write(b"later\n")
        source.unlink()
        world.sync()
        assert world.exclude.read_bytes() == rest + (b"\n" if rest == b"no end" else b"") * 0 + b"later\n"

    @settings(max_examples=100, database=None)
    @given(
        before=st.binary(max_size=40),
        after=st.binary(max_size=40),
        names=st.sets(
            st.text(st.characters(blacklist_characters="\n\0\r", blacklist_categories=("Cs",)), min_size=1, max_size=6)
        ),
    )
    def test_any_rest_and_any_names(
        self, tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, names: set[str]
    ) -> None:
        common = tmp_path_factory.mktemp("git")
        (common / "info").mkdir()
        path = common / "info" / "exclude"
        path.write_bytes(before)
        with shared_names.ExcludeBlock(str(common)) as block:
            block.put(names)
            assert block.names() == names
            path.write_bytes(path.read_bytes() + after)
            assert block.names() == names
            block.put(set())
        assert path.read_bytes() == before + after

    def test_a_damaged_block_is_mended(self, world: World) -> None:
        world.share(".env")
        world.sync()
        content = world.exclude.read_bytes()
        cut = content[: content.index(b"# imi: end")] + b"*.log\n"
        world.exclude.write_bytes(cut)
        world.share("b")
        world.sync()
        assert world.exclude.read_bytes() == content.replace(b"/.env\n", b"/.env\n/b\n") + b"*.log\n"

    def test_where_it_cannot_be_written_nothing_is_linked(self, world: World) -> None:
        world.share(".env")
        target = world.outside / "exclude"
        target.write_text("# dotfiles\n")
        world.exclude.unlink()
        world.exclude.symlink_to(target)
        before = tree_hash(world.home)
        done = imi("sync", cwd=world.feat.path)
        assert (done.code, "info/exclude is a link" in done.err) == (1, True)
        with Context(str(world.feat.path)) as context:
            report = worktree_links.link_shared_files(world.repository, str(world.feat.path), context.settings)
        assert report.linked == () and "is a link" in report.conflicts[0][1]
        assert tree_hash(world.home) == before
        assert target.read_text() == "# dotfiles\n"

    def test_waiting_for_the_lock_of_a_stopped_process_times_out(self, world: World) -> None:
        common = str(world.trunk.path / ".git")
        with (
            shared_names.ExcludeBlock(common),
            pytest.raises(GitError, match="another imi"),
            shared_names.ExcludeBlock(common, timeout=0.1),
        ):
            raise AssertionError("both have it")
        with shared_names.ExcludeBlock(common) as block:
            assert block.names() == set()

    def test_a_failing_disk_leaves_the_old_file(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        before = world.exclude.read_bytes()

        def failing(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(shared_names.os, "fsync", failing)
        with (
            shared_names.ExcludeBlock(str(world.trunk.path / ".git")) as block,
            pytest.raises(GitError, match="No space"),
        ):
            block.put({"x"})
        assert world.exclude.read_bytes() == before
        assert os.listdir(world.exclude.parent) == ["exclude"]


# --- generated trees ------------------------------------------------------------------------------------------------

PARTS = ("a", "b", ".env", "A", ".git", ".GIT", "..x", "conf", "sync", "c d")
KINDS = ("file", "file", "file", "dangling", "out", "out-folder", "in", "fifo", "absolute", "ours", "tracked")
_name = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)
# in a worktree these make `git add` itself fail
_plain = st.lists(st.sampled_from([p for p in PARTS if p.lower() != ".git"]), min_size=1, max_size=3).map("/".join)
_entries = st.lists(st.tuples(_plain, st.sampled_from(KINDS)), max_size=8)
_folder = st.sampled_from(["sync/repo", "sync/local", "sync/global", "sync/user"])
_sources = st.lists(st.tuples(_folder, _name, st.sampled_from(KINDS)), min_size=1, max_size=8)


def _put(root: Path, name: str, kind: str, world: World) -> bool:
    """Make one entry, if its place is free; what `name` runs through may be a link, which is then not followed."""
    target = root / name
    try:
        for parent in reversed(target.relative_to(root).parents[:-1]):
            if (root / parent).is_symlink():
                return False
            (root / parent).mkdir(exist_ok=True)
        if os.path.lexists(target) or target == root / ".git":
            return False
        if kind in ("file", "tracked"):
            target.write_text(f"content of {name}\n")
        elif kind == "fifo":
            os.mkfifo(target)
        else:
            target.symlink_to(_link(kind, name, target, world))
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _link(kind: str, name: str, target: Path, world: World) -> str:
    shared = f"{world.home}/sync/repo/{name}"
    return {
        "dangling": "no/where",
        "out": str(world.outside / "secret"),
        "out-folder": str(world.outside),
        "in": f"{world.home}/trunk-main/README.md",
        "absolute": shared,
        "ours": os.path.relpath(shared, target.parent),
    }[kind]


def _trial(world: World, sources: list[tuple[str, str, str]], entries: list[tuple[str, str]]) -> Oracle:
    """A fresh sync/ and a fresh worktree with these things in them."""
    shutil.rmtree(world.home / "sync")
    clear(world.feat.path)
    world.exclude.write_bytes(b"")
    git("rm", "-r", "-q", "--cached", ".", cwd=world.feat.path, check=False)
    for folder, name, kind in sources:
        (world.home / folder).mkdir(parents=True, exist_ok=True)
        _put(world.home / folder, name, kind, world)
    made = [name for name, kind in entries if _put(world.feat.path, name, kind, world) and kind == "tracked"]
    if made:
        git("add", "-f", "--", *made, cwd=world.feat.path, check=False)
    return Oracle(world, [world.feat.path])


def _property(world: World, sources: list[tuple[str, str, str]], entries: list[tuple[str, str]]) -> None:
    oracle = _trial(world, sources, entries)
    world.sync()
    assert world.sync().changed == 0, "a second sync has nothing left to do"
    oracle.check()


@settings(max_examples=40, database=None)
@given(sources=_sources, entries=_entries)
def test_generated_trees(
    world: World, sources: list[tuple[str, str, str]], entries: list[tuple[str, str]]
) -> None:  # S2.50
    _property(world, sources, entries)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@settings(max_examples=500, database=None)
@given(sources=_sources, entries=_entries)
def test_generated_trees_long(
    world: World, sources: list[tuple[str, str, str]], entries: list[tuple[str, str]]
) -> None:
    _property(world, sources, entries)


def _naive(tree: safe_links.LinkTree, source: object) -> None:
    """The naive implementation."""
    name: str = source.name  # type: ignore[attr-defined]
    path = os.path.join(tree.real, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(source.path, path)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "entries",
    [[("conf", "out-folder")], [("conf/.env", "file")], [("conf/.env", "dangling")], [("conf/.env", "out")], []],
)
def test_the_oracle_detects_plain_symlinks(
    world: World, monkeypatch: pytest.MonkeyPatch, entries: list[tuple[str, str]]
) -> None:
    """The seeded fault of S1: `os.symlink` on a joined path must be caught, each time."""
    oracle = _trial(world, [("sync/repo", "conf/.env", "file")], entries)
    monkeypatch.setattr(safe_links.LinkTree, "check", lambda *_: safe_links.MISSING)
    monkeypatch.setattr(safe_links.LinkTree, "create", _naive)
    world.sync()
    with pytest.raises((AssertionError, OSError)):
        oracle.check()


def test_what_an_agent_does_with_a_link(world: World) -> None:
    """`sed -i` makes a private copy: told, not overwritten; `rm -rf` of the worktree leaves the source alone."""
    source = world.share(".env", "A=1\n")
    world.sync()
    subprocess.run(["sed", "-i", "s/1/2/", ".env"], cwd=world.feat.path, check=True)
    assert world.report(world.sync()) == {
        ".env": "a real file of that name is in the way: move it to sync/ or delete it"
    }
    assert ((world.feat.path / ".env").read_text(), source.read_text()) == ("A=2\n", "A=1\n")
    shutil.rmtree(world.feat.path)
    assert source.read_text() == "A=1\n"
