"""No program of a worktree is run by its name, whatever PATH says."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from imi_monitor import host, programs
from imi_monitor.forges import github_cli
from imi_monitor.forges.forge_program import ForgeUnavailable
from imi_monitor.git import layout
from imi_monitor.git.environment import git_environment, git_path, users_ssh
from imi_monitor.git.runner import Git
from imi_monitor.model import pull_request
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.remote_address import parse_address
from imi_monitor.mux import multiplexer, tmux, zellij
from imi_monitor.sources.files.watchfiles_watcher import WatchfilesWatcher
from imi_monitor.ui import command_conditions, editor, menu_entries, pull_request_page
from imi_monitor.ui.handlers import worktree_commands
from tests.audit_events import at_event
from tests.helpers import ROOT, Repo, git, imi
from tests.limits import LIMIT
from tests.sources.source_kit import until
from tests.ui import snapshot_builder

NAMES = (
    "git",
    "gh",
    "tmux",
    "zellij",
    "lazygit",
    "tig",
    "claude",
    "codex",
    "gemini",
    "copilot",
    "opencode",
    "amp",
    "vi",
    "xdg-open",
    "open",
    "zsh",
    "sh",
    "bash",
    "env",
    "ps",
    "lsof",
    "sysctl",
    "stty",
    "node",
    "ssh",
    "git-status",
    "python",
    "python3",
    "printf",
    "cat",
    "sleep",
)
GOOD = ("gh", "tmux", "zellij", "lazygit", "claude", "vi", "xdg-open", "zsh", "ps", "lsof", "sysctl")


def make_programs(folder: Path, log: Path, names: tuple[str, ...] = NAMES) -> None:
    """Make programs that write their names into the log."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {name} >> {log}\n")
        program.chmod(0o755)


def read_log(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


class Planted:
    """A repository whose worktrees have a program of every name, and PATH with an entry that leads to them."""

    def __init__(self, repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repo, self.feature = repo, repo.worktree("feat-one")
        self.log, self.good_log = home.parent / "planted", home.parent / "good"
        self._patch, self._home = monkeypatch, home
        make_programs(self.feature.path, self.log)
        make_programs(self.feature.path / "bin", self.log)
        make_programs(repo.path / ".venv" / "bin", self.log)
        make_programs(home / "good", self.good_log, GOOD)
        monkeypatch.setenv("PATH", f"{home / 'good'}:{os.environ['PATH']}")
        layout.discover(str(repo.path))

    def put_first(self, kind: str) -> None:
        """Put an entry of this kind before the others, and go into the worktree."""
        self._patch.setenv("PATH", f"{self._entry(kind)}:{os.environ['PATH']}")
        self._patch.chdir(self.feature.path)

    def _entry(self, kind: str) -> str:
        inside, own = self.feature.path / "bin", self._home / "bin"
        if kind == "link":
            own.symlink_to(inside)
        elif kind == "relative link":
            own.symlink_to(os.path.relpath(inside, own.parent))
        elif kind == "link over a link":
            (self.feature.path / "hop").symlink_to(self._home / "elsewhere")
            own.symlink_to(self.feature.path / "hop")
            make_programs(self._home / "elsewhere", self.log)
        elif kind == "links to programs":
            own.mkdir()
            for name in NAMES:
                (own / name).symlink_to(inside / name)
        return {
            "dot": ".",
            "empty": "",
            "relative": "bin/../bin",
            "up": "../feat-one/bin",
            "absolute": str(inside),
            "main": str(self.repo.path / ".venv" / "bin"),
            "git directory": str(self.repo.path / ".git" / "bin"),
            "dots": f"{self._home}/../{inside.relative_to(self._home.parent)}",
        }.get(kind, str(own))


KINDS = (
    "dot",
    "empty",
    "relative",
    "up",
    "absolute",
    "main",
    "dots",
    "link",
    "relative link",
    "link over a link",
    "links to programs",
)


@pytest.fixture
def planted(repo: Repo, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    command_conditions.git_screen.cache_clear()
    return Planted(repo, own_home, monkeypatch)


# -- the lookup ---------------------------------------------------------------------------------------------------------


def test_the_folder_of_a_bare_repository_is_no_place_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q", "--bare", str(tmp_path / "bare.git"), cwd=tmp_path)
    make_programs(tmp_path / "bare.git" / "hooks", tmp_path / "log", ("claude",))
    monkeypatch.setenv("PATH", f"{tmp_path}/bare.git/hooks")
    assert programs.find("claude") == f"{tmp_path}/bare.git/hooks/claude"
    layout.discover(str(tmp_path / "bare.git"))
    assert programs.find("claude") is None


def test_the_environment_of_a_program_is_the_given_one_with_a_safe_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    assert programs.environment({"THEIRS": "2", "PATH": "bin:/usr/bin:.:/bin"}) == {
        "THEIRS": "2",
        "PATH": "/usr/bin:/bin",
    }
    assert programs.environment({}) == {"PATH": os.defpath}
    assert (programs.environment()["OURS"], programs.users_environment()["OURS"]) == ("1", "1")


def test_a_worktree_that_git_is_just_making_is_passed_by(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record has no path yet, or one that cannot be read."""
    for name in ("without", "unreadable"):
        (repo.path / ".git" / "worktrees" / name).mkdir(parents=True)
    (repo.path / ".git" / "worktrees" / "unreadable" / "gitdir").mkdir()
    make_programs(repo.path / "bin", repo.path / "log", ("claude",))
    monkeypatch.setenv("PATH", f"{repo.path}/bin")
    layout.discover(str(repo.path))
    assert programs.find("claude") is None


def test_what_is_no_program_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the name, and a file that may not be run, in earlier entries of PATH."""
    for name in ("folder", "text", "good"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "claude").mkdir()
    (tmp_path / "text" / "claude").write_text("notes\n")
    make_programs(tmp_path / "good", tmp_path / "log", ("claude",))
    monkeypatch.setenv("PATH", f"{tmp_path}/folder:{tmp_path}/text")
    assert programs.find("claude") is None
    assert programs.why_missing("claude") == "is not installed, or not in PATH"
    monkeypatch.setenv("PATH", f"{tmp_path}/folder:{tmp_path}/text:{tmp_path}/good")
    assert programs.find("claude") == str(tmp_path / "good" / "claude")


@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_path_inside_a_worktree_are_ignored(kind: str, planted: Planted, own_home: Path) -> None:
    before = os.environ["PATH"]
    planted.put_first(kind)
    assert programs.find("claude") == str(own_home / "good" / "claude")
    assert programs.find("codex") is None
    if kind != "links to programs":
        assert programs.search_path() == programs.environment()["PATH"] == before


def test_a_program_inside_a_worktree_is_named_as_the_reason(planted: Planted) -> None:
    assert programs.why_missing("codex") == "is not installed, or not in PATH"
    planted.put_first("absolute")
    assert f"is inside a worktree ({planted.feature.path}/bin/codex)" in programs.why_missing("codex")
    inside = str(planted.feature.path / "bin" / "codex")
    assert programs.find(inside) is None and "is inside a worktree" in programs.why_missing(inside)
    assert programs.find("bin/codex") is None and "relative path" in programs.why_missing("bin/codex")
    assert programs.find("") is None


def test_a_program_that_is_nowhere_is_not_installed_whatever_its_name_looks_like() -> None:
    for name in ("/no/such/program", "no-such-program"):
        assert programs.find(name) is None and programs.why_missing(name) == "is not installed, or not in PATH"


def test_worktrees_of_all_open_repositories_count(planted: Planted, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "other")
    make_programs(other.path / "bin", planted.log)
    assert programs.find("codex", str(other.path / "bin")) is not None
    layout.discover(str(other.path))
    for folder in (other.path, planted.feature.path):
        assert programs.find("codex", str(folder / "bin")) is None
        assert not programs.is_outside(str(folder)) and programs.is_outside(f"{folder}-not")


def test_a_main_worktree_counts_however_its_repository_was_opened_later(tmp_path: Path) -> None:
    programs.avoid_repository(f"{tmp_path}/git", f"{tmp_path}/main")
    programs.avoid_repository(f"{tmp_path}/git", None)
    assert not programs.is_outside(f"{tmp_path}/main/bin/x") and not programs.is_outside(f"{tmp_path}/git/hooks/x")
    programs.avoid_worktrees(f"{tmp_path}/unknown", [f"{tmp_path}/there"])
    assert programs.is_outside(f"{tmp_path}/there/bin/x"), "nobody has opened it"


@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}/.", "{}/bin/..", "{}-link"])
def test_a_worktree_counts_however_git_has_recorded_its_path(spelling: str, tmp_path: Path) -> None:
    (tmp_path / "tree" / "bin").mkdir(parents=True)
    (tmp_path / "tree-link").symlink_to("tree")
    programs.avoid_repository(f"{tmp_path}/git", None)
    assert programs.is_outside(str(tmp_path / "tree" / "bin" / "x")), "git has recorded none"
    programs.avoid_worktrees(f"{tmp_path}/git", [spelling.format(tmp_path / "tree")])
    assert not programs.is_outside(str(tmp_path / "tree" / "bin" / "x"))
    assert programs.is_outside(str(tmp_path / "x"))


def test_programs_of_the_system_are_found_even_if_its_folder_is_a_worktree() -> None:
    programs.avoid_repository("/usr/.git", "/usr")
    assert programs.find("git", "/usr/bin") == "/usr/bin/git"
    assert not programs.is_outside("/usr/share/x") and not programs.is_outside("bin") and not programs.is_outside("")


@pytest.mark.parametrize(("links", "outside"), [(40, True), (41, False)])
def test_as_many_links_are_followed_as_the_kernel_follows(links: int, outside: bool, tmp_path: Path) -> None:
    (tmp_path / "0").write_text("")
    for number in range(links):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    last = tmp_path / str(links)
    assert (programs.is_outside(str(last)), last.exists()) == (outside, outside)


def test_a_record_of_a_worktree_that_is_a_pipe_blocks_nothing(repo: Repo) -> None:
    for name, make in (("pipe", os.mkfifo), ("folder", os.mkdir)):
        (repo.path / ".git" / "worktrees" / name).mkdir(parents=True)
        make(repo.path / ".git" / "worktrees" / name / "gitdir")
    before = len(os.listdir("/dev/fd"))
    layout.discover(str(repo.path))
    assert not programs.is_outside(str(repo.path / "bin"))
    assert len(os.listdir("/dev/fd")) <= before


def test_the_list_of_worktrees_is_read_once_and_path_is_searched_once(planted: Planted) -> None:
    assert programs.search_path() is programs.search_path()
    (planted.repo.path / "bin").mkdir()
    with at_event("os.listdir", lambda: None, once=False) as read:
        programs.find("codex", str(planted.feature.path / "bin"))
    assert read == []


def test_our_own_program_is_the_one_beside_our_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert programs.own_program() is None
    (tmp_path / "imi").touch()
    assert programs.own_program() == str(tmp_path / "imi")


def test_a_worktree_that_is_new_or_moved_counts_at_once(planted: Planted, tmp_path: Path) -> None:
    later = tmp_path / "feat-two"
    assert programs.find("codex", str(planted.feature.path / "bin")) is None
    path = f"{later}/bin:{tmp_path}/moved/bin:{os.environ['PATH']}"
    assert planted.repo.worktree("feat-two").path == later
    make_programs(later / "bin", planted.log)
    assert programs.find("codex", path) is None
    planted.repo.git("worktree", "move", str(later), str(tmp_path / "moved"))
    layout.linked_worktrees(str(planted.repo.path / ".git"))  # as a dashboard does after an event of git's files
    assert programs.find("codex", path) is None


def test_a_worktree_without_its_git_file_still_counts(planted: Planted) -> None:
    (planted.feature.path / ".git").unlink()
    planted.put_first("absolute")
    assert programs.find("codex") is None


def test_programs_of_a_repository_that_is_not_open_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools such as nvm, pyenv and Homebrew are git repositories themselves."""
    git("init", "-q", str(tmp_path / "nvm"), cwd=tmp_path)
    make_programs(tmp_path / "nvm" / "bin", tmp_path / "log", ("codex",))
    monkeypatch.setenv("PATH", f"{tmp_path / 'nvm' / 'bin'}:{os.environ['PATH']}")
    assert programs.find("codex") == str(tmp_path / "nvm" / "bin" / "codex")


def test_a_repository_of_the_home_folder_keeps_its_programs(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", cwd=own_home)
    layout.discover(str(own_home))
    make_programs(own_home / "bin", own_home / "log", ("codex",))
    monkeypatch.setenv("PATH", f"{own_home / 'bin'}:{os.environ['PATH']}")
    assert programs.find("codex") == str(own_home / "bin" / "codex")


def test_a_loop_of_links_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not programs.is_outside(str(tmp_path / "a" / "git"))
    assert programs.find(str(tmp_path / "a")) is None


def test_a_path_without_a_usable_entry_means_the_default_of_the_system(planted: Planted) -> None:
    planted.put_first("dot")
    assert programs.find("git", ".") in ("/bin/git", "/usr/bin/git")
    assert programs.search_path(".:") == os.defpath
    assert programs.search_path(str(planted.feature.path)) == os.defpath


def test_what_is_opened_for_the_user_keeps_absolute_entries(planted: Planted) -> None:
    planted.put_first("absolute")
    kept = os.environ["PATH"]
    os.environ["PATH"] = f".:{kept}:"
    assert programs.users_environment()["PATH"] == kept


def test_gits_own_folder_of_programs_is_not_taken_from_a_worktree(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (".", str(planted.feature.path)):
        monkeypatch.setenv("GIT_EXEC_PATH", value)
        monkeypatch.setenv("GIT_SSH", f"{value}/ssh")
        assert "GIT_EXEC_PATH" not in git_environment([])
        assert users_ssh() == ""
    monkeypatch.setenv("GIT_EXEC_PATH", "/usr/lib/git-core")
    assert git_environment([])["GIT_EXEC_PATH"] == "/usr/lib/git-core"


# -- the places that run programs ---------------------------------------------------------------------------------------

Place = Callable[[Planted, pytest.MonkeyPatch], object]


def _git(planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    common = str(planted.repo.path / ".git")
    Git(common, f"{common}/worktrees/feat-one", str(planted.feature.path)).run("status")


def _gh(_planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    with suppress(ForgeUnavailable):
        github_cli.view_pull_request(parse_address("https://github.com/a/b"), pull_request.parse("5"))


def _tmux_panes(_planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    tmux.list_panes("/no/socket", os.environ)


def _tmux_window(planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    multiplexer.open_worktree("tmux", str(planted.feature.path), "feat-one")


def _zellij_panes(_planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    zellij.ZellijPanes()._read_titles(os.environ)


def _zellij_tab(planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="gives no answer"):  # this one prints nothing
        multiplexer.open_worktree("zellij", str(planted.feature.path), "feat-one")


def _editor(planted: Planted, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("EDITOR", "vi")
    subprocess.run(editor.command(str(planted.repo.path), "README.md"), check=True)


def _shell(planted: Planted, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("SHELL", "zsh")
    assert worktree_commands.run_here(str(planted.feature.path)) == ""


def _git_screen(planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    screen = command_conditions.git_screen()
    assert worktree_commands.run_here(str(planted.feature.path), (screen,)) == ""


def _agent(planted: Planted, _patch: pytest.MonkeyPatch) -> None:
    way = menu_entries.open_ways(snapshot_builder.tree("feat-one"), "")["claude"]
    assert worktree_commands.run_here(str(planted.feature.path), way.command) == ""


def _browser(_planted: Planted, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("DISPLAY", ":0")
    patch.delenv("BROWSER", raising=False)
    assert pull_request_page.browse("https://example.org/")


def _own_browser(_planted: Planted, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("BROWSER", "xdg-open")
    assert pull_request_page.browse("https://example.org/")


def _processes(planted: Planted, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(host, "_LINUX", False)
    host.processes_inside(str(planted.feature.path))
    host.parent_pid(os.getpid())
    host._read_boot()


PLACES: dict[Place, tuple[str, ...]] = {
    _git: (),
    _gh: ("gh",),
    _tmux_panes: ("tmux",),
    _tmux_window: ("tmux",),
    _zellij_panes: ("zellij",),
    _zellij_tab: ("zellij",),
    _editor: ("vi",),
    _shell: ("zsh",),
    _git_screen: ("lazygit",),
    _agent: ("claude",),
    _browser: ("xdg-open",),
    _own_browser: ("xdg-open",),
    _processes: ("lsof", "ps", "sysctl"),
}


@pytest.mark.parametrize("kind", ["dot", "absolute", "links to programs"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__.strip("_"))
def test_each_place_runs_the_program_outside_of_the_worktree(  # G2
    place: Place, kind: str, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.put_first(kind)
    place(planted, monkeypatch)
    assert read_log(planted.log) == []
    assert set(read_log(planted.good_log)) == set(PLACES[place])


VERBS = (
    "status",
    "list",
    "log",
    "diff",
    "trunk",
    "doctor",
    "hooks",
    "hooks install --dry-run",
    "agents",
    "sessions",
    "claim feat-one",
    "go feat-one",
    "stats",
    "collisions",
    "review 5",
    "status --json",
)


@pytest.mark.parametrize("kind", ["dot", "empty", "absolute", "main"])
def test_no_command_runs_a_program_of_the_worktree(kind: str, planted: Planted, own_home: Path) -> None:
    (own_home / ".claude").mkdir()
    planted.repo.git("remote", "add", "origin", "https://github.invalid/a/b")
    planted.put_first(kind)
    for verb in VERBS:
        imi(*verb.split(), cwd=planted.feature.path)
        assert (verb, read_log(planted.log)) == (verb, [])
    assert "claude" in read_log(planted.good_log)


@pytest.mark.parametrize("verb", ["doctor", "hooks install --dry-run"])
def test_verbs_that_need_no_repository_avoid_the_registered_ones(
    verb: str, planted: Planted, own_home: Path, tmp_path: Path
) -> None:
    (own_home / ".claude").mkdir()
    imi("claim", "feat-one", cwd=planted.repo.path)
    planted.put_first("absolute")
    imi(*verb.split(), cwd=tmp_path)
    assert read_log(planted.log) == []


def test_gitpython_is_imported_with_our_git(planted: Planted) -> None:
    """It runs `git version` while it is imported."""
    planted.put_first("dot")
    code = "import sys; from imi_monitor.git.gitpython_commits import recent_commits; print(len(recent_commits(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(planted.repo.path / ".git")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2\n"
    assert read_log(planted.log) == []


def test_the_watcher_process_imports_no_module_of_the_worktree(planted: Planted) -> None:
    planted.put_first("dot")
    for name in ("struct", "marshal", "watchfiles", "threading", "sitecustomize"):
        (planted.feature.path / f"{name}.py").write_text(f"open({str(planted.log)!r}, 'a').write('{name} ')\n")

    async def start() -> None:
        watcher = WatchfilesWatcher()
        await watcher.start()
        try:
            await until(lambda: watcher._process is not None and watcher._process.pid, LIMIT)
            assert watcher._process is not None
            cwd = f"/proc/{watcher._process.pid}/cwd"
            await until(lambda: os.path.exists(cwd) and os.readlink(cwd) == "/", 90)
            await asyncio.sleep(0.5)
        finally:
            await watcher.close()

    asyncio.run(start())
    assert read_log(planted.log) == []


def test_a_git_inside_a_worktree_is_named_in_the_error(planted: Planted) -> None:
    os.environ["PATH"] = str(planted.feature.path / "bin")
    with pytest.raises(GitError, match=r"git is inside a worktree .* install git"):
        git_path()


def test_a_missing_multiplexer_is_refused_with_the_reason(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(planted.feature.path / "bin"))
    with pytest.raises(Refused, match=r"zellij is inside a worktree"):
        multiplexer.open_worktree("zellij", str(planted.feature.path), "feat-one")
