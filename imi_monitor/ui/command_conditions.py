"""The conditions that commands declare in `requires`, checked against the snapshot.

They dim a command and give the sentence that says why. Whether an action really runs is decided by the action itself, on
the disk and in the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from imi_monitor import programs
from imi_monitor.model import agent_text, attention, state_words
from imi_monitor.model.agent import Agent
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui.commands import Command
from imi_monitor.ui.snapshot_facts import SnapshotFacts

_FOR_RUNS = (
    "open",
    "open_with",
    "shell",
    "menu",
    "copy",
    "mark",
    "attach",
    "stop",
    "resume",
    "seen",
    "claim",
    "release",
    "history",
)
"""Commands that take a run without a worktree, beside those about its agent."""

_FOR_WATCHED = ("open", "menu", "copy", "mark", "seen", "peek", "explain", "session")
"""Commands that take a run of another program, which imi only watches: they change nothing."""

_FOR_OTHER_HOMES = ("open", "menu")
"""Dashboard functions that take a worktree of another home; actions say it themselves."""

Condition = Callable[[SnapshotFacts, Worktree], str]
"""The reason why the condition does not hold for a worktree; empty when it holds."""


def _folder(_facts: SnapshotFacts, tree: Worktree) -> str:
    return (
        f"{_name(tree)}'s folder is missing: `imi prune` forgets it, `imi repair` searches for it"
        if tree.missing
        else ""
    )


def _claim(_facts: SnapshotFacts, tree: Worktree) -> str:
    return "" if tree.claim else f"{_name(tree)} is not claimed"


def _linked(_facts: SnapshotFacts, tree: Worktree) -> str:
    return (
        f"{_name(tree)} is the repository's main worktree: only its other worktrees take this" if tree.is_main else ""
    )


def _pull_request(_facts: SnapshotFacts, tree: Worktree) -> str:
    known = tree.pr is not None or (tree.pull is not None and tree.pull.url is not None)
    return "" if known else f"{_name(tree)} has no known pull request: `imi review` reviews one"


def _git_screen(_facts: SnapshotFacts, _tree: Worktree) -> str:
    return "" if git_screen() else "neither lazygit nor tig is installed"


def _agent(facts: SnapshotFacts, tree: Worktree) -> str:
    return "" if facts.agents_in(tree) else f"no agent works in {_name(tree)}"


def _run(facts: SnapshotFacts, tree: Worktree) -> str:
    if not facts.snapshot.has_read("runs") or (tree.key in facts.runs and facts.runs[tree.key].is_open):
        return ""
    if tree.run is not None:
        return f"{_run_name(tree)} is over ({tree.run.shown}): `imi resume` takes its session up again"
    found = next((one for one in facts.agents_in(tree) if not attention.has_ended(one)), None)
    if found is not None:
        return agent_text.not_started(found.name)
    over = next((one for one in facts.snapshot.runs if one.key == tree.key and one.resumable), None)
    if over is not None:
        return f"run {safe(over.short)} is over ({over.shown}): `imi resume` takes its session up again"
    return f"imi has started no agent that runs in {_name(tree)}: `imi start` starts one"


def _question(facts: SnapshotFacts, tree: Worktree) -> str:
    agents = facts.agents_in(tree)
    if any(one.facts.ask is not None for one in agents):
        return ""
    asking = next((one for one in agents if one.run is None and attention.standing(one) == state_words.ASKS), None)
    return agent_text.not_started(asking.name, asking.cli, asked=True) if asking is not None else _run(facts, tree)


def _session(_facts: SnapshotFacts, _tree: Worktree) -> str:
    return ""  # without an agent there, the last recorded session is shown


def _delivery(_facts: SnapshotFacts, tree: Worktree) -> str:
    waiting = tree.run is not None and tree.run.waiting_deliveries
    return "" if waiting else f"no file of {_name(tree)} waits to be delivered"


def _run_name(tree: Worktree) -> str:
    return f"run {safe(tree.own_name)}"


def _unseen(facts: SnapshotFacts, _tree: Worktree) -> str:
    return "" if facts.newest_end is not None else "no agent died or failed unseen"


CONDITIONS: dict[str, Condition] = {
    "folder": _folder,
    "claim": _claim,
    "linked": _linked,
    "pull-request": _pull_request,
    "git-screen": _git_screen,
    "agent": _agent,
    "unseen": _unseen,
    "run": _run,
    "question": _question,
    "session": _session,
    "delivery": _delivery,
}


def about_agent(command: Command) -> bool:
    """Whether the command acts on an agent, which can be another one than the selected worktree's."""
    return "agent" in command.requires or "session" in command.requires


@lru_cache(1)
def git_screen() -> str:
    """The installed git screen, lazygit or tig; empty when there is none. Looked up once."""
    return next((name for name in ("lazygit", "tig") if programs.find(name)), "")


def reason_against(
    command: Command, facts: SnapshotFacts | None, tree: Worktree | None, marked: Sequence[Worktree] = ()
) -> str:
    """Why the command cannot run for the selected worktree or the marked ones, in one sentence; empty when it can."""
    if command.refused:
        return command.refused
    if facts is None:
        return "" if not command.needs_worktree else "no worktree has been read yet"
    problem = facts.snapshot.registry.problem
    if command.needs_registry and problem is not None:
        return f"claims are unknown and count as held: {problem}"
    if not command.needs_worktree:
        return ""
    if marked and (command.kind in ("action", "own") or command.word == "own_commands"):
        return next(map(reason_watched, filter(None, map(watched_run, marked))), "")
    if tree is None:
        return "select a worktree first"
    home = facts.home_of(tree)
    if home is not None and not (command.for_other_homes or command.word in _FOR_OTHER_HOMES):
        return f"{_name(tree)} is on {safe(home.label)}: this can only be done there"
    watched = watched_run(tree)
    if watched is not None and command.word not in _FOR_WATCHED:
        return reason_watched(watched)
    if (
        tree.run is not None
        and command.word not in _FOR_RUNS
        and not {"run", "question", "agent", "session", "delivery"} & set(command.requires)
    ):
        return f"{_run_name(tree)} has no worktree: this is about one"
    reasons = (CONDITIONS[name](facts, tree) for name in command.requires)
    return next((reason for reason in reasons if reason), "")


def watched_run(tree: Worktree) -> Run | None:
    """The run of another program that a row is, in a workspace that imi only watches."""
    return tree.run if tree.run is not None and tree.run.origin is not None else None


def reason_watched(run: Run) -> str:
    """Return why nothing can be done to a run of another program."""
    return f"{safe(run.short, 60)} is a run of {safe(str(run.origin), 40)}: imi watches it and changes nothing there"


def reason_against_agent(facts: SnapshotFacts | None, agent: Agent) -> str:
    """Return why a command about this agent cannot run; empty when it can."""
    home = facts.home_of_agent(agent) if facts is not None else None
    return f"{safe(agent.name, 60)} works on {safe(home.label)}: this can only be done there" if home else ""


def _name(tree: Worktree) -> str:
    return safe(tree.key.worktree)
