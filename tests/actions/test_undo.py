"""`imi undo`: what comes back when the world has moved on meanwhile, and which removal is meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import trash_folder
from imi_monitor.config import database_path
from imi_monitor.git import layout
from imi_monitor.model.errors import Refused
from imi_monitor.store import db, events, trash, worktrees
from tests.actions.removal_kit import act, admin_of, assert_same, fingerprint, register, remove, trash_root, undo
from tests.audit_events import at_event
from tests.helpers import Repo, git, imi


def branch_of(tree: Path) -> str:
    return git("branch", "--show-current", cwd=tree)


@pytest.fixture
def tree(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("work.py", "x\n")
    made.commit("work")
    return made


def test_the_row_the_event_and_the_claim_history_come_back(repo: Repo, tree: Repo) -> None:  # S2.43
    with Context(str(repo.path)) as context:
        register(context, repo, tree)
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    remove(repo, "feat-x", agent="claude-1")
    connection = db.connect(database_path(None))
    row = worktrees.get(connection, "app", "feat-x")
    assert row is not None and (row.active, row.agent_id, row.closed_how) == (False, None, "removed")
    undo(repo)
    row = worktrees.get(connection, "app", "feat-x")
    assert row is not None and (row.active, row.agent_id, row.closed_how) == (True, None, None)
    assert (row.pr_number, row.base_branch, row.type) == (7, "main", "feat")
    ended = connection.execute("SELECT agent_id, taken_by FROM claim_history ORDER BY epoch").fetchall()
    assert ended[0] == ("claude-1", "imi:remove")
    told = [one for one in events.list_events(connection) if one.type in ("worktree.removed", "worktree.restored")]
    assert [event.type for event in told] == ["worktree.removed", "worktree.restored"]
    removed = json.loads(told[0].data)
    assert removed.pop("trash_id") == connection.execute("SELECT id FROM trash").fetchone()[0]
    assert removed == {
        "path": str(tree.path),
        "branch": "feat/x",
        "commit": tree.git("rev-parse", "HEAD"),
        "how": "removed",
        "overridden": [],
    }
    assert (told[0].agent_id, told[0].epoch) == ("claude-1", 2)
    connection.close()


def test_the_branch_is_free_meanwhile_and_taken_again(repo: Repo, tree: Repo) -> None:
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x")
    repo.git("checkout", "-q", "feat/x")
    repo.git("checkout", "-q", "main")
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


def test_a_branch_checked_out_elsewhere_stays_there(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    repo.git("checkout", "-q", "feat/x")
    outcome = undo(repo)
    assert "checked out in" in outcome.warnings[0]
    assert branch_of(tree.path) == ""
    assert tree.git("status", "--porcelain") == ""
    assert tree.git("rev-parse", "HEAD") == repo.git("rev-parse", "feat/x")


def test_a_branch_that_moved_on_is_not_dragged_back(repo: Repo, tree: Repo) -> None:
    was = tree.git("rev-parse", "HEAD")
    remove(repo, "feat-x")
    repo.git("update-ref", "refs/heads/feat/x", "main")
    outcome = undo(repo)
    assert "has moved on" in outcome.warnings[0]
    assert tree.git("rev-parse", "HEAD") == was
    assert tree.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "feat/x") == repo.git("rev-parse", "main")


def test_a_deleted_branch_is_made_again(repo: Repo, tree: Repo) -> None:
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x")
    repo.git("branch", "-q", "-D", "feat/x")
    repo.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    outcome = undo(repo)
    assert outcome.data["branch_made_again"] is True
    after = fingerprint(repo, tree.path)
    after["admin"].pop("logs/HEAD"), before["admin"].pop("logs/HEAD")  # expired by the test itself
    assert_same(after, before)


def test_a_branch_whose_place_is_taken_leaves_it_detached(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    repo.git("branch", "-q", "-D", "feat/x")
    repo.git("branch", "feat")
    outcome = undo(repo)
    assert "cannot be restored" in outcome.warnings[0]
    assert branch_of(tree.path) == ""
    assert tree.git("status", "--porcelain") == ""


def test_refuses_when_something_is_in_its_place(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    tree.path.mkdir()
    (tree.path / "precious").write_text("x\n")
    with pytest.raises(Refused, match="feat-x exists: move"):
        undo(repo)
    assert (tree.path / "precious").read_text() == "x\n"
    shutil.rmtree(tree.path)
    undo(repo)
    assert (tree.path / "work.py").exists()


def test_even_an_empty_folder_in_its_place_is_not_replaced(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    tree.path.mkdir()
    with pytest.raises(Refused, match="feat-x exists: move"):
        undo(repo)


def test_a_folder_created_during_the_restore_is_not_replaced(repo: Repo, tree: Repo) -> None:
    """A rename would replace an empty folder silently."""
    remove(repo, "feat-x")
    parent = str(tree.path.parent)
    with (
        at_event("os.mkdir", tree.path.mkdir, when=lambda path, *_: path == parent) as met,
        pytest.raises(Refused, match="feat-x exists: move"),
    ):
        undo(repo)
    assert met and list(tree.path.iterdir()) == []
    tree.path.rmdir()
    undo(repo)


def test_the_parent_folder_is_made_again(repo: Repo, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "feat-x"
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(path))
    before = fingerprint(repo, path)
    remove(repo, "feat-x")
    shutil.rmtree(tmp_path / "deep")
    undo(repo)
    assert_same(fingerprint(repo, path), before)


def test_after_the_repository_was_moved(repo: Repo, tree: Repo) -> None:
    tree.write("README.md", "uncommitted\n")
    remove(repo, "feat-x", force=True)
    moved = Repo(repo.path.rename(repo.path.parent / "elsewhere"))
    connection = db.connect(database_path(None))
    connection.execute("UPDATE places SET common_dir = ?", (str(moved.path / ".git"),))
    connection.close()
    assert "feat-x" not in str(act("repair", cwd=moved.path, path=[]).data)
    act("undo", cwd=moved.path)
    assert git("status", "--porcelain", cwd=tree.path) == "M README.md"
    assert moved.git("worktree", "list").count("feat-x") == 1


def test_a_worktree_pruned_by_hand_comes_back_all_the_same(repo: Repo, tree: Repo) -> None:
    """`git worktree unlock` and `prune` take git's record away; our links to its files remain."""
    tree.write("README.md", "staged\n")
    tree.git("add", "-A")
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x", force=True)
    shutil.rmtree(repo.path / ".git" / "worktrees" / "feat-x")
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


def test_a_record_that_another_worktree_has_by_now_is_left_alone(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    """git names the record after the folder, so the next `feat-x` anywhere gets the name of one deleted by hand."""
    outcome = remove(repo, "feat-x")
    shutil.rmtree(repo.path / ".git" / "worktrees" / "feat-x")
    other = Repo(tmp_path / "elsewhere" / "feat-x")
    repo.git("worktree", "add", "-q", "-b", "other", str(other.path))
    other.write("README.md", "staged\n")
    other.git("add", "-A")
    before = fingerprint(repo, other.path)
    with pytest.raises(Refused, match=r"has reused .* for another worktree"):
        undo(repo)
    assert Path(str(outcome.data["trash_path"]), "README.md").exists()
    with Context(str(repo.path)) as context:
        (entry,) = trash.list_kept(context.connection)
        with pytest.raises(Refused, match=r"has reused .* for another worktree"):  # and neither does a recovery
            trash_folder.move_to_trash(
                trash_folder.TrashedWorktree.of(entry.data), context.git(layout.repository_at(f"{repo.path}/.git"))
            )
    act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True)
    assert_same(fingerprint(repo, other.path), before)


def test_every_name_in_the_tree_is_the_users(repo: Repo, tree: Repo) -> None:
    """Also one that looks like a temporary file of ours, when the `.git` file has to be written again."""
    tree.write(".git.imi-new", "mine\n")
    tree.commit("odd")
    before = fingerprint(repo, tree.path)
    packed = Path(str(remove(repo, "feat-x").data["trash_path"]))
    (packed / ".git").write_text((packed / ".git").read_text() + "\n")
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
    assert not trash_root(repo).exists()


def test_somebody_emptied_the_trash(repo: Repo, tree: Repo) -> None:
    outcome = remove(repo, "feat-x")
    shutil.rmtree(trash_root(repo))
    with pytest.raises(Refused, match="not in the trash any more"):
        undo(repo)
    listed = act("trash list", cwd=repo.path)
    assert listed.data["entries"][0]["restorable"] is False  # type: ignore[index]
    assert str(outcome.data["trash_id"]) in listed.lines[0]
    assert "cannot be restored" in listed.lines[0]


def test_a_new_worktree_of_the_name_is_not_pushed_aside(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    assert imi("feat", "x", cwd=repo.path).code == 0
    with pytest.raises(Refused, match="another worktree feat-x exists"):
        undo(repo)


class TestWhich:
    @pytest.fixture(autouse=True)
    def removed(self, repo: Repo) -> None:
        self.ids = []
        for name in ("feat-a", "feat-b"):
            repo.worktree(name)
            self.ids.append(str(remove(repo, name).data["trash_id"]))

    def test_without_a_word_the_last(self, repo: Repo) -> None:
        assert undo(repo).data["worktree_name"] == "feat-b"
        assert undo(repo).data["worktree_name"] == "feat-a"
        with pytest.raises(Refused, match="the trash is empty"):
            undo(repo)

    @pytest.mark.parametrize("how", ["id", "beginning", "name", "short name"])
    def test_by(self, repo: Repo, how: str) -> None:
        which = {"id": self.ids[0], "beginning": self.ids[0][:6], "name": "feat-a", "short name": "a"}[how]
        assert undo(repo, which).data["worktree_name"] == "feat-a"

    def test_twice(self, repo: Repo) -> None:
        undo(repo, self.ids[0])
        with pytest.raises(Refused, match="was already restored"):
            undo(repo, self.ids[0])

    def test_unknown(self, repo: Repo) -> None:
        with pytest.raises(Refused, match=r"'nonsense' is not in the trash .it holds .*feat-b"):
            undo(repo, "nonsense")

    def test_elsewhere_nothing_was_removed(self, repo: Repo, tmp_path: Path) -> None:
        other = Repo.create(tmp_path / "other")
        other.worktree("feat-z")
        remove(other, "feat-z")
        undo(other)
        with pytest.raises(Refused, match=f"the last one elsewhere is feat-b of app: `imi undo {self.ids[1]}`"):
            undo(other)
        assert undo(other, self.ids[1]).data["worktree_name"] == "feat-b"

    def test_outside_any_repository_the_last_of_all(self, tmp_path: Path) -> None:
        (tmp_path / "nowhere").mkdir()
        assert act("undo", cwd=tmp_path / "nowhere").data["worktree_name"] == "feat-b"

    def test_the_same_name_twice_means_the_later(self, repo: Repo) -> None:
        repo.git("worktree", "add", "-q", str(repo.path.parent / "feat-a"), "feat/a")
        again = remove(repo, "feat-a").data["trash_id"]
        assert undo(repo, "feat-a").data["trash_id"] == again


def test_two_repositories_of_the_same_worktree_name(repo: Repo, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "other")
    for one in (repo, other):
        one.git("worktree", "add", "-q", "-b", "feat/x", str(one.path.parent / one.path.name / "wt" / "feat-x"))
        remove(one, "feat-x")
    (tmp_path / "nowhere").mkdir()
    with pytest.raises(Refused, match="several repositories"):
        act("undo", cwd=tmp_path / "nowhere", which="feat-x")
    assert undo(repo, "feat-x").data["repo"] == "app"


def test_the_path_is_where_the_shell_goes(repo: Repo, tree: Repo) -> None:
    assert imi("remove", "feat-x", cwd=repo.path).code == 0
    done = imi("undo", cwd=repo.path)
    assert done.code == 0
    assert done.out.splitlines()[-1] == str(tree.path)
    assert admin_of(tree.path).is_dir()


def test_the_trash_is_private(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    entry = next(iter(trash_root(repo).iterdir()))
    for folder in (entry, trash_root(repo), trash_root(repo).parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_registry_keeps_what_happened(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    undo(repo)
    connection = db.connect(database_path(None))
    kept = connection.execute("SELECT id, restored_at FROM trash").fetchall()
    assert len(kept) == 1 and kept[0][1] is not None
    assert trash.list_kept(connection) == []
    connection.close()
