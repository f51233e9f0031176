"""The demonstration's world: a real repository with real worktrees, and agents that really edit, commit, claim, collide.

Everything lies in one folder of its own with a registry of its own; nothing of the user's is read or written.

Making history: a new repository and commits in it. For the demonstration, never in somebody's repository.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from imi_monitor import actions
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.cli import demo_agents
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
_WORKTREES = (("feat", "api"), ("feat", "ui"), ("fix", "bug"), ("devops", "ci"), ("feat", "search"))


# What is written into a file, by its ending.
_LINES = {
    ".py": "\n\ndef step_{0}(items):\n    return [item for item in items if item != {0}]",
    ".tsx": "export const Item{0} = () => <li>item {0}</li>",
    ".ts": "export const colour{0} = '#{0:03}'",
    ".rs": "fn step_{0}() -> u32 {{ {0} }}",
    ".md": "- step {0}",
}


@dataclass(frozen=True)
class DemoAgent:
    """One agent: its worktree and the files it works on. `src/db.py` is everybody's, so they get into each other's way."""

    agent: str
    worktree: str
    files: tuple[str, ...]


DEMO_AGENTS = (
    DemoAgent("claude-1", "feat-api", ("src/api.py", "src/db.py", "src/auth.py")),
    DemoAgent("gemini-2", "feat-ui", ("src/app.tsx", "src/theme.ts", "docs/guide.md")),
    DemoAgent("codex-1", "fix-bug", ("src/bug.rs", "src/db.py", "tests/test_bug.py")),
)


class DemoWorld:
    """A folder, built once; `act` lets the agents live in it until told to stop."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.trunk = os.path.join(folder, "shop", "trunk-main")
        self.database = os.path.join(folder, "registry", "iMi.db")
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._pens: list[FakeAgent] = []

    def build(self) -> None:
        """The repository, six worktrees beside its trunk, and the first claims."""
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

    def act(self, verb: str, **values: object) -> Outcome:
        """One of imi's own actions, in this world."""
        action = actions.find(verb)
        assert action is not None
        with Context(self.trunk, database=self.database) as context:
            return action.run(context, Request(verb, dict(values)))

    def start(self, pace: float = 1.0, seed: int = 7) -> None:
        """Let the agents live, each as a program with its own records."""
        home = os.path.join(self.folder, "agents")
        os.environ.update(demo_agents.environment(home))
        for number, life in enumerate(self.lives(seed)):
            pen = demo_agents.FAKE_AGENTS[life.actor.agent.partition("-")[0]](
                home, life.root, random.Random(seed - number)
            )
            self._pens.append(pen)
            thread = threading.Thread(target=life.run, args=(pace, self._stop, pen), daemon=True, name=life.actor.agent)
            self._threads.append(thread)
            thread.start()

    def lives(self, seed: int = 7) -> list[DemoAgentLife]:
        """Of each agent; the same for the same seed, as long as nobody interferes."""
        return [DemoAgentLife(self, actor, random.Random(seed + number)) for number, actor in enumerate(DEMO_AGENTS)]

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
        for pen in self._pens:
            pen.end()
        self._pens.clear()

    def _pull_request(self, git: Git) -> None:
        """What a forge would have: a pull request's head under `refs/pull`, in an origin that is a folder."""
        origin = os.path.join(self.folder, "shop.git")
        create_bare_repository(origin)
        git.run("remote", "add", "origin", origin)
        git.run("push", "--quiet", "origin", "refs/heads/main:refs/heads/main")
        git.run("push", "--quiet", "origin", "refs/heads/main:refs/pull/123/head")
        git.run("fetch", "--quiet", "origin")

    def _write(self, root: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            write(os.path.join(root, name), text)


class DemoAgentLife:
    """What one agent does, step by step, until the world stops."""

    def __init__(self, world: DemoWorld, actor: DemoAgent, rng: random.Random) -> None:
        self.actor = actor
        self._world = world
        self._rng = rng
        self.root = os.path.realpath(os.path.join(world.folder, "shop", actor.worktree))
        self._file: str | None = None

    def run(self, pace: float, stop: threading.Event, pen: FakeAgent) -> None:
        for step in self._recorded(pen):
            if stop.wait(pace * self._rng.uniform(0.5, 1.5)):
                return
            try:
                step()
            except (ImiError, OSError):
                continue  # the person who watches removed or took over its worktree: that is part of the play

    def steps(self) -> Iterator[Callable[[], object]]:
        """Endless: some edits, a commit, now and then a new claim."""
        while True:
            for _ in range(self._rng.randint(2, 5)):
                yield self._edit
            yield self._stage
            yield self._edit
            yield self._commit
            if self._rng.random() < 0.3:
                yield self._release
                yield self._claim

    def _recorded(self, pen: FakeAgent) -> Iterator[Callable[[], object]]:
        """The same, with what the agent's program writes about it: who asked for it, which tools, what it waits for."""
        resting = True
        for step in self.steps():
            if resting:
                yield lambda: pen.prompt(self._rng.choice(_PROMPTS))
            resting = step == self._commit
            if step == self._edit:
                yield lambda: pen.tool("Edit", self._choose())
                yield step
                yield pen.done
            elif step == self._commit:
                yield lambda: pen.tool("Bash", self._rng.choice(_COMMANDS))
                if self._rng.random() < 0.5:
                    yield pen.ask
                    yield from [_nothing] * self._rng.randint(2, 5)
                    yield pen.answered
                yield pen.done
                yield step
                yield lambda: pen.finish(self._rng.choice(_ANSWERS))
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
        write(path, f"{before}{line.format(self._rng.randint(0, 999))}\n")

    def _stage(self) -> None:
        git = self._git()
        if git is not None:
            git.run("add", "--all", "--", ".")

    def _git(self) -> Git | None:
        """Only in its own worktree: without it, the one around would be meant."""
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
    """It thinks, or waits for somebody."""


def write(path: str, text: str) -> None:
    """As editors do it: a new file beside, then a rename. Its time is that of imi's own clock, as all times here."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = f"{path}.tmp"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(beside, ns=(times.clock(), times.clock()))
    os.replace(beside, path)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()[-4000:]
    except OSError:
        return ""


def create_repository(path: str, branch: str = "main") -> Git:
    """A new empty repository at `path`, which must not be one yet."""
    os.makedirs(path)
    common = os.path.join(path, ".git")
    os.makedirs(common)
    git = Git(common, common, path)
    git.run("init", "--quiet", f"--initial-branch={branch}")
    return git


def create_bare_repository(path: str, branch: str = "main") -> Git:
    """A new bare repository, as a forge has it."""
    os.makedirs(path)
    git = Git(path)
    git.run("init", "--quiet", "--bare", f"--initial-branch={branch}")
    return git


def commit_all(git: Git, message: str, author: str, paths: Sequence[str] = (".",)) -> None:
    """Everything under `paths` as one commit by `author`, now by imi's own clock."""
    who = [("user.name", author), ("user.email", f"{author}@demo.invalid"), ("commit.gpgSign", "false")]
    git.run("add", "--all", "--", *paths)
    now = f"{times.clock() // 1_000_000_000} +0000"
    moment = {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}
    git.run("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message, settings=who, env=moment)
