"""The preview of an action: the same refusal as when it runs, its consequences, and no change of anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Preview, Request, refusal_kinds
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError
from tests.helpers import Repo, imi, tree_hash


def preview(repo: Repo, verb: str, **values: object) -> Preview:
    action = actions.find(verb)
    assert action is not None
    with Context(str(repo.path)) as context:
        return action.preview(context, Request(verb, {name.replace("_", "-"): value for name, value in values.items()}))


def refused(repo: Repo, verb: str, **values: object) -> str | None:
    """The code with which `run` refuses."""
    action = actions.find(verb)
    assert action is not None
    with Context(str(repo.path)) as context:
        try:
            action.run(context, Request(verb, {name.replace("_", "-"): value for name, value in values.items()}))
        except ImiError as error:
            return error.code
    return None


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-api")


def told(seen: Preview) -> str:
    assert seen.refusal is None, seen.refusal
    return "\n".join(seen.lines)


def test_preview_of_claim(repo: Repo, tree: Repo) -> None:
    tree.write("x.txt", "x")
    free = told(preview(repo, "claim", name="feat-api", agent="claude-1", ttl=900.0))
    assert "claude-1" in free and "1 uncommitted file" in free and "15m" in free
    assert refused(repo, "claim", name="feat-api", agent="claude-1") is None
    assert "renews" in told(preview(repo, "claim", name="feat-api", agent="claude-1"))
    seen = preview(repo, "claim", name="feat-api", agent="codex-1")
    assert refusal_kinds(seen.refusal) == {"claimed", "held"}
    assert refused(repo, "claim", name="feat-api", agent="codex-1") == "claimed"
    why = preview(repo, "claim", name="feat-api", agent="codex-1", force=True)
    assert refusal_kinds(why.refusal) == {"no-reason"}
    forced = told(preview(repo, "claim", name="feat-api", agent="codex-1", force=True, reason="mine"))
    assert "taken by force from claude-1" in forced
    assert refused(repo, "claim", name="feat-api", agent="claude-1") is None, "foreseeing has taken nothing"


def test_preview_of_a_stale_claim_offers_takeover(repo: Repo, tree: Repo) -> None:
    imi("claim", "feat-api", "--agent", "claude-1", "--ttl", "0.001", cwd=repo.path)
    seen = preview(repo, "claim", name="feat-api", agent="codex-1")
    assert refusal_kinds(seen.refusal) == {"claimed", "stale"}
    assert "taken over from claude-1" in told(preview(repo, "claim", name="feat-api", agent="codex-1", takeover=True))


def test_preview_of_release(repo: Repo, tree: Repo) -> None:
    assert refusal_kinds(preview(repo, "release", name="feat-api", agent="claude-1").refusal) == {"not-claimed"}
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)
    assert "claude-1's claim ends" in told(preview(repo, "release", name="feat-api", agent="claude-1"))
    assert "not-owner" in refusal_kinds(preview(repo, "release", name="feat-api", agent="codex-1").refusal)
    tree.write("README.md", "changed\n")
    assert refusal_kinds(preview(repo, "release", name="feat-api", agent="claude-1").refusal) == {"dirty"}
    assert refused(repo, "release", name="feat-api", agent="claude-1") == "dirty"
    assert "1 uncommitted file" in told(preview(repo, "release", name="feat-api", agent="claude-1", dirty_ok=True))
    assert refused(repo, "release", name="feat-api", agent="claude-1", dirty_ok=True) is None


def test_preview_of_remove(repo: Repo, tree: Repo) -> None:
    assert "its branch feat/api is kept" in told(preview(repo, "remove", name="feat-api"))
    tree.write("README.md", "changed\n")
    tree.write("new.txt", "new\n")
    seen = preview(repo, "remove", name="feat-api")
    assert seen.refusal is not None and seen.refusal.code == refused(repo, "remove", name="feat-api") == "not-safe"
    assert any("README.md" in line for line in seen.refusal.details) and seen.lines
    remove = actions.find("remove")
    assert remove is not None
    assert remove.override(seen.refusal, "feat-api") == {"force": True}
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)
    claimed = preview(repo, "remove", name="feat-api", agent="codex-1")
    assert claimed.refusal is not None
    way = remove.override(claimed.refusal, "feat-api")
    assert way == {"force": True, "yes-really": "feat-api"}
    assert (
        preview(repo, "remove", name="feat-api", agent="codex-1", **{"force": True, "yes-really": "feat-api"}).refusal
        is None
    )
    trunk = preview(repo, "remove", name="app")
    assert trunk.refusal is not None and remove.override(trunk.refusal, "app") is None, "nothing goes past that"


def test_preview_of_undo(repo: Repo, tree: Repo) -> None:
    assert refusal_kinds(preview(repo, "undo").refusal) == {"trash-empty"}
    imi("remove", "feat-api", "--delete-branch", "--force", cwd=repo.path)
    back = told(preview(repo, "undo"))
    assert "feat-api" in back and str(tree.path) in back and "recreated" in back
    tree.path.mkdir()
    assert refusal_kinds(preview(repo, "undo").refusal) == {"exists"}
    tree.path.rmdir()
    assert refused(repo, "undo") is None
    assert tree.git("rev-parse", "--abbrev-ref", "HEAD") == "feat/api"


def test_preview_of_a_new_worktree(repo: Repo, tree: Repo) -> None:
    new = told(preview(repo, "add", type="feat", name="auth"))
    assert "feat-auth" in new and "feat/auth" in new and "from main" in new
    assert "from HEAD~1" in told(preview(repo, "add", type="fix", name="auth", **{"from": "HEAD~1"}))
    assert "already exists" in told(preview(repo, "add", type="feat", name="api"))
    assert refusal_kinds(preview(repo, "add", type="nope", name="x").refusal) == {"no-type"}
    assert refusal_kinds(preview(repo, "add", type="feat", name="a b").refusal) == {"bad-name"}
    assert refusal_kinds(preview(repo, "add", type="feat", name="x", branch="feat/api").refusal) == {"checked-out"}
    repo.git("branch", "feat/old")
    assert "stays unchanged" in told(preview(repo, "add", type="feat", name="old"))
    clash = repo.path.parent / "app.worktrees" / "feat-old"
    clash.mkdir(parents=True)
    assert refusal_kinds(preview(repo, "add", type="feat", name="old").refusal) == {"path-exists"}
    assert refused(repo, "add", type="feat", name="old") == "path-exists"
    add = actions.find("add")
    assert add is not None
    with Context(str(repo.path)) as context:
        assert add.choices(context, "type") == ["feat", "fix", "aiops", "devops"]


def test_preview_of_merge(repo: Repo, tree: Repo) -> None:
    assert "already merged" in told(preview(repo, "merge", name="feat-api"))
    tree.write("README.md", "theirs\n")
    tree.commit("the readme of [/b]")
    plan = told(preview(repo, "merge", name="feat-api", close=True))
    assert "fast-forward" in plan and "the readme of" in plan and "trash" in plan
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    seen = preview(repo, "merge", name="feat-api")
    assert refusal_kinds(seen.refusal) == {"conflicts"}
    assert seen.refusal is not None and seen.refusal.details == ("README.md",)
    assert refused(repo, "merge", name="feat-api") == "conflicts"


def test_preview_of_rename(repo: Repo, tree: Repo) -> None:
    plan = told(preview(repo, "rename", name="feat-api", new="core"))
    assert "feat-core" in plan and "feat/core" in plan
    assert "keeps its name" in told(preview(repo, "rename", name="feat-api", new="core", keep_branch=True))
    repo.worktree("feat-core")
    assert refusal_kinds(preview(repo, "rename", name="feat-api", new="core").refusal) == {"exists"}


def test_previews_of_prune_repair_and_sync(repo: Repo, tree: Repo) -> None:
    assert "nothing to prune" in told(preview(repo, "prune"))
    assert "nothing to repair" in told(preview(repo, "repair"))
    assert "nothing to sync" in told(preview(repo, "sync"))
    tree.path.rename(tree.path.parent / "elsewhere")
    assert "would repair" in told(preview(repo, "repair"))
    assert "would prune feat-api" in told(preview(repo, "prune"))
    shared = repo.path.parent / "app.worktrees" / "sync" / "repo"
    shared.mkdir(parents=True)
    (shared / "shared.env").write_text("x")
    assert "would link shared.env" in told(preview(repo, "sync"))
    assert not (repo.path / "shared.env").exists()


def test_preview_of_review_uses_no_network(cloned: Repo) -> None:
    plan = told(preview(cloned, "review", pr="123"))
    assert "review-123" in plan and "fetches" in plan
    assert preview(cloned, "review", pr="not a number!").refusal is not None


def test_previews_change_nothing(repo: Repo, tree: Repo, own_home: Path) -> None:
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)
    before = tree_hash(repo.path), tree_hash(tree.path)
    log = imi("--json", "events", cwd=repo.path).out
    for verb, values in (
        ("claim", {"name": "feat-api", "force": True, "reason": "x"}),
        ("release", {"name": "feat-api", "agent": "claude-1"}),
        ("remove", {"name": "feat-api"}),
        ("undo", {}),
        ("add", {"type": "feat", "name": "new"}),
        ("merge", {"name": "feat-api"}),
        ("rename", {"name": "feat-api", "new": "x", "agent": "claude-1"}),
        ("prune", {}),
        ("repair", {}),
        ("sync", {}),
        ("review", {"pr": "1"}),
    ):
        preview(repo, verb, **values)
    assert (tree_hash(repo.path), tree_hash(tree.path)) == before
    assert imi("--json", "events", cwd=repo.path).out == log
