"""The escape suite: an agent tries to get out of each wall that this machine has, and must be able to work inside of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.git import layout
from imi_monitor.model.errors import Refused
from imi_monitor.runs import run_wall, walls
from imi_monitor.runs.run_wall import RunWall
from imi_monitor.runs.walls import agent_state, bubblewrap, landlock_alone
from tests.helpers import ROOT, Repo
from tests.limits import LIMIT
from tests.runs.walls import escapes

PROGRAM = Path(escapes.__file__)
FLAT = {name for name in escapes.ATTEMPTS if "flat" in name}
READS = {"read", "read by ..", "proc root"}
GIT = {".git of the worktree", ".git moved away"}


def find_wall() -> walls.Wall:
    """The wall of this machine. Under CI its absence fails: an escape suite that always skips shows nothing."""
    try:
        return walls.find()
    except Refused as error:
        if os.environ.get("CI"):
            raise AssertionError(error.sentence) from error
        pytest.skip(error.sentence)


# what Landlock alone does not close, as the start and the row say
POINTERS = {*GIT, "commondir", *(name for name in escapes.ATTEMPTS if name.startswith("configuration of the worktree"))}
BEST, ALONE = "the best wall", "Landlock alone"
each_wall = pytest.mark.parametrize("which", [BEST, ALONE])


def wall_named(which: str) -> walls.Wall:
    if which == BEST:
        return find_wall()
    problem = landlock_alone.problem()
    if problem is not None:
        pytest.skip(problem)
    return walls.Wall(walls.LANDLOCK_ALONE, landlock_alone.GAPS)


@dataclass(frozen=True)
class Prison:
    """A person's home folder and repository with secrets in reach, and the worktree of a walled agent."""

    base: Path
    repo: Repo
    tree: Repo
    about: dict[str, Any]
    env: dict[str, str]

    def enter(
        self, level: str, *, git: bool = True, flat: bool = False, workspace: Path | None = None, which: str = BEST
    ) -> Any:
        """Run the attempts inside of the wall; what escaped and what did not work."""
        place = workspace or self.tree.path
        # the folder above a mount is in memory there: what is written into it is lost, and the files outside stay
        lost = {"trunk's files"} if level == walls.STRICT and str(place).startswith("/tmp/") else set()
        allowed = {*lost, *(GIT if flat else FLAT), *(READS if level == walls.WRITE else ())}
        allowed |= POINTERS if which == ALONE and git else set()
        needed = {
            "edit",
            "state",
            "temporary file",
            "network",
            "imi in a login shell",
            *(("commit", "branch", "status", "run folder") if git else ()),
        }
        (place / "about.json").write_text(json.dumps({**self.about, "allowed": [*allowed], "needed": [*needed]}))
        found = layout.discover(str(self.tree.path))
        assert found is not None
        folders = run_wall.linked_folders(found.repository, found.admin_dir) if git else None
        wall = RunWall(
            level, wall_named(which), "claude", sys.executable, folders, "feat/x", (str(PROGRAM.parent),), flat
        )
        wall.protect()
        argv = [os.path.realpath(sys.executable), "-I", "-S", str(PROGRAM), "about.json"]
        run_folder = self.env["IMI_RUN_DIR"] if git else str(place)
        done = subprocess.run(
            wall.command(argv, str(place), run_folder, self.env),
            cwd=place,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert not found["broken"], done.stderr
        return found


@pytest.fixture(params=["below /tmp", "elsewhere"])
def prison(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Prison]:
    base = (
        tmp_path / "b" if request.param == "below /tmp" else Path(tempfile.mkdtemp(dir="/var/tmp", prefix="imi-wall-"))
    )
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        yield _built(base, stack)


def _built(base: Path, stack: contextlib.ExitStack) -> Prison:
    home, outside, run = base / "home", base / "outside", base / "run"
    for folder in (
        home / ".claude",
        home / ".config/iMi",
        home / ".local/state/imi/runs/r",
        outside,
        run / "work_products",
    ):
        folder.mkdir(parents=True)
    for path, text in (
        (home / ".bashrc", "mine\n"),
        (home / ".claude.json", "{}\n"),
        (home / ".claude/settings.json", "{}\n"),
        (home / ".gitconfig", "[user]\n\tname = a\n\temail = a@b\n"),
        (home / ".config/iMi/iMi.db", ""),
        (outside / "secret.txt", escapes.TOKEN),
        (outside / "file.txt", "mine\n"),
    ):
        path.write_text(text)
    repo = Repo.create(base / "app")
    repo.git("config", "extensions.worktreeConfig", "true")
    tree, other = repo.worktree("feat-x"), repo.worktree("feat-y")
    (repo.path / ".git" / "imi").mkdir()
    sockets = {"socket": str(outside / "s"), "home_socket": str(home / ".config" / "s")}
    abstract = f"imi-test-{os.getpid()}-{base.name}"
    for address in (*sockets.values(), f"\0{abstract}"):
        server = stack.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX)))
        server.bind(address)
        server.listen()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = {**inherited, "HOME": str(home), "IMI_RUN_DIR": str(run), "SSH_AUTH_SOCK": sockets["socket"]}
    sleeper = stack.enter_context(subprocess.Popen(["sleep", "60"], env={**env, "IMI_TEST_OUTSIDE": "1"}))
    stack.callback(sleeper.kill)
    git = repo.path / ".git"
    about = {
        **sockets,
        "abstract": abstract,
        "pid": sleeper.pid,
        "home": str(home),
        "folder": str(outside),
        "secret": str(outside / "secret.txt"),
        "file": str(outside / "file.txt"),
        "settings": str(home / ".claude/settings.json"),
        "state": str(home / ".claude"),
        "common_dir": str(git),
        "admin": str(git / "worktrees/feat-x"),
        "other_admin": str(git / "worktrees/feat-y"),
        "other": str(other.path),
        "trunk": str(repo.path),
        "registry": str(home / ".config/iMi/iMi.db"),
        "launch": str(home / ".local/state/imi/runs/r"),
    }
    return Prison(base, repo, tree, about, env)


def _outside(prison: Prison) -> dict[str, bytes]:
    """The content of every file that no agent may change."""
    kept = [prison.base / "home", prison.base / "outside", prison.repo.path, prison.base / "feat-y"]
    skipped = ("/objects/", "/refs/", "/logs/", "/worktrees/feat-x/", "/.claude/projects/session.jsonl")
    files = [path for folder in kept for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files if not any(part in str(path) for part in skipped)}


@each_wall
@pytest.mark.parametrize("level", [walls.WRITE, walls.STRICT])
def test_nothing_gets_out_and_the_work_gets_done(prison: Prison, level: str, which: str) -> None:  # S1.1 S1.16
    before = _outside(prison)
    found = prison.enter(level, which=which)
    assert found["escaped"] == []
    assert found["broken"] == []
    assert found["tried"] >= 38
    assert _outside(prison) == before
    if which == BEST:
        assert prison.tree.git("log", "-1", "--format=%s") == "work behind a wall"
    assert (prison.base / "home/.claude/projects/session.jsonl").exists(), "the agent's own state stays"
    settings = prison.repo.path / ".git/worktrees/feat-x/config.worktree"
    assert which == ALONE or settings.read_text().startswith("# imi"), "it has not changed"
    assert (Path(prison.env["IMI_RUN_DIR"]) / "work_products/report.md").exists()


@each_wall
def test_a_flat_workspace_stays_flat(prison: Prison, which: str) -> None:  # S1.5 S1.16
    place = prison.base / "workspace"
    place.mkdir()
    before = _outside(prison)
    found = prison.enter(walls.STRICT, git=False, flat=True, workspace=place, which=which)
    assert (found["escaped"], found["broken"]) == ([], [])
    assert _outside(prison) == before
    assert all(path.is_file() and not path.is_symlink() for path in place.iterdir())


_OBEYED = {
    "claude": (
        ".claude",
        "settings.json settings.local.json CLAUDE.md hooks/x commands/x.md plugins/x shell-snapshots/x.sh",
    ),
    "codex": (".codex", "config.toml hooks.json AGENTS.md AGENTS.override.md .env prompts/x.md skills/x/SKILL.md"),
    "gemini": (
        ".gemini",
        "settings.json GEMINI.md .env extensions/x policies/x.toml trustedFolders.json history/x/.git/config",
    ),
    "opencode": (".local/share/opencode", "auth.json opencode.db bin/x snapshot/x/config"),
    "copilot": (".copilot", "config.json mcp-config.json agents/x.md"),
}


@pytest.mark.parametrize("level", [walls.WRITE, walls.STRICT])
@pytest.mark.parametrize("agent", agent_state.STATES)
@pytest.mark.parametrize(("exists", "which"), [(False, BEST), (True, BEST), (True, ALONE)])
def test_no_settings_of_an_agent_can_be_made_or_changed(
    tmp_path: Path, agent: str, level: str, exists: bool, which: str
) -> None:
    """What a program obeys later, outside of the wall: new names and those that exist, in every way a file is made."""
    folder, words = _OBEYED[agent]
    names, home = words.split(), tmp_path / "home"
    (home / folder).mkdir(parents=True)
    if exists:
        for name in (*names, "of a later version.json"):
            (home / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (home / folder / name).write_text("mine\n")
    env = {**os.environ, "HOME": str(home)}
    place = tmp_path / "place"
    place.mkdir()
    wall = RunWall(level, wall_named(which), agent, sys.executable, None, None, (str(PROGRAM.parent),))
    python = [os.path.realpath(sys.executable), "-I", "-S", str(PROGRAM)]
    plant = [*python, "plant", str(home / folder), *names, "of a later version.json"]
    argv = wall.command(plant, str(place), str(place), env)  # makes the folder of sessions
    before = _tree(home)
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    assert _tree(home) == before


def _tree(folder: Path) -> dict[str, str]:
    """Everything below the folder: files with their content, links with their target."""
    return {
        str(one): os.readlink(one) if one.is_symlink() else one.read_text() if one.is_file() else ""
        for one in folder.rglob("*")
    }


@each_wall
def test_a_folder_of_programs_shows_nothing_of_what_lies_beside_it(prison: Prison, which: str) -> None:
    """Of /home/bin the programs are shown, and not all of /home, as of a tool's own folder with its libraries."""
    tools, tool = prison.base / "bin", prison.base / "tools/tool-1/bin"
    for folder, text in ((tools, "echo helper"), (tool, f"cat {tool.parent}/lib/words")):
        folder.mkdir(parents=True)
        (folder / folder.parent.name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / folder.parent.name).chmod(0o755)
    (tool.parent / "lib").mkdir()
    (tool.parent / "lib/words").write_text("library\n")
    env = {**prison.env, "PATH": f"{tools}:{tool}:{os.environ['PATH']}"}
    place = prison.base / "place"
    place.mkdir()
    wall = RunWall(walls.STRICT, wall_named(which), "claude", sys.executable, None, None)
    asked = f"{prison.base.name}; tool-1; cat {prison.about['secret']}"
    argv = wall.command(["/bin/sh", "-c", asked], str(place), str(place), env)
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.stdout == "helper\nlibrary\n", done.stderr


@pytest.mark.parametrize("folder", ["/home/bin", "/srv/bin", "/bin"])
def test_a_folder_of_programs_in_a_wide_folder_is_shown_alone(tmp_path: Path, folder: str) -> None:
    enclosure = walls.Enclosure(walls.STRICT, "claude", sys.executable, str(tmp_path))
    wanted = bubblewrap.wanted_programs(enclosure, str(tmp_path), {"PATH": folder})
    assert folder in wanted and os.path.dirname(folder) not in wanted


def test_a_machine_without_a_wall_refuses_and_names_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install bubblewrap" in _why_not_the_best()
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    assert re.search(r"uid map: Permission denied.*AppArmor", _why_not_the_best())


def _why_not_the_best() -> str:
    """What is said where bubblewrap does not work: of the wall instead, or the refusal."""
    try:
        found = walls.find()
    except Refused as error:
        return error.sentence
    assert found.how == walls.LANDLOCK_ALONE
    return found.instead


def test_the_suite_notices_an_escape(prison: Prison) -> None:
    """Without a wall nearly everything succeeds: the attempts are real ones."""
    place = prison.tree.path
    (place / "about.json").write_text(json.dumps({**prison.about, "allowed": [], "needed": []}))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "about.json"],
        cwd=place,
        env={**prison.env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    escaped = set(json.loads(done.stdout)["escaped"])
    never = {"docker", "mount", "memory of others", "write in the home folder", "other worktree's git folder"}
    assert set(escapes.ATTEMPTS) - escaped - never <= {
        "hard link",
        "move in",
        "delete",
        "write by ..",
        "link",
        "commondir",
    }
