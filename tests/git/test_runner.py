"""Running git: its arguments, results and failures, without prompts or locks. # G3 (argv), G4, G5, T4, S2.9"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.git import environment, runner
from imi_monitor.git import spawn as spawning
from imi_monitor.git.runner import Git, git_version
from imi_monitor.model.errors import GitError
from tests.audit_events import at_event
from tests.helpers import ROOT, Repo, git, is_running, wait_for
from tests.limits import join

HOSTILE = [
    "-f",
    "--upload-pack=touch pwned",
    "--output=pwned",
    "-upwned",
    "--exec=touch pwned",
    "--lock",
    "-",
    "--",
    "-c",
    "--git-dir=/tmp",
    "--end-of-options",
    "-C/tmp",
    "a b",
    "a;touch pwned",
    "`touch pwned`",
    "$(touch pwned)",
    "a|b",
    "a\nb",
    "a\tb",
    "'",
    '"',
    "\\",
    "*",
    "?",
    "[a",
    "~",
    "^",
    ":",
    "..",
    "@{-1}",
    "@",
    "HEAD",
    "\udcff\udcfe",
    "\udc9b31m",
    "\u202egnp",
    "\u200b",
    "é",
    "ext::sh -c touch% pwned",
    ":(exclude)*",
    ":/",
    "!",
    "#",
    "%s",
    "a" * 5000,
]


def of(repo: Repo, **options: bool) -> Git:
    return Git(str(repo.path / ".git"), None, str(repo.path), **options)


def linked(repo: Repo, name: str = "feat-a") -> Git:
    tree = repo.worktree(name)
    common = f"{repo.path}/.git"
    return Git(common, f"{common}/worktrees/{name}", str(tree.path))


@pytest.fixture
def tree(repo: Repo) -> Git:
    return linked(repo)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """A git that writes down how it was called."""
    folder, log = tmp_path / "recorder", tmp_path / "calls"
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        f"#!{sys.executable} -I\nimport json, os, sys\n"
        f"fds = sorted(os.listdir('/dev/fd'))\n"
        f"call = dict(argv=sys.argv, env=dict(os.environ), cwd=os.getcwd(), stdin=os.readlink('/proc/self/fd/0'))\n"
        f"open({str(log)!r}, 'a').write(json.dumps(call) + '\\n')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


# --- answers


def test_run_returns_text_lines_and_status(repo: Repo) -> None:
    found = of(repo)
    assert found.text("rev-parse", "HEAD") == repo.git("rev-parse", "HEAD")
    assert found.lines0("ls-files", "-z") == [".gitignore", "README.md", "src/api.py", "src/db.py"]
    assert found.lines0("ls-files", "-z", "--", "nothing") == []
    done = found.run("merge-base", "--is-ancestor", "HEAD", "HEAD~1", ok=(0, 1))
    assert (done.returncode, done.stdout) == (1, b"")
    assert found.text("hash-object", "--stdin", stdin=b"hello\n") == repo.git("rev-parse", "HEAD:README.md")


def test_names_that_are_not_utf8_are_passed_unchanged(repo: Repo) -> None:
    odd = b"odd \xff\xfe\n\x1b[31m name"
    (Path(os.fsdecode(os.fsencode(repo.path) + b"/" + odd))).write_text("x")
    names = of(repo).lines0("ls-files", "-z", "--others", "--", os.fsdecode(odd))
    assert [os.fsencode(name) for name in names] == [odd]
    assert of(repo).run("ls-files", "-z", "--others", "--", odd).stdout == odd + b"\0"


def test_git_at_another_worktree_of_the_repository(repo: Repo) -> None:
    other = linked(repo)
    assert other.text("symbolic-ref", "HEAD") == "refs/heads/feat/a"
    main = other.at(other.common_dir, str(repo.path))
    assert main.text("symbolic-ref", "HEAD") == "refs/heads/main"
    assert not main.trusted
    assert of(repo, trusted=True).at(other.admin_dir, other.work_tree).trusted


def test_git_in_a_bare_repository(cloned: Repo, tmp_path: Path) -> None:
    bare = Git(str(tmp_path / "origin.git"))
    assert bare.text("rev-parse", "main") == cloned.git("rev-parse", "main")
    bare.run("worktree", "add", "-b", "x", str(tmp_path / "x"), "main")
    assert (tmp_path / "x" / "README.md").exists()
    with pytest.raises(GitError, match="work tree"):
        bare.run("status")


def test_without_a_work_tree_the_git_directory_is_not_taken_for_one(repo: Repo) -> None:
    """`git --git-dir=X` alone takes the current directory as work tree: it would see every file as deleted."""
    refs_only = Git(str(repo.path / ".git"))
    assert refs_only.text("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    with pytest.raises(GitError, match="work tree"):
        refs_only.run("status")
    refs_only.run("worktree", "add", "-b", "x", str(repo.path.parent / "x"), "main")
    assert git("status", "--porcelain", cwd=repo.path.parent / "x") == ""


def test_sparse_per_worktree_configuration_and_any_directory_give_what_plain_git_gives(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = linked(repo)
    tree = Path(str(found.work_tree))
    git("sparse-checkout", "set", "src", cwd=tree)
    (tree / "src" / "api.py").write_text("changed\n")
    (tree / "new").write_text("new\n")
    args = ("status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all")
    plain = subprocess.run(["git", *args], cwd=tree, capture_output=True, check=True).stdout
    monkeypatch.chdir("/")
    assert found.run(*args).stdout == plain


def test_lines_need_no_nul_at_the_end(repo: Repo) -> None:
    assert of(repo).lines0("rev-parse", "HEAD") == [repo.git("rev-parse", "HEAD") + "\n"]


def test_git_runs_when_our_own_folder_is_deleted(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert of(repo).text("symbolic-ref", "HEAD") == "refs/heads/main"


def test_git_version_is_read() -> None:
    assert git_version() >= (2, 38, 0)
    assert ".".join(map(str, git_version()[:2])) in git("version", cwd=Path("/"))


@pytest.mark.parametrize(
    ("words", "version"),
    [
        (b"git version 2.39.5 (Apple Git-154)\n", (2, 39, 5)),
        (b"git version 2.55.0.rc1.g1a2b3c4\n", (2, 55, 0)),
        (b"git version 2.55.GIT\n", (2, 55, 0)),
        (b"git version 2.55.1.2.3\n", (2, 55, 1)),
        (b"git version 3\n", (3, 0, 0)),
        (b"git version 1.0\n", (1, 0, 0)),
        (b"git version 0.9.1\n", None),
        (b"git version x.2\n", None),
        (b"git version\n", None),
        (b"git status 2.55\n", None),
        (b"hg version 2.55\n", None),
        (b"busybox\n", None),
        (b"", None),
    ],
)
def test_versions_are_written_in_many_ways(words: bytes, version: tuple[int, int, int] | None) -> None:
    assert runner.parse_version(words) == version


def test_progress_is_reported_by_line_and_sanitised(shim: Callable[[str], Path], repo: Repo) -> None:
    shim(
        r"printf 'Counting: 50%%\rCounting: 100%%\r\nremote: \033[31mred\n' >&2; printf 'to https://me:secret@host/\n' >&2"
    )
    told: list[str] = []
    of(repo).run("status", on_progress=told.append)
    assert told == ["Counting: 50%", "Counting: 100%", "remote: \\x1b[31mred", "to https://***@host/"]


def test_a_line_of_progress_that_comes_in_pieces_is_reported_once(shim: Callable[[str], Path], repo: Repo) -> None:
    shim(r"printf 'Coun' >&2; sleep 0.2; printf 'ting\nnot ended' >&2")
    told: list[str] = []
    of(repo).run("status", on_progress=told.append)
    assert told == ["Counting"]


# --- G3: the arguments and environment of git


READING = """
blame cat-file check-attr check-ignore check-ref-format cherry config diff diff-files diff-index diff-tree for-each-ref log
ls-files ls-tree merge-base merge-tree patch-id rev-list rev-parse show show-ref status symbolic-ref var version
"""


@pytest.mark.parametrize(
    ("verb", "processes"), [(verb, 1) for verb in READING.split()] + [("update-ref", 2), ("gpg", 2)]
)
def test_reading_takes_one_process_and_whatever_may_fire_hooks_is_scanned_first(
    verb: str, processes: int, repo: Repo, count_git: Callable[[], int]
) -> None:
    of(repo).run(verb, "x", ok=tuple(range(256)))
    assert count_git() == processes


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    "verb", ["add", "checkout", "commit", "merge", "read-tree", "reset", "restore", "rm", "stash", "switch", "tag"]
)
def test_commands_that_enter_nested_repositories_disable_their_programs(verb: str, trusted: bool, repo: Repo) -> None:
    inner = Repo.create(repo.path / "inner")
    repo.git("add", "inner")
    inner.git("config", "filter.nested.clean", "evil")
    assert ("filter.nested.clean" in settings_of(of(repo, trusted=trusted), verb)) == (verb != "tag" and not trusted)


def settings_of(found: Git, verb: str) -> list[str]:
    """The keys that the settings of this command override."""
    with at_event("os.posix_spawn", lambda: None, when=lambda _path, argv, _env: verb in argv, once=True) as met:
        found.run(verb, "--no-such-option", ok=tuple(range(256)))
    ((_, _, env),) = met
    return [value for name, value in env.items() if name.startswith("GIT_CONFIG_KEY_")]


def test_a_command_about_worktrees_disables_the_programs_of_each_unless_the_repository_is_trusted(repo: Repo) -> None:
    tree = repo.worktree("feat-a")
    repo.git("config", "extensions.worktreeConfig", "true")
    tree.git("config", "--worktree", "filter.there.clean", "evil")
    for trusted, verb, there in ((False, "worktree", True), (True, "worktree", False), (False, "status", False)):
        found = settings_of(of(repo, trusted=trusted), verb)
        assert ("filter.there.clean" in found) == there, (trusted, verb)
        assert len(found) == len(set(found)), "each once"


@pytest.mark.parametrize("verb", ["fetch", "ls-remote", "push"])
def test_a_remote_with_a_helper_of_its_own_is_refused_until_the_repository_is_trusted(verb: str, cloned: Repo) -> None:
    cloned.git("config", "remote.origin.vcs", "evil")
    assert f"git {verb} is refused" in failure(lambda: of(cloned).run(verb, "origin")).sentence
    assert "is refused" not in failure(lambda: of(cloned, trusted=True).run(verb, "origin")).sentence
    cloned.git("config", "core.sshCommand", "theirs")
    cloned.git("config", "--unset", "remote.origin.vcs")
    with at_event("os.posix_spawn", lambda: None, when=lambda _path, argv, _env: verb in argv, once=False) as met:
        for trusted in (False, True):
            of(cloned, trusted=trusted).run(verb, "--no-such-option", ok=tuple(range(256)))
    assert [env["GIT_SSH_COMMAND"] for _, _, env in met] == ["ssh -o BatchMode=yes", "theirs"]


def test_the_users_own_ssh_command_is_kept_in_a_trusted_repository(
    repo: Repo, recorded: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -i key")
    of(repo, trusted=True).run("diff")
    assert recorded()[-1]["env"]["GIT_SSH_COMMAND"] == "ssh -i key -o BatchMode=yes"


def test_every_call_names_the_repository_and_disables_programs(
    tree: Git, recorded: Callable[[], list[dict[str, Any]]]
) -> None:
    found = tree
    for verb in (*GUARDS, "ls-files", "worktree", "update-ref"):
        found.run(verb, "x")
    calls = [call for call in recorded() if "--show-scope" not in call["argv"]]
    assert len(calls) == len(GUARDS) + 3
    for call in calls:
        argv, env = call["argv"], call["env"]
        assert argv[1:7] == [
            "--no-pager",
            "--no-optional-locks",
            "-C",
            found.work_tree,
            f"--git-dir={found.admin_dir}",
            f"--work-tree={found.work_tree}",
        ]
        assert env["GIT_COMMON_DIR"] == found.common_dir
        assert env["GIT_OPTIONAL_LOCKS"] == env["GIT_TERMINAL_PROMPT"] == "0"
        assert env["GIT_ASKPASS"] == env["SSH_ASKPASS"] == ""
        assert env["GIT_ALLOW_PROTOCOL"] == "https:ssh:git:file"
        assert env["GIT_NO_LAZY_FETCH"] == "1"
        assert "BatchMode=yes" in env["GIT_SSH_COMMAND"]
        assert call["stdin"] == "/dev/null"
    by_verb = {call["argv"][7]: call["argv"][8:] for call in calls}
    assert by_verb == {
        **{verb: [*guards, "x"] for verb, guards in GUARDS.items()},
        **{verb: ["x"] for verb in ("ls-files", "worktree", "update-ref")},
    }


# A second time on purpose: what arguments must switch off.
_PLAIN = ["--no-ext-diff", "--no-textconv"]
GUARDS = {
    "status": ["--ignore-submodules=dirty"],
    "diff": [*_PLAIN, "--ignore-submodules=dirty"],
    "diff-files": [*_PLAIN, "--ignore-submodules=dirty"],
    "diff-index": [*_PLAIN, "--ignore-submodules=dirty"],
    "diff-tree": _PLAIN,
    "log": _PLAIN,
    "show": _PLAIN,
    "format-patch": _PLAIN,
    "blame": ["--no-textconv"],
    "fetch": ["--upload-pack=git-upload-pack", "--no-recurse-submodules"],
    "ls-remote": ["--upload-pack=git-upload-pack"],
    "push": ["--receive-pack=git-receive-pack"],
}


def test_commands_that_fire_hooks_disable_those_the_user_configured_for_every_repository(repo: Repo) -> None:
    repo.git("config", "--global", "hook.mine.command", "./lint.sh")  # git 2.54 and newer would run it

    def disabled(verb: str) -> bool:
        return "hook.mine.enabled" in of(repo)._environment(verb, []).values()

    assert [verb for verb in ("update-ref", "worktree", "merge", "fetch", "push", "status") if not disabled(verb)] == [
        "status"
    ]


def test_a_trusted_repository_has_no_fences_and_still_no_prompts(
    repo: Repo, recorded: Callable[[], list[dict[str, Any]]]
) -> None:
    of(repo, trusted=True).run("diff", "x")
    call = recorded()[-1]
    assert call["argv"][-2:] == ["diff", "x"]
    assert "GIT_ALLOW_PROTOCOL" not in call["env"]
    assert "GIT_NO_LAZY_FETCH" not in call["env"]
    assert "GIT_SSH_COMMAND" not in call["env"]
    assert call["env"]["GIT_OPTIONAL_LOCKS"] == call["env"]["GIT_TERMINAL_PROMPT"] == "0"
    settings = {value for name, value in call["env"].items() if name.startswith("GIT_CONFIG_KEY_")}
    assert "core.fsmonitor" not in settings
    assert "gc.auto" in settings


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_arrive_as_one_argument_and_do_nothing(name: str, repo: Repo) -> None:  # G3
    found = of(repo)
    before = sorted(os.listdir(repo.path))
    (repo.path / "src" / "api.py").write_text("precious\n")
    for args in (
        ("rev-parse", "--verify", "--quiet", "--end-of-options", name),
        ("log", "--format=%H", "--end-of-options", name, "--"),
        ("ls-files", "-z", "--", name),
        ("status", "--porcelain", "--", name),
        ("show", "--end-of-options", name, "--"),
    ):
        found.run(*args, ok=tuple(range(256)))
    with pytest.raises(GitError):
        found.run("fetch", "--", name)
    assert sorted(os.listdir(repo.path)) == before
    assert (repo.path / "src" / "api.py").read_text() == "precious\n"


@pytest.mark.parametrize("first", ["", "-c", "--exec-path=/tmp", "--git-dir=/x"])
def test_options_of_git_itself_are_refused(first: str, repo: Repo) -> None:
    with pytest.raises(ValueError, match="verb"):
        of(repo).run(first, "core.pager=evil", "log")


@pytest.mark.parametrize(
    "args",
    [
        ("gc",),
        ("clean", "-n"),
        ("prune",),
        ("maintenance", "run"),
        ("pull",),
        ("submodule", "update"),
        ("clone", "x"),
        ("worktree", "prune"),
        ("worktree", "remove", "--force", "x"),
        ("worktree", "remove", "-f", "x"),
        ("reset", "--hard"),
        ("checkout", "-f", "main"),
        ("switch", "--discard-changes", "main"),
        ("stash", "drop"),
        ("stash", "clear"),
        ("branch", "-D", "x"),
        ("branch", "-f", "x"),
        ("branch", "--force", "x"),
        ("checkout", "--force", "main"),
        ("push", "-f", "origin"),
        ("push", "--force", "origin"),
        ("push", "--mirror", "origin"),
        ("remote", "update"),
        ("remote", "prune", "origin"),
        ("remote", "show", "origin"),
        ("stash", "pop"),
        ("switch", "-f", "main"),
        ("switch", "--force", "main"),
    ],
)
def test_destructive_commands_are_refused(args: tuple[str, ...], repo: Repo) -> None:  # rules 2, 8
    for trusted in (False, True):
        with pytest.raises(ValueError, match="never"):
            of(repo, trusted=trusted).run(*args)


def test_a_name_after_the_separator_is_no_option(repo: Repo) -> None:
    repo.write("--hard", "x")
    of(repo).run("reset", "--", "--hard")
    with pytest.raises(GitError):
        of(repo).run("worktree", "remove", "--", "prune")


def test_a_nul_byte_in_an_argument_is_an_error(repo: Repo) -> None:
    with pytest.raises(GitError, match="NUL"):
        of(repo).run("log", "--end-of-options", "a\0b", "--")


# --- habits, trusted or not


@pytest.mark.parametrize("trusted", [False, True])
def test_output_has_no_colour(trusted: bool, repo: Repo) -> None:
    for key in ("color.ui", "color.diff", "color.status"):
        repo.git("config", key, "always")
    repo.write("README.md", "other\n")
    assert "\033" in repo.git("diff")
    for args in (("diff",), ("log", "-p"), ("show",), ("status", "--porcelain")):
        assert b"\033" not in of(repo, trusted=trusted).run(*args).stdout


@pytest.mark.parametrize("trusted", [False, True])
def test_git_never_collects_garbage(trusted: bool, repo: Repo) -> None:  # rule 8
    repo.git("config", "gc.autoPackLimit", "1")
    repo.git("config", "gc.autoDetach", "false")
    repo.git("config", "maintenance.strategy", "gc")  # newer versions of git have another one by default
    repo.git("repack", "-q")
    repo.git("checkout", "-q", "-b", "ahead")
    repo.write("more", "more\n")
    ahead = repo.commit("ahead")
    repo.git("repack", "-q")
    repo.git("checkout", "-q", "-b", "again", "main")
    packs = repo.path / ".git" / "objects" / "pack"
    before = sorted(path.name for path in packs.glob("*.pack"))
    assert len(before) == 2
    of(repo, trusted=trusted).run("merge", "--ff-only", ahead)
    assert sorted(path.name for path in packs.glob("*.pack")) == before
    repo.git("checkout", "-q", "main")
    repo.git("merge", "--ff-only", ahead)
    assert len(list(packs.glob("*.pack"))) == 1  # plain git does


# --- failures


def failure(act: Callable[[], object]) -> GitError:
    with pytest.raises(GitError) as caught:
        act()
    return caught.value


def test_an_error_has_the_reason_of_git(repo: Repo) -> None:
    error = failure(lambda: of(repo).run("rev-parse", "--verify", "nothing"))
    assert (error.code, error.returncode) == ("git", 128)
    assert error.sentence == f"git rev-parse in {repo.path} failed: Needed a single revision"
    assert error.stderr == "fatal: Needed a single revision"


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("a hint\nerror: first\nfatal: second\nfatal: third\nlast", "second"),
        ("a hint\nerror: first\nerror: second\nlast", "first"),
        ("a hint\nsays fatal: x\nlast", "last"),
        ("", "exit status 3"),
    ],
)
def test_the_reason_is_the_line_that_names_it(
    stderr: str, reason: str, repo: Repo, shim: Callable[[str], Path]
) -> None:
    shim(f"printf '%s' '{stderr}' >&2; exit 3")
    error = failure(lambda: of(repo).run("status"))
    assert (error.sentence, error.returncode) == (f"git status in {repo.path} failed: {reason}", 3)
    bare = failure(lambda: Git(f"{repo.path}/.git").run("log"))
    assert bare.sentence == f"git log in {repo.path}/.git failed: {reason}"


def test_a_lock_and_a_doubtful_owner_have_codes_of_their_own(repo: Repo, shim: Callable[[str], Path]) -> None:
    (repo.path / ".git" / "index.lock").touch()
    busy = failure(lambda: of(repo).run("add", "-A"))
    assert busy.code == "git-busy" and "index.lock" in busy.sentence
    shim("echo \"fatal: detected dubious ownership in repository at '/x'\" >&2; exit 128")
    assert failure(lambda: of(repo).run("log")).code == "dubious-ownership"


@pytest.mark.parametrize(
    ("options", "code"), [({"timeout": 0.5}, "git-timeout"), ({"cap": 10}, "git-too-much"), ({}, "cancelled")]
)
def test_an_answer_that_was_cut_off_is_an_error_even_if_git_ends_well(
    options: dict[str, Any], code: str, repo: Repo, shim: Callable[[str], Path], tmp_path: Path
) -> None:
    shim(f"trap 'exit 0' TERM; echo more than ten bytes; : >{tmp_path}/said; sleep 60 & wait")
    if code == "cancelled":
        options = {"cancelled": (tmp_path / "said").exists}
    error = failure(lambda: of(repo).run("status", **options))
    assert (error.code, error.returncode) == (code, 0)
    if code == "cancelled":
        (tmp_path / "said").unlink()
        waiting = Git(f"{repo.path}/.git", None, str(repo.path), cancelled=(tmp_path / "said").exists)
        assert failure(lambda: waiting.run("status")).code == "cancelled"
        assert failure(lambda: waiting.at(waiting.admin_dir, str(repo.path)).run("status")).code == "cancelled"


def test_a_call_that_the_system_refuses_is_an_error(repo: Repo) -> None:
    error = failure(lambda: of(repo).run("log", "a" * 10_000_000))
    assert error.sentence.startswith("git log cannot be run: ") and "too long" in error.sentence


_HALF = "fatal: failed to read .git/worktrees/x/commondir: Success"


@pytest.mark.parametrize(
    ("verb", "status", "stderr", "retried"),
    [
        ("worktree", 128, _HALF, True),
        ("worktree", 1, _HALF, True),
        ("worktree", 0, _HALF, False),
        ("status", 128, _HALF, False),
        ("worktree", 128, "fatal: failed to read HEAD", False),
        ("worktree", 128, "fatal: cannot open .git/worktrees/x/commondir: Success", False),
    ],
)
def test_only_a_half_made_worktree_is_waited_for(
    verb: str,
    status: int,
    stderr: str,
    retried: bool,
    repo: Repo,
    shim: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    shim(f"case $* in *' {verb} '*list) echo '{stderr}' >&2; exit {status};; esac")
    of(repo).run(verb, "list", ok=(status,))
    assert waits == ([0.02, 0.05, 0.1, 0.2, 0.4] if retried else [])


def test_a_missing_git_is_an_error(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for act in (lambda: of(repo).run("status"), git_version):
        assert failure(act).code == "git-missing"


def test_a_program_that_is_not_git_is_an_error(repo: Repo, shim: Callable[[str], Path]) -> None:
    shim("echo busybox")
    assert "really git" in failure(git_version).sentence


def test_a_git_that_is_deleted_meanwhile_is_an_error_unless_there_is_another(
    repo: Repo, shim: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shim("exit 0")
    of(repo).run("status")
    (folder / "git").unlink()
    of(repo).run("status")
    monkeypatch.setenv("PATH", str(folder))
    assert failure(lambda: of(repo).run("status")).code == "git-missing"


def test_a_git_that_is_deleted_while_it_is_started_is_an_error(repo: Repo, shim: Callable[[str], Path]) -> None:
    program = shim("exit 0") / "git"
    with at_event("os.posix_spawn", program.unlink) as met:
        error = failure(lambda: of(repo).run("status"))
    assert met and error.code == "git-missing" and "does not exist any more" in error.sentence


def test_a_missing_work_tree(repo: Repo) -> None:
    assert "No such file" in failure(lambda: Git(f"{repo.path}/.git", None, "/gone").run("status")).sentence


def test_a_repository_of_another_user_is_refused(
    repo: Repo, count_git: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:  # rules 26, 29
    """With --git-dir, git itself does not check the owner."""
    if os.geteuid() != 0:
        pytest.skip("needs root to give a repository away")
    os.chown(repo.path / ".git", 12345, 12345)
    os.chown(repo.path, 12345, 12345)
    error = failure(lambda: of(repo).run("status"))
    assert error.code == "dubious-ownership"
    assert error.sentence.startswith(f"{repo.path} belongs to another user")
    assert error.sentence.endswith(f"git config --global --add safe.directory {repo.path}")
    bare = failure(lambda: Git(f"{repo.path}/.git").run("log"))
    assert bare.sentence.endswith(f"git config --global --add safe.directory {repo.path}/.git")
    git("config", "--global", "safe.directory", str(repo.path), cwd=Path("/"))
    of(repo).run("status")
    before = count_git()
    of(repo).run("status")
    assert count_git() == before + 1, "git is asked only once in a while whether it accepts it"
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 31)
    of(repo).run("status")
    assert count_git() == before + 3


def test_a_bare_repository_of_another_user_needs_only_the_users_word(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a repository away")
    git("init", "-q", "--bare", "theirs.git", cwd=tmp_path)
    os.chown(tmp_path / "theirs.git", 12345, 12345)
    theirs = Git(str(tmp_path / "theirs.git"))
    assert failure(lambda: theirs.run("for-each-ref")).code == "dubious-ownership"
    git("config", "--global", "safe.directory", str(tmp_path / "theirs.git"), cwd=Path("/"))
    assert theirs.run("for-each-ref").stdout == b""


@pytest.mark.parametrize(
    "secret",
    [
        "https://me:s3cr3t-value@host.invalid/x",
        "https://s3cr3t-value@host.invalid/x",
        "Authorization: Basic s3cr3t-value",
        "https://host.invalid/x?access_token=s3cr3t-value",
    ],
)
def test_secrets_in_messages_of_git_are_redacted(secret: str, repo: Repo, shim: Callable[[str], Path]) -> None:  # T4
    shim(f"echo \"fatal: unable to access '{secret}': \033]0;title\007\" >&2; exit 128")
    error = failure(lambda: of(repo).run("fetch", "origin"))
    told = f"{error.sentence} {error.stderr} {error.args} {error.__cause__}"
    assert "s3cr3t" not in told
    assert "\033" not in told
    assert "unable to access" in error.sentence


# --- G5: a git that does not behave


def test_a_git_that_sleeps_is_stopped_in_time(repo: Repo, shim: Callable[[str], Path], tmp_path: Path) -> None:  # G5
    shim(f"sleep 60 & echo $! >{tmp_path}/pid; wait")
    error = failure(lambda: of(repo).run("status", timeout=0.5))
    assert error.code == "git-timeout"
    assert error.sentence == f"git status in {repo.path} took longer than 0.5 s and was stopped"
    wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())), 50)  # it would run for 60 s


def test_a_git_that_asks_for_a_password_gets_no_answer_and_does_not_wait(
    repo: Repo, shim: Callable[[str], Path]
) -> None:  # G5
    shim('printf "Password: " >&2; read answer || exit 1; read answer </dev/tty || exit 2')
    assert failure(lambda: of(repo).run("fetch", "origin", timeout=90)).returncode == 1


def test_real_git_and_ssh_do_not_ask(cloned: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # G5
    """An ssh that would ask on the terminal is told not to, and has none."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/args\nread x </dev/tty && exit 0\nexit 255\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    cloned.git("config", "remote.origin.url", "ssh://host.invalid/x")
    assert failure(lambda: of(cloned).run("fetch", "origin", timeout=90)).code == "git"
    assert "BatchMode=yes" in (tmp_path / "args").read_text()


def test_git_can_be_cancelled(repo: Repo, shim: Callable[[str], Path]) -> None:
    shim("sleep 60")
    assert failure(lambda: of(repo).run("status", cancelled=lambda: True)).code == "cancelled"


@pytest.mark.parametrize(
    ("script", "code"),
    [("exec head -c 1073741824 /dev/zero", "git-too-much"), ("exec head -c 300000000 /dev/zero >&2", None)],
)
def test_capped_output_takes_little_memory(
    script: str, code: str | None, repo: Repo, shim: Callable[[str], Path]
) -> None:
    # G5: 1 GB on stdout is cut at the cap, any amount on stderr is thrown away but for its end
    shim(script)
    program = textwrap.dedent(f"""
        import resource, sys, time
        sys.path.insert(0, {str(ROOT)!r})
        from imi_monitor.git.runner import Git
        from imi_monitor.model.errors import GitError
        import imi_monitor.model.redact
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        code = None
        try:
            Git({str(repo.path / ".git")!r}, None, {str(repo.path)!r}).run("log", timeout=15)
        except GitError as error:
            code = error.code
        print(code, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """)
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=60)
    found, megabytes = done.stdout.split()
    assert found == str(code)
    assert int(megabytes) < 50


# --- G4: reading has no side effects


class _Poller(threading.Thread):
    """Asks for the status again and again, as the dashboard does."""

    def __init__(self, found: Git) -> None:
        super().__init__()
        self.found = found
        self.stop = threading.Event()
        self.asked = 0
        self.errors: list[BaseException] = []

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self.found.run("status", "--porcelain=v2", "-z", "--branch")
                self.found.run("diff", "--numstat")
                self.asked += 1
            except GitError as error:
                self.errors.append(error)


def _commit_for(seconds: float, repo: Repo) -> tuple[int, int]:
    """(commands, failed commands) of a user who works beside us."""
    until = time.monotonic() + seconds
    done = failed = 0
    while time.monotonic() < until:
        (repo.path / "src" / "api.py").write_text(f"{done}\n")
        for args in (["add", "-A"], ["commit", "-q", "-m", "x"]):
            ended = subprocess.run(["git", *args], cwd=repo.path, capture_output=True, check=False)
            failed += ended.returncode != 0
            done += 1
    return done, failed


@pytest.mark.parametrize("seconds", [2.5, pytest.param(60, marks=pytest.mark.soak)])
def test_a_user_can_commit_while_we_read(seconds: float, repo: Repo) -> None:  # G4
    pollers = [_Poller(of(repo)) for _ in range(2)]
    for poller in pollers:
        poller.start()
    done, failed = _commit_for(seconds, repo)
    for poller in pollers:
        poller.stop.set()
        join(poller)
    assert failed == 0
    assert done >= 4
    assert [poller.errors for poller in pollers] == [[], []]
    assert min(poller.asked for poller in pollers) >= 4


def test_reading_does_not_write_the_index(repo: Repo) -> None:  # G4
    """A touched but unchanged file is what makes plain `git status` rewrite the index."""
    index = repo.path / ".git" / "index"
    readme = repo.path / "README.md"

    def rewritten_by(look: Callable[[], object]) -> bool:
        os.utime(readme, (1, random.randrange(1, 10**9)))
        before = index.stat()
        look()
        after = index.stat()
        return (before.st_mtime_ns, before.st_ino) != (after.st_mtime_ns, after.st_ino)

    assert rewritten_by(lambda: repo.git("status"))  # the oracle can fail
    for trusted in (False, True):
        found = of(repo, trusted=trusted)
        for args in (
            ("status", "--porcelain"),
            ("diff",),
            ("diff-index", "HEAD"),
            ("ls-files", "-m"),
            ("diff", "HEAD"),
        ):
            assert not rewritten_by(lambda args=args, found=found: found.run(*args))  # type: ignore[misc]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_reading_git_leaves_no_lock(number: int, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:  # G4
    monkeypatch.setattr(spawning, "SIGTERM", number)
    for file in range(300):
        (repo.path / f"file{file}").write_text("x" * file)
    repo.commit("many")
    lock = repo.path / ".git" / "index.lock"
    cut, seconds = 0, 0.004
    for turn in range(120):
        for file in range(0, 300, 7):
            os.utime(repo.path / f"file{file}", (1, turn + 2))
        try:
            of(repo).run("status", "--porcelain", timeout=seconds * random.uniform(0.5, 1.5))
            seconds *= 0.95  # too late: towards the moments in which it does its work
        except GitError as error:
            assert error.code == "git-timeout"
            cut += 1
            seconds *= 1.05
        assert not lock.exists()
    assert cut >= 20, "the kills came too late to prove anything"


def test_a_stopped_writing_git_deletes_its_lock(repo: Repo, tmp_path: Path) -> None:
    """TERM before KILL: git removes index.lock itself."""
    repo.git("config", "filter.slow.clean", "sleep 60")
    (repo.path / ".gitattributes").write_text("*.slow filter=slow\n")
    (repo.path / "a.slow").write_text("x")
    error = failure(lambda: of(repo, trusted=True).run("add", "-A", timeout=1.0))
    assert error.code == "git-timeout"
    assert not (repo.path / ".git" / "index.lock").exists()


# --- cheap


def test_a_question_takes_one_process(cloned: Repo, count_git: Callable[[], int]) -> None:
    found = of(cloned)
    for _ in range(3):
        found.run("status", "--porcelain")
    assert count_git() == 3


def test_running_git_imports_only_imi_and_c_modules() -> None:
    """Importing git.runner and git.dirty pulls in nothing but this house and C modules."""
    script = f"""
import sys
before = set(sys.modules)
sys.path.insert(0, {str(ROOT)!r})
import imi_monitor.git.runner, imi_monitor.git.dirty, imi_monitor.git.spawn, imi_monitor.git.safety
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("imi_monitor")))
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "fcntl", "select"}


def test_a_worktree_command_is_retried_while_another_git_makes_one(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """git lists all worktrees before it does anything to one, and dies of a record that is half written."""
    half = repo.path / ".git" / "worktrees" / "half"
    half.mkdir(parents=True)
    for name, text in (("commondir", ""), ("HEAD", "ref: refs/heads/half\n"), ("gitdir", "/nowhere/.git\n")):
        (half / name).write_text(text)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (half / "commondir").write_text("../..\n")

    monkeypatch.setattr(time, "sleep", sleep)
    common = str(repo.path / ".git")
    assert "/nowhere" in Git(common).text("worktree", "list", "--porcelain")
    assert len(waits) == 2
    (half / "commondir").write_text("")
    with pytest.raises(GitError, match="commondir"):  # it stays like that: told, not waited for
        Git(common).run("worktree", "list", "--porcelain")
    assert len(waits) < 10


# Written down a second time on purpose: a line lost from the tables must be noticed.
_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_ATTR_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
)
_SET = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "https:ssh:git:file",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROXY_COMMAND": "",
}


def test_git_gets_the_users_choices_and_no_other_variable_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_EXTERNAL_DIFF",
        "GIT_TRACE",
        "GIT_CONFIG_PARAMETERS",
        "LANGUAGE",
    )
    for name in (*_KEPT, *dropped, *_SET, "OTHER"):
        monkeypatch.setenv(name, "/the/users")
    env = environment.git_environment([("a.b", "c"), ("d.e", "")])
    assert {name: env.get(name) for name in (*_KEPT, "OTHER")} == dict.fromkeys((*_KEPT, "OTHER"), "/the/users")
    assert {name: env.get(name) for name in _SET} == _SET
    assert not set(dropped) & set(env)
    settings = {name: value for name, value in env.items() if name.startswith("GIT_CONFIG_") and name not in _KEPT}
    assert settings == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "a.b",
        "GIT_CONFIG_VALUE_0": "c",
        "GIT_CONFIG_KEY_1": "d.e",
        "GIT_CONFIG_VALUE_1": "",
    }
