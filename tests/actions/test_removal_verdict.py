"""What counts as a reason, what does not, and how it is said; beside the states of R1."""

from __future__ import annotations

import errno
import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from imi_monitor.actions import worktree_lookup as targets
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import ignored_files, safe_removal
from imi_monitor.model.errors import Refused
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, YES_REALLY, Reason, Verdict
from tests.actions.removal_kit import act, force, remove
from tests.audit_events import at_event, fail
from tests.helpers import Repo, git, imi

VALUABLE = """
    .env .env.local production.env .envrc app.db app.db3 app.sqlite app.sqlite3-wal app.duckdb app.mdb tls.pem tls.key apple.p8
    apple.p12 apple.pfx store.jks store.keystore pass.kdbx mail.gpg mail.asc id_rsa id_ed25519 id_ecdsa.old home.ovpn
    aws-credentials my-secrets .npmrc .pypirc .netrc .pgpass main.tfstate main.tfstate.backup main.tfvars
    service-account-1.json rows.sql rows.dump config.bak merge.orig merge.rej fix.patch study.ipynb Deploy.PEM
"""
MADE_AGAIN_FOLDERS = """
    node_modules bower_components jspm_packages .pnpm-store .yarn .parcel-cache .next .nuxt .svelte-kit .turbo .angular .vite
    .astro .expo .docusaurus .output .vercel .serverless target .venv venv virtualenv __pycache__ __pypackages__ .pytest_cache
    .mypy_cache .ruff_cache .hypothesis .tox .nox .eggs .ipynb_checkpoints htmlcov site-packages build dist _build
    dist-newstyle obj .gradle .cache .ccls-cache .clangd coverage .nyc_output .dart_tool Pods DerivedData .build zig-cache
    .zig-cache zig-out elm-stuff .stack-work .terraform .bundle vendor .direnv CMakeFiles imi.egg-info cmake-build-debug
    bazel-out
"""
MADE_AGAIN_FILES = """
    x.pyc x.pyo x.o x.obj x.a x.so x.dylib x.dll X.class x.tsbuildinfo .x.swp .x.swo .DS_Store Thumbs.db .eslintcache
    .stylelintcache .coverage .coverage.host.1 coverage.xml x.gcda x.gcno tags TAGS x.egg
"""


def verdict(repo: Repo, name: str = "feat-x", *, deep: bool = False) -> Verdict:
    with Context(str(repo.path)) as context:
        return safe_removal.removal_verdict(context, targets.find_worktree(context, name), deep=deep)


def reason(of: Verdict, code: str) -> Reason:
    return next(one for one in of.reasons if one.code == code)


class TestIgnored:
    @pytest.mark.parametrize(
        ("name", "size", "counts"),
        [
            (".env", 3, True),
            (".env.local", 3, True),
            ("deploy.pem", 3, True),
            ("app.db", 3, True),
            ("state.tfstate", 3, True),
            ("my-credentials.txt", 3, True),
            (".env", 0, False),
            ("note.tmp", 1000, False),
            ("results.csv", 1025, True),
            ("results.csv", 1024, False),
            ("logs/run.log", 2000, True),
            ("node_modules/p/big.js", 9000, False),
            ("node_modules/p/key.pem", 9000, False),
            (".venv/lib/x.py", 9000, False),
            ("sub/__pycache__/x.pyc", 9000, False),
            ("target/debug/app", 9000, False),
            (".DS_Store", 6000, False),
            ("x.pyc", 6000, False),
            ("Thumbs.db", 6000, False),
            ("x.egg-info/PKG", 6000, False),
        ],
    )
    def test_by_name_and_size(self, tmp_path: Path, name: str, size: int, counts: bool) -> None:
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(b"x" * size)
        top = name.split("/")[0] + ("/" if "/" in name else "")
        for listed in ([name], [top]):  # git lists a file, or the folder that is ignored as a whole
            assert ignored_files.scan_ignored(str(tmp_path / "t"), listed, []).valuable == ([name] if counts else [])

    def test_a_link_is_no_content(self, tmp_path: Path) -> None:
        (tmp_path / "shared").write_text("x" * 9000)
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / ".env").symlink_to(tmp_path / "shared")
        assert ignored_files.scan_ignored(str(tmp_path / "t"), [".env"], []).valuable == []

    def test_folders_behind_links_are_not_entered(self, tmp_path: Path) -> None:
        """They stay where they are, and may lead round in a circle."""
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / ".env").write_text("TOKEN=1\n")
        (tmp_path / "t" / "data").mkdir(parents=True)
        (tmp_path / "t" / "data" / "out").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "t" / "data" / "round").symlink_to(tmp_path / "t")
        found = ignored_files.scan_ignored(str(tmp_path / "t"), ["data/"], [])
        assert (found.valuable, found.complete) == ([], True)

    def test_folders_that_say_what_they_are(self, tmp_path: Path) -> None:
        for mark in ("CACHEDIR.TAG", "pyvenv.cfg"):
            folder = tmp_path / "t" / mark.lower()
            folder.mkdir(parents=True)
            (folder / mark).write_text("x")
            (folder / "deep" / "er").mkdir(parents=True)
            for name in ("big", "deep/big", "deep/er/big"):
                (folder / name).write_text("x" * 9000)
            assert ignored_files.scan_ignored(str(tmp_path / "t"), [mark.lower() + "/"], []).valuable == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
    def test_what_cannot_be_read_counts(self, tmp_path: Path) -> None:
        (tmp_path / "t" / "closed").mkdir(parents=True, mode=0o000)
        assert ignored_files.scan_ignored(str(tmp_path / "t"), ["closed/"], []).valuable == ["closed/"]

    @pytest.mark.parametrize("where", ["cache", "node_modules/dep", ".venv/src/dep"])
    @pytest.mark.parametrize("bare", [False, True])
    def test_repositories_are_found_everywhere(self, tmp_path: Path, where: str, bare: bool) -> None:
        path = tmp_path / "t" / where / "nested"
        path.mkdir(parents=True)
        git("init", "-q", *(["--bare"] if bare else []), str(path), cwd=tmp_path)
        found = ignored_files.scan_ignored(str(tmp_path / "t"), [where.split("/")[0] + "/"], [])
        assert found.nested == [f"{where}/nested"]

    @pytest.mark.parametrize(
        ("target", "is_worktree"),
        [("../.git/worktrees/other", True), ("../.git/modules/dep", False), ("../separate.git", False)],
    )
    def test_a_worktree_of_another_repository_is_none_of_its_other_kinds(
        self, tmp_path: Path, target: str, is_worktree: bool
    ) -> None:
        """The other repository would lose the worktree; a submodule, or a separate git directory, moves along."""
        nested = tmp_path / "t" / "cache" / "nested"
        nested.mkdir(parents=True)
        (nested / ".git").write_text(f"gitdir: {target}\n")
        found = ignored_files.scan_ignored(str(tmp_path / "t"), ["cache/"], [])
        assert found.foreign == (["cache/nested"] if is_worktree else [])
        assert found.nested == ([] if is_worktree else ["cache/nested"])

    @pytest.mark.parametrize("name", VALUABLE.split())
    def test_each_name_of_value_counts_at_any_size(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("x")
        assert ignored_files.scan_ignored(str(tmp_path), [name], []).valuable == [name]

    def test_what_a_tool_makes_again_does_not_count(self, tmp_path: Path) -> None:
        for name in MADE_AGAIN_FOLDERS.split():
            (tmp_path / name).mkdir()
            (tmp_path / name / "big").write_text("x" * 9000)
            assert ignored_files.scan_ignored(str(tmp_path), [f"{name}/"], []).valuable == [], name
        for name in MADE_AGAIN_FILES.split():
            (tmp_path / name).write_text("x" * 9000)
            assert ignored_files.scan_ignored(str(tmp_path), [name], []).valuable == [], name

    def test_too_many_entries_are_reported(self, tmp_path: Path) -> None:
        (tmp_path / "t" / "many").mkdir(parents=True)
        for number in range(20):
            (tmp_path / "t" / "many" / str(number)).touch()
        found = ignored_files.scan_ignored(str(tmp_path / "t"), ["many/"], [])
        assert found.complete
        assert not ignored_files.scan_ignored(str(tmp_path / "t"), ["many/"], [], limit=10).complete


def test_a_claim_of_the_given_agent_is_no_reason(repo: Repo) -> None:
    """`imi prune` and the dialogs look as the agent they act for, which need not be the caller."""
    repo.worktree("feat-x")
    act("claim", cwd=repo.path, name="feat-x", agent="claude-1")
    with Context(str(repo.path)) as context:
        found = targets.find_worktree(context, "feat-x")
        seen = {
            agent: safe_removal.removal_verdict(context, found, agent=agent).codes()
            for agent in ("claude-1", "gemini-1", None)
        }
    assert {agent: "claimed" in codes for agent, codes in seen.items()} == {
        "claude-1": False,
        "gemini-1": True,
        None: True,
    }


def test_what_became_unsafe_since_the_caller_looked_is_not_removed(repo: Repo) -> None:
    """`imi prune` and `imi merge --close` look first by themselves; the removal looks again, and that is what counts."""
    tree = repo.worktree("feat-x")
    with Context(str(repo.path)) as context:
        found = targets.find_worktree(context, "feat-x")
        assert safe_removal.removal_verdict(context, found).safe
        tree.write("just-now.py", "work\n")
        with pytest.raises(Refused, match="just-now"):
            safe_removal.remove_worktree(context, found, agent="me", how="pruned")
    assert (tree.path / "just-now.py").read_text() == "work\n"


def test_counts_and_the_first_names(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    for number in range(12):
        tree.write(f"new-{number:02}", "x\n")
    found = reason(verdict(repo), "untracked")
    assert (found.count, len(found.names), found.override) == (12, 5, FORCE)
    done = imi("remove", "feat-x", cwd=repo.path)
    assert done.code == 1
    assert "12 untracked files: new-00, new-01, new-02, new-03, new-04 and 7 more" in done.err
    assert "imi remove feat-x --force" in done.err.splitlines()[-1]


def test_names_are_shown_without_their_escapes(repo: Repo) -> None:  # T2
    tree = repo.worktree("feat-x")
    tree.write("a\x1b]0;title\x07b", "x\n")
    done = imi("remove", "feat-x", cwd=repo.path)
    assert "\x1b" not in done.err and "\\x1b]0;title\\x07" in done.err


def test_a_git_that_fails_is_a_reason(repo: Repo) -> None:
    repo.worktree("feat-x")
    (repo.path / ".git" / "worktrees" / "feat-x" / "index").write_bytes(b"corrupt")
    found = verdict(repo)
    assert reason(found, "unknown").override == YES_REALLY
    for overrides in ({}, {"force": True}):
        with pytest.raises(Refused, match="cannot tell what is uncommitted"):
            remove(repo, "feat-x", **overrides)


def test_a_corrupt_index_is_unknown_and_still_comes_back(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    head = tree.git("rev-parse", "HEAD")
    index = repo.path / ".git" / "worktrees" / "feat-x" / "index"
    index.write_bytes(b"DIRC" + b"\0" * 40)
    with pytest.raises(Refused):
        remove(repo, "feat-x", force=True)
    remove(repo, "feat-x", **force("feat-x"))
    repo.git("branch", "-D", "feat/x")
    act("undo", cwd=repo.path)
    assert index.read_bytes() == b"DIRC" + b"\0" * 40
    assert tree.path.is_dir()
    assert repo.git("rev-parse", "feat/x") == head, "the commit is known without the status"


def test_a_head_lock_cannot_be_overridden(repo: Repo) -> None:
    repo.worktree("feat-x")
    (repo.path / ".git" / "worktrees" / "feat-x" / "HEAD.lock").touch()
    with pytest.raises(Refused, match=r"HEAD\.lock exists.*delete that file"):
        remove(repo, "feat-x", **force("feat-x"))


def test_standing_inside(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    with pytest.raises(Refused) as refused:
        act("remove", cwd=tree.path / "src", name="feat-x")
    assert refused.value.code == "inside"
    outcome = act("remove", cwd=tree.path / "src", name="feat-x", force=True)
    assert outcome.path == str(repo.path)


def test_the_shell_that_asks_from_outside_but_stands_inside(repo: Repo) -> None:
    """The agent's own process has its working directory there, though `imi` was started elsewhere."""
    tree = repo.worktree("feat-x")
    done = git("-c", f"alias.run=!cd {repo.path} && python3 -c pass", "run", cwd=tree.path)
    assert done == ""
    import subprocess
    import sys

    from tests.helpers import ROOT

    script = f"cd {repo.path} && exec {sys.executable} -m imi_monitor remove feat-x"
    outer = subprocess.run(
        ["/bin/sh", "-c", f"( {script} ); code=$?; exit $code"],
        cwd=tree.path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert outer.returncode == 1
    assert "your shell, or the program that started imi, is in it" in outer.stderr


def test_presence_lock_of_another_program(cluster: Repo) -> None:
    cluster.worktree("feat-x")
    locks = cluster.path.parent / ".iMi" / "presence"
    locks.mkdir()
    (locks / "feat-x.lock").write_text("yi-agent-7\n")
    with pytest.raises(Refused, match="yi-agent-7 has claimed it, according to its presence lock"):
        remove(cluster, "feat-x", force=True)
    remove(cluster, "feat-x", **force("feat-x"))


def test_the_presence_lock_goes_with_the_worktree(cluster: Repo) -> None:
    cluster.worktree("feat-x")
    lock = cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"
    act("claim", cwd=cluster.path, name="feat-x", agent="claude-1")
    assert lock.exists()
    remove(cluster, "feat-x", agent="claude-1")
    assert not lock.exists()


def test_dry_run_changes_nothing_and_says_the_same(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    outcome = act("remove", cwd=repo.path, name="feat-x", dry_run=True)
    assert outcome.lines[0].startswith("would move feat-x")
    assert tree.path.is_dir() and not (repo.path / ".git" / "imi").exists()
    tree.write("new", "x\n")
    with pytest.raises(Refused):
        act("remove", cwd=repo.path, name="feat-x", dry_run=True)


def test_json_of_a_refusal_and_of_a_removal(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    tree.write("new", "x\n")
    refused = imi("remove", "feat-x", "--json", cwd=repo.path).json
    assert refused["success"] is False and refused["code"] == "untracked"
    assert refused["data"]["reasons"][0] == {
        "code": "untracked",
        "sentence": "1 untracked file",
        "count": 1,
        "names": ["new"],
        "override": "force",
    }
    done = imi("remove", "feat-x", "--force", "--json", cwd=repo.path).data
    assert {"worktree_name", "trash_id", "trash_path", "branch", "message", "trunk_path"} <= set(done)
    assert (done["worktree_name"], done["repo"], done["branch"]) == ("feat-x", "app", "feat/x")


@pytest.mark.parametrize(
    ("found", "force_only", "both"),
    [(NOTE, True, True), (FORCE, True, True), (YES_REALLY, False, True), (NEVER, False, False)],
)
def test_what_overrides_what(found: str, force_only: bool, both: bool) -> None:
    one = Verdict((Reason("x", "x", override=found),))
    assert one.safe == (found == NOTE)
    assert (not one.against(force=True)) == force_only
    assert (not one.against(force=True, yes_really=True)) == both
    assert one.against(yes_really=True) == one.against()
    assert one.strongest == found


def test_a_trash_on_another_file_system_is_refused(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    moving = at_event("os.rename", fail(errno.EXDEV), when=lambda source, *_: source == str(tree.path), once=False)
    with moving as met, pytest.raises(Refused, match="on another file system"):
        remove(repo, "feat-x")
    assert len(met) == 2  # both places for the trash were tried
    assert tree.git("status", "--porcelain") == ""
    assert "locked" not in repo.git("worktree", "list", "--porcelain")


def test_what_pre_remove_has_done_is_looked_at(repo: Repo, own_home: Path) -> None:
    """The repository's own commands run after the verdict, so there is a second one."""
    tree = repo.worktree("feat-x")
    settings = own_home / ".config" / "iMi" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[repositories.app]\npre_remove = "echo backup >made-by-it"\n')
    assert imi("trust", cwd=repo.path).code == 0
    assert imi("list", cwd=repo.path).code == 0
    ran = imi("remove", "feat-x", cwd=repo.path)
    assert (ran.code, "1 untracked file: made-by-it" in ran.err) == (1, True), ran
    (tree.path / "made-by-it").unlink()
    assert imi("remove", "feat-x", "--force", cwd=repo.path).code == 0
    assert imi("undo", cwd=repo.path).code == 0
    assert (tree.path / "made-by-it").read_text() == "backup\n"


def test_too_many_ignored_files_are_no_consent(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repo.worktree("feat-x")
    tree.write(".gitignore", "build/\ndata/\n")
    tree.commit("ignore")
    monkeypatch.setattr(ignored_files, "MOST_ENTRIES", 0)
    tree.write("build/x", "made again\n")
    assert reason(verdict(repo), "ignored-many").override == NOTE
    (tree.path / "data").mkdir()
    (tree.path / "data" / "results").symlink_to("/nowhere")  # worthless, but unchecked
    assert reason(verdict(repo), "ignored-many").override == FORCE
    with pytest.raises(Refused, match="more ignored files than can be checked"):
        remove(repo, "feat-x")
    remove(repo, "feat-x", force=True)


@pytest.mark.parametrize("text", ["*.env .env.* id_rsa* *secret* .npmrc service-account*.json", "a* *a b*b", "x *"])
def test_the_patterns_of_ignored_files_match_as_the_shells(text: str) -> None:
    ours = ignored_files._Patterns(text)
    parts = ["", "a", "b", ".env", ".", "secret", "id_rsa", ".npmrc", "service-account", ".json", "x"]
    names = [one + two + three for one in parts for two in parts for three in parts]
    assert [name for name in names if ours.match(name)] == [
        name for name in names if any(fnmatchcase(name, pattern) for pattern in text.split())
    ]
