"""`imi feat|fix|aiops|devops NAME` and `imi add TYPE NAME`: what is created, opened, taken over and refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.actions.create_kit import branches, created_events, picture, query, rows, worktree_paths
from tests.helpers import Repo, git, imi


# S2.1 S2.3 S2.5 S2.6 S2.7
def test_a_new_worktree_has_directory_branch_row_event_and_its_path_is_the_last_line(repo: Repo) -> None:
    done = imi("feat", "user-auth", cwd=repo.path)
    path = repo.path.parent / "app.worktrees" / "feat-user-auth"
    assert (done.code, done.out.splitlines()[-1], done.err) == (0, str(path), "")
    assert (path / "src" / "api.py").read_text() == (repo.path / "src" / "api.py").read_text()
    assert branches(repo)["feat/user-auth"] == branches(repo)["main"]
    assert git("status", "--porcelain", "--branch", cwd=path) == "## feat/user-auth"
    assert rows() == [("feat-user-auth", "feat/user-auth", "feat", "main")]
    [(kind, worktree, data)] = query("SELECT type, worktree_name, data FROM events")
    assert (kind, worktree) == ("worktree.created", "feat-user-auth")
    assert json.loads(data)["path"] == str(path)
    assert query("SELECT count(*) FROM operations") == [(0,)]
    assert not list((repo.path / ".git").glob("imi-*"))
    assert not (repo.path / ".git" / "worktrees" / "feat-user-auth" / "locked").exists()


def test_json_describes_the_new_worktree_in_one_object(repo: Repo) -> None:
    made = imi("--json", "feat", "x", cwd=repo.path).data
    path = str(repo.path.parent / "app.worktrees" / "feat-x")
    assert (made["worktree_path"], made["worktree_name"], made["branch"], made["base"]) == (
        path,
        "feat-x",
        "feat/x",
        "main",
    )
    assert (made["created"], made["took_over"], made["repo"]) == (True, None, "app")
    assert "feat-x" in made["message"]
    again = imi("--json", "feat", "x", cwd=repo.path).data
    assert (again["worktree_path"], again["created"], again["branch"], again["base"]) == (path, False, "feat/x", None)


@pytest.mark.parametrize("kind", ["feat", "fix", "aiops", "devops"])
def test_each_built_in_type_has_its_prefixes_and_add_creates_the_same(repo: Repo, kind: str) -> None:
    assert imi(kind, "a", cwd=repo.path).code == 0
    assert imi("add", kind, "b", cwd=repo.path).code == 0
    assert rows() == [(f"{kind}-a", f"{kind}/a", kind, "main"), (f"{kind}-b", f"{kind}/b", kind, "main")]


def test_a_name_that_has_its_prefix_keeps_it_once(repo: Repo) -> None:
    assert imi("feat", "feat-x", cwd=repo.path).code == 0
    assert rows() == [("feat-x", "feat/x", "feat", "main")]


# S2.2
def test_an_existing_worktree_is_opened_and_nothing_is_created_twice(repo: Repo) -> None:
    first = imi("feat", "x", cwd=repo.path)
    path = Path(first.out.splitlines()[-1])
    (path / "mine.txt").write_text("work")
    before = picture(repo)
    second = imi("feat", "x", cwd=repo.path)
    assert second.code == 0
    assert second.out.splitlines() == ["feat-x already exists, on feat/x", str(path)]
    assert (path / "mine.txt").read_text() == "work"
    assert picture(repo) == before


def test_a_worktree_known_only_to_git_is_registered_and_opened(repo: Repo) -> None:
    tree = repo.worktree("feat-x", "topic")
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, done.out.splitlines()[-1]) == (0, str(tree.path))
    assert "is on topic, not on feat/x" in done.err
    assert rows() == [("feat-x", "topic", "feat", None)]
    assert created_events() == ["feat-x"]


def test_the_cluster_gets_siblings_and_its_shared_files(cluster: Repo) -> None:
    home = cluster.path.parent
    (home / "sync" / "repo" / ".env").write_text("SECRET=1\n")
    done = imi("feat", "x", cwd=cluster.path)
    assert (done.code, done.out.splitlines()[-1]) == (0, str(home / "feat-x"))
    link = home / "feat-x" / ".env"  # S2.4 S2.32
    assert (os.readlink(link), link.read_text()) == ("../sync/repo/.env", "SECRET=1\n")
    assert git("status", "--porcelain", cwd=home / "feat-x") == ""


def test_a_tracked_shared_file_is_not_linked_and_is_reported(cluster: Repo) -> None:
    (cluster.path.parent / "sync" / "repo" / "README.md").write_text("shared\n")
    done = imi("feat", "x", cwd=cluster.path)
    assert done.code == 0
    assert "README.md not linked" in done.err
    assert (cluster.path.parent / "feat-x" / "README.md").read_text() == "hello\n"


def test_the_current_folder_does_not_change_where_a_worktree_is_created(repo: Repo, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    assert imi("feat", "a", cwd=repo.path / "src").code == 0
    inside = repo.path.parent / "app.worktrees" / "feat-a" / "src"
    assert imi("feat", "b", cwd=inside).code == 0
    assert imi("--repo", repo.path, "feat", "c", cwd=outside).code == 0
    assert imi("feat", "d", "--repo", "app", cwd=outside).code == 0
    assert imi("feat", "e", "app", cwd=outside).code == 0  # as iMi had it
    refused = imi("feat", "f", cwd=outside)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "is not inside a git repository" in refused.err
    assert [name for name, *_ in rows()] == ["feat-a", "feat-b", "feat-c", "feat-d", "feat-e"]
    assert {os.path.dirname(path) for path in worktree_paths(repo)[1:]} == {str(tmp_path / "app.worktrees")}


# R5: a branch is never deleted, reset or moved
def test_an_existing_branch_is_used_unchanged(repo: Repo) -> None:
    repo.git("switch", "-q", "-c", "feat/x")
    repo.write("work.txt", "three days\n")
    tip = repo.commit("work")
    repo.git("switch", "-q", "main")
    done = imi("--json", "feat", "x", cwd=repo.path).data
    assert (done["took_over"], done["created"], done["branch"]) == ("local", True, "feat/x")
    assert "unchanged" in done["message"]
    assert branches(repo)["feat/x"] == tip
    assert Path(done["worktree_path"], "work.txt").read_text() == "three days\n"


def test_a_branch_that_is_checked_out_elsewhere_is_refused_with_the_place(repo: Repo) -> None:
    tree = repo.worktree("somewhere", "feat/x")
    before = picture(repo)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert f"is checked out in {tree.path}" in done.err
    assert picture(repo) == before
    repo.git("switch", "-q", "-c", "feat/y")
    assert f"is checked out in {repo.path}" in imi("feat", "y", cwd=repo.path).err


def test_a_branch_in_the_middle_of_a_rebase_elsewhere_is_refused(repo: Repo) -> None:
    tree = repo.worktree("somewhere", "feat/x")
    tree.write("src/api.py", "theirs\n")
    tree.commit("theirs")
    repo.write("src/api.py", "ours\n")
    repo.commit("ours")
    tree.git("rebase", "-q", "main", check=False)
    assert f"is checked out in {tree.path}" in imi("feat", "x", cwd=repo.path).err


def test_a_branch_of_the_remote_is_checked_out_and_tracked(cloned: Repo) -> None:
    cloned.git("switch", "-q", "-c", "feat/x")
    tip = _empty_commit(cloned)
    cloned.git("push", "-q", "origin", "feat/x")
    cloned.git("switch", "-q", "main")
    cloned.git("branch", "-q", "-D", "feat/x")
    done = imi("--json", "feat", "x", cwd=cloned.path).data
    assert (done["took_over"], done["base"]) == ("remote", "origin/feat/x")
    assert branches(cloned)["feat/x"] == tip
    assert git("rev-parse", "--abbrev-ref", "@{upstream}", cwd=Path(done["worktree_path"])) == "origin/feat/x"


def _empty_commit(repo: Repo) -> str:
    repo.git("commit", "-q", "--allow-empty", "-m", "empty")
    return repo.git("rev-parse", "HEAD")


def test_a_new_branch_has_no_upstream(cloned: Repo) -> None:
    path = Path(imi("--json", "feat", "x", cwd=cloned.path).data["worktree_path"])
    assert git("for-each-ref", "--format=%(upstream)", "refs/heads/feat/x", cwd=path) == ""


def test_a_branch_name_can_be_given(repo: Repo) -> None:
    assert imi("feat", "x", "--branch", "topic/y", cwd=repo.path).code == 0
    assert rows() == [("feat-x", "topic/y", "feat", "main")]


@pytest.mark.parametrize(
    ("reference", "base"),
    [
        ("dev", "dev"),
        ("main~1", None),
        ("v1", None),
        ("refs/heads/dev", None),
        ("refs/tags/v1", None),
        ("HEAD", None),
        ("short", None),
        ("full", None),
        ("dev^", None),
    ],
)
def test_from_takes_branches_tags_commits_and_steps(repo: Repo, reference: str, base: str | None) -> None:
    first = repo.git("rev-parse", "main~1")
    repo.git("tag", "-a", "v1", "-m", "one", "main~1")
    repo.git("branch", "dev", "main~1")
    repo.git("config", "core.abbrev", "12")
    wanted = {"HEAD": repo.git("rev-parse", "HEAD"), "dev^": None}.get(reference, first)
    asked = {"short": first[:8], "full": first}.get(reference, reference)
    done = imi("--json", "feat", "x", "--from", asked, cwd=repo.path)
    if wanted is None:  # the first commit has no parent
        assert (done.code, "no branch, tag or commit dev^ here" in done.json["error"]) == (1, True)
        return
    assert branches(repo)["feat/x"] == wanted
    assert (done.data["base"], rows()[0][3]) == (asked, base)


def test_from_head_is_the_head_of_the_current_worktree(repo: Repo) -> None:
    tree = repo.worktree("other", "topic")
    tip = _empty_commit(tree)
    assert imi("feat", "x", "--from", "HEAD", cwd=tree.path).code == 0
    assert branches(repo)["feat/x"] == tip


@pytest.mark.parametrize(
    "reference", ["nope", "-f", "--upload-pack=touch x", "main@{1}", "main:README.md", ":/first", "a..b", "", "main~x"]
)
def test_from_refuses_invalid_start_points(repo: Repo, reference: str) -> None:
    before = picture(repo)
    done = imi("feat", "x", f"--from={reference}", cwd=repo.path)
    assert done.code == (1 if reference == "nope" else 2)
    assert (done.err.count("\n"), done.out) == (1, "")
    assert {**picture(repo), "rows": []} == before


def test_from_and_an_existing_branch_contradict_each_other(repo: Repo) -> None:
    repo.git("branch", "feat/x", "main~1")
    before = picture(repo)
    done = imi("feat", "x", "--from", "main", cwd=repo.path)
    assert (done.code, "already exists" in done.err, "--branch" in done.err) == (1, True, True)
    assert picture(repo)["branches"] == before["branches"]


def test_dash_style_and_a_custom_path_template(repo: Repo, own_home: Path, tmp_path: Path) -> None:
    settings = own_home / ".config" / "iMi" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[worktrees]\nbranch_style = "dash"\npath_template = "~/trees/{repo}/{name}"\n')
    done = imi("feat", "x", cwd=repo.path)
    assert done.out.splitlines()[-1] == str(own_home / "trees" / "app" / "feat-x")
    assert rows() == [("feat-x", "feat-x", "feat", "main")]
    for bad in ("{repo}.trees", "trees/{name}/in", "{repo}/.git/{name}", "{name}/{branch}"):
        settings.write_text(f'[worktrees]\npath_template = "{bad}"\n')
        refused = imi("feat", "y", cwd=repo.path)
        assert (refused.code, refused.err.count("\n"), "path_template" in refused.err) == (2, 1, True), bad


def test_the_configured_trunk_wins_and_a_missing_one_is_ignored(repo: Repo, own_home: Path) -> None:
    repo.git("branch", "stable", "main~1")
    settings = own_home / ".config" / "iMi" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[git_settings]\ndefault_branch = "stable"\n')
    assert imi("--json", "feat", "x", cwd=repo.path).data["base"] == "stable"
    settings.write_text('[git_settings]\ndefault_branch = "nowhere"\n')
    assert imi("--json", "feat", "y", cwd=repo.path).data["base"] == "main"


def test_a_main_worktree_on_a_feature_branch_does_not_become_the_trunk(repo: Repo) -> None:
    repo.git("switch", "-q", "-c", "wip")
    _empty_commit(repo)
    imi("feat", "x", cwd=repo.path)
    assert branches(repo)["feat/x"] == branches(repo)["main"]


def test_feat_after_feat_in_a_repository_of_the_same_name_elsewhere(repo: Repo, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "other" / "app")
    one, two = imi("--json", "feat", "x", cwd=repo.path).data, imi("--json", "feat", "x", cwd=other.path).data
    assert (one["repo"], two["repo"]) == ("app", "app@other")
    assert two["worktree_path"] == str(tmp_path / "other" / "app.worktrees" / "feat-x")
    assert two["created"] is True


def test_submodules_are_not_checked_out_and_a_warning_says_so(repo: Repo, tmp_path: Path) -> None:
    library = Repo.create(tmp_path / "lib")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "lib")
    repo.commit("with a submodule")
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "git submodule update --init" in done.err) == (0, True)
    assert list((repo.path.parent / "app.worktrees" / "feat-x" / "lib").iterdir()) == []


def test_post_create_commands_run_when_trusted_and_their_failure_is_reported(repo: Repo, own_home: Path) -> None:
    settings = own_home / ".config" / "iMi" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[repositories.app]\npost_create = ["echo $IMI_WORKTREE > made.txt", "echo oh no; exit 3"]\n')
    untrusted = imi("feat", "x", cwd=repo.path)
    path = repo.path.parent / "app.worktrees" / "feat-x"
    assert (untrusted.code, "is not trusted" in untrusted.err, (path / "made.txt").exists()) == (0, True, False)
    assert imi("trust", cwd=repo.path).code == 0
    trusted = imi("feat", "y", cwd=repo.path)
    path = repo.path.parent / "app.worktrees" / "feat-y"
    assert (trusted.code, "failed with exit status 3" in trusted.err) == (0, True)
    assert (path / "made.txt").read_text() == "feat-y\n"
    assert trusted.out.splitlines()[-1] == str(path)
