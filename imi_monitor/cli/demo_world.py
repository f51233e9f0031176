"""The demonstration: a real repository with worktrees, and simulated agents that edit, commit, claim and collide.

Everything is in one temporary folder with its own registry; no file of the user is read or written.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from imi_monitor import actions
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.cli import demo_agents, demo_program
from imi_monitor.cli.demo_agents import FakeAgent
from imi_monitor.git.layout import discover
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_FILES = {
    "README.md": "# shop\n\nA small shop.\n",
    ".gitignore": "build/\n.env\n",
    "src/api.py": "def list_items():\n    return []\n",
    "src/db.py": "def connect():\n    return None\n",
    "src/app.tsx": "export const App = () => null\n",
    "src/bug.rs": "fn main() {}\n",
    "ci/pipeline.yml": "steps: []\n",
    "docs/guide.md": "# Guide\n",
}
_PROMPTS = ("let people pay", "the list is slow", "make it look like the sketch", "find out why it fails at night")
_COMMANDS = ("pytest -q", "npm test", "cargo test", "make lint")
_ANSWERS = ("Done, all tests pass.", "It is faster now, and there is a test for it.", "I found it: an empty basket.")
_FOLLOWER_SECONDS = 5.0
_STARTED = "let people pay by card: write src/payments.py and run its tests"
_WORKTREES = (("feat", "api"), ("feat", "ui"), ("fix", "bug"), ("devops", "ci"), ("feat", "search"))


# The line that an edit adds, by file extension.
_LINES = {
    ".py": "\n\ndef step_{0}(items):\n    return [item for item in items if item != {0}]",
    ".tsx": "export const Item{0} = () => <li>item {0}</li>",
    ".ts": "export const colour{0} = '#{0:03}'",
    ".rs": "fn step_{0}() -> u32 {{ {0} }}",
    ".md": "- step {0}",
}


@dataclass(frozen=True)
class DemoAgent:
    """One agent: its worktree and its files. Two agents share `src/db.py`, which makes a collision."""

    agent: str
    worktree: str
    files: tuple[str, ...]


DEMO_AGENTS = (
    DemoAgent("claude-1", "feat-api", ("src/api.py", "src/db.py", "src/auth.py")),
    DemoAgent("gemini-2", "feat-ui", ("src/app.tsx", "src/theme.ts", "docs/guide.md")),
    DemoAgent("codex-1", "fix-bug", ("src/bug.rs", "src/db.py", "tests/test_bug.py")),
)


class DemoWorld:
    """A folder with repository, worktrees and registry; `start` simulates agents in it until `stop`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.trunk = os.path.join(folder, "shop", "trunk-main")
        self.database = os.path.join(folder, "registry", "iMi.db")
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._fake_agents: list[FakeAgent] = []
        self._run = ""  # that imi started

    def build(self) -> None:
        """Make the repository, six worktrees beside its trunk, and the first claims."""
        git = create_repository(self.trunk)
        os.makedirs(os.path.join(self.folder, "shop", ".iMi"))
        self._write(self.trunk, _FILES)
        commit_all(git, "start the shop", "ada")
        self._write(self.trunk, {"src/api.py": "def list_items():\n    return ['tea']\n"})
        commit_all(git, "sell tea", "ada")
        self._pull_request(git)
        for kind, name in _WORKTREES:
            self.act(kind, name=name)
        self.act("review", pr="123")
        self._write(os.path.join(self.folder, "shop", "devops-ci"), {"ci/pipeline.yml": "steps: [test]\n"})
        for actor in DEMO_AGENTS:
            self.act("claim", name=actor.worktree, agent=actor.agent)

    def write_file(self, path: str, text: str) -> None:
        """Write a new file outside of the worktrees, then rename it: one change. Its time comes from imi's own clock."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new = os.path.join(self.folder, f"new-{threading.get_ident()}")
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
        os.utime(new, ns=(times.clock(), times.clock()))
        os.replace(new, path)

    def act(self, verb: str, **values: object) -> Outcome:
        """Run one of imi's actions with the demonstration's registry."""
        action = actions.find(verb)
        assert action is not None
        with Context(self.trunk, database=self.database) as context:
            return action.run(context, Request(verb, dict(values)))

    def start(self, pace: float = 1.0, seed: int = 7) -> None:
        """Start the agents, each with a process and session files."""
        home = os.path.join(self.folder, "agents")
        os.environ.update(demo_agents.environment(home))
        for number, simulation in enumerate(self.simulations(seed)):
            fake = demo_agents.FAKE_AGENTS[simulation.actor.agent.partition("-")[0]](
                home, simulation.root, random.Random(seed - number)
            )
            self._fake_agents.append(fake)
            thread = threading.Thread(
                target=simulation.run, args=(pace, self._stop, fake), daemon=True, name=simulation.actor.agent
            )
            self._threads.append(thread)
            thread.start()
        self._start_agent()

    def _start_agent(self) -> None:
        """Let imi start an agent itself: it works for a moment, then asks, and can be answered."""
        programs_dir = os.path.join(self.folder, "bin")
        os.makedirs(programs_dir)
        path = os.path.join(programs_dir, "claude")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{demo_program.__file__}" "$@"\n')
        os.chmod(path, 0o755)
        own = {name: os.path.join(self.folder, name.lower()) for name in ("XDG_STATE_HOME", "XDG_DATA_HOME")}
        os.environ.update({**own, "PATH": f"{programs_dir}{os.pathsep}{os.environ.get('PATH', os.defpath)}"})
        try:
            started = self.act("start", program="claude", prompt=_STARTED, way="task", **{"in": "feat-search"})
        except ImiError:
            return  # a demonstration without it is better than none
        self._run = str(started.data["id"])

    def simulations(self, seed: int = 7) -> list[DemoAgentLife]:
        """One simulation for each agent; the same seed gives the same steps."""
        return [DemoAgentLife(self, actor, random.Random(seed + number)) for number, actor in enumerate(DEMO_AGENTS)]

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
        for fake in self._fake_agents:
            fake.end()
        self._fake_agents.clear()
        if self._run:
            from imi_monitor.runs import follower_process

            with suppress(ImiError):  # the user has stopped it
                self.act("stop", name=self._run)
            follower_process.wait_for_end(self.database, _FOLLOWER_SECONDS)  # it still writes into the folder

    def _pull_request(self, git: Git) -> None:
        """Make a pull request as a forge has it: its head below `refs/pull`, in an origin that is a folder."""
        origin = os.path.join(self.folder, "shop.git")
        create_bare_repository(origin)
        git.run("remote", "add", "origin", origin)
        git.run("push", "--quiet", "origin", "refs/heads/main:refs/heads/main")
        git.run("push", "--quiet", "origin", "refs/heads/main:refs/pull/123/head")
        git.run("fetch", "--quiet", "origin")

    def _write(self, root: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            self.write_file(os.path.join(root, name), text)


class DemoAgentLife:
    """The steps of one agent, until the demonstration stops."""

    def __init__(self, world: DemoWorld, actor: DemoAgent, rng: random.Random) -> None:
        self.actor = actor
        self._world = world
        self._rng = rng
        self.root = os.path.realpath(os.path.join(world.folder, "shop", actor.worktree))
        self._file: str | None = None

    def run(self, pace: float, stop: threading.Event, fake: FakeAgent) -> None:
        for step in self._recorded(fake):
            if stop.wait(pace * self._rng.uniform(0.5, 1.5)):
                return
            try:
                step()
            except (ImiError, OSError):
                continue  # the user removed or claimed its worktree, which the demonstration allows

    def steps(self) -> Iterator[Callable[[], object]]:
        """Endless steps: some edits, a commit, at times a new claim."""
        while True:
            for _ in range(self._rng.randint(2, 5)):
                yield self._edit
            yield self._stage
            yield self._edit
            yield self._commit
            if self._rng.random() < 0.3:
                yield self._release
                yield self._claim

    def _recorded(self, fake: FakeAgent) -> Iterator[Callable[[], object]]:
        """The steps, with the records of the agent's program between them: prompts, tool calls, questions."""
        resting = True
        for step in self.steps():
            if resting:
                yield lambda: fake.prompt(self._rng.choice(_PROMPTS))
            resting = step == self._commit
            if step == self._edit:
                yield lambda: fake.tool("Edit", self._choose())
                yield step
                yield fake.done
            elif step == self._commit:
                yield lambda: fake.tool("Bash", self._rng.choice(_COMMANDS))
                if self._rng.random() < 0.5:
                    yield fake.ask
                    yield from [_nothing] * self._rng.randint(2, 5)
                    yield fake.answered
                yield fake.done
                yield step
                yield lambda: fake.finish(self._rng.choice(_ANSWERS))
                yield from [_nothing] * self._rng.randint(1, 4)
            else:
                yield step

    def _choose(self) -> str:
        self._file = self._rng.choice(self.actor.files)
        return self._file

    def _edit(self) -> None:
        name, self._file = self._file or self._choose(), None
        path = os.path.join(self.root, name)
        if self._rng.random() < 0.1 and os.path.exists(path):
            os.unlink(path)
            return
        before = _read(path)
        line = _LINES.get(os.path.splitext(name)[1], "# step {0}")
        self._world.write_file(path, f"{before}{line.format(self._rng.randint(0, 999))}\n")

    def _stage(self) -> None:
        git = self._git()
        if git is not None:
            git.run("add", "--all", "--", ".")

    def _git(self) -> Git | None:
        """git in the agent's worktree; None when that is gone, so that git does not act on the surrounding one."""
        place = discover(self.root)
        if place is None or place.path != self.root:
            return None
        return Git(place.repository.common_dir, place.admin_dir, place.path)

    def _commit(self) -> None:
        git = self._git()
        if git is not None:
            commit_all(git, f"{self.actor.worktree}: step {self._rng.randint(1, 99)}", self.actor.agent)

    def _release(self) -> None:
        self._world.act("release", **{"name": self.actor.worktree, "agent": self.actor.agent, "dirty-ok": True})

    def _claim(self) -> None:
        self._world.act("claim", name=self.actor.worktree, agent=self.actor.agent)


def _nothing() -> None:
    """A step in which the agent thinks or waits."""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()[-4000:]
    except OSError:
        return ""


def create_repository(path: str, branch: str = "main") -> Git:
    """Make an empty repository at `path`, which must not exist yet."""
    os.makedirs(path)
    common = os.path.join(path, ".git")
    os.makedirs(common)
    git = Git(common, common, path)
    git.run("init", "--quiet", f"--initial-branch={branch}")
    return git


def create_bare_repository(path: str, branch: str = "main") -> Git:
    """Make a bare repository, as a forge has it."""
    os.makedirs(path)
    git = Git(path)
    git.run("init", "--quiet", "--bare", f"--initial-branch={branch}")
    return git


def commit_all(git: Git, message: str, author: str, paths: Sequence[str] = (".",)) -> None:
    """Commit everything below `paths` as `author`, at the time of imi's own clock."""
    identity = [("user.name", author), ("user.email", f"{author}@demo.invalid"), ("commit.gpgSign", "false")]
    git.run("add", "--all", "--", *paths)
    now = f"{times.clock() // 1_000_000_000} +0000"
    moment = {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}
    git.run("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message, settings=identity, env=moment)
