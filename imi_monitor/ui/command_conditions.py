"""Why something cannot be done with the selected worktree now, as far as the picture tells.

Only hints: they dim a key and say a sentence. Whether an act may happen is for its action to decide, which looks for itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import lru_cache

from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui.commands import Command
from imi_monitor.ui.snapshot_facts import SnapshotFacts

Rule = Callable[[SnapshotFacts, Worktree], str]


def _gone(facts: SnapshotFacts, tree: Worktree) -> str:
    return f"the folder of {safe(tree.key.worktree)} is gone: U brings back what was removed" if tree.missing else ""


def _unclaimed(facts: SnapshotFacts, tree: Worktree) -> str:
    return "" if tree.claim else f"nobody has claimed {safe(tree.key.worktree)}"


def _main(facts: SnapshotFacts, tree: Worktree) -> str:
    return f"{safe(tree.key.worktree)} is the repository itself, it cannot be removed" if tree.is_main else ""


def _no_pr(facts: SnapshotFacts, tree: Worktree) -> str:
    return "" if tree.pr is not None else f"no pull request is known for {safe(tree.key.worktree)}: v reviews one"


def _no_lazygit(facts: SnapshotFacts, tree: Worktree) -> str:
    return _gone(facts, tree) or ("" if git_screen() else "neither lazygit nor tig is installed")


def _no_agent(facts: SnapshotFacts, tree: Worktree) -> str:
    return "" if facts.agents_in(tree) else f"no agent is seen in {safe(tree.key.worktree)}"


RULES: dict[str, Rule] = {
    "claim": _gone,
    "release": _unclaimed,
    "remove": _main,
    "open": _gone,
    "open_with": _gone,
    "lazygit": _no_lazygit,
    "pr": _no_pr,
    "shell": _gone,
    "peek": _no_agent,
    "explain": _no_agent,
}

OF_AGENT = ("peek", "explain")  # about an agent, which need not be one of the selected worktree


@lru_cache(1)
def git_screen() -> str:
    """The git screen that is installed, if any; looked for once."""
    return next((name for name in ("lazygit", "tig") if shutil.which(name)), "")


def why_not(command: Command, facts: SnapshotFacts | None, tree: Worktree | None, marked: int = 0) -> str:
    """One sentence, or empty when nothing speaks against it."""
    if facts is None:
        return "" if not command.about_one else "nothing is known yet"
    if not command.about_one or (marked and command.kind == "act"):
        return ""
    if tree is None:
        return "select a worktree first"
    rule = RULES.get(command.word)
    return rule(facts, tree) if rule else ""
