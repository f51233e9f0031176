"""The filter of the worktree list: words that all have to fit.

`text` is part of the name, repository or branch (smart case; when no name holds it, its letters in order will do),
`!word` is its opposite, `@agent` the owner or an agent at work there, `type:feat`, `repo:app`, and `is:` one of the states
below. A word that means nothing is said, never silently empty.

The filter of the lead's view: words that all must fit an agent.

Plain text is part of its name, program, worktree, repository, model or what it does; `!word` is the opposite, `@name` its
name, and `is:` how it stands: asks, works, idle, dead, … Capitals count only if the word has any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from imi_monitor.model import attention
from imi_monitor.model.agent import WORKING, Agent
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui.snapshot_facts import SnapshotFacts

Test = Callable[[SnapshotFacts, Worktree], bool]

STATES: dict[str, tuple[str, Test]] = {
    "dirty": ("has uncommitted work", lambda facts, tree: bool(tree.git and tree.git.uncommitted)),
    "clean": ("has none, as far as git was asked", lambda facts, tree: bool(tree.git and not tree.git.uncommitted)),
    "claimed": ("somebody holds it", lambda facts, tree: tree.claim is not None),
    "free": ("nobody holds it", lambda facts, tree: tree.claim is None),
    "mine": ("you hold it", lambda facts, tree: tree.claim is not None and tree.claim.agent == facts.me),
    "stale": ("its holder is silent", lambda facts, tree: facts.claim_state(tree) == "stale"),
    "asking": ("an agent waits for you there", lambda facts, tree: facts.stands(tree, attention.ASKS)),
    "working": (
        "an agent works there",
        lambda facts, tree: any(one.state in WORKING and not one.suspended for one in facts.agents_in(tree)),
    ),
    "intruded": (
        "an agent is where another holds the claim",
        lambda facts, tree: any(map(_intrudes, facts.agents_in(tree))),
    ),
    "failed": ("an agent failed there", lambda facts, tree: facts.stands(tree, attention.FAILS)),
    "dead": (
        "its holder or an agent there is dead",
        lambda facts, tree: facts.claim_state(tree) == "dead" or facts.stands(tree, attention.DIED),
    ),
    "busy": ("a file changed within a minute", lambda facts, tree: facts.busy(tree)),
    "collides": ("conflicts with another", lambda facts, tree: bool(facts.hits.get(tree.key))),
    "missing": ("its folder is gone", lambda facts, tree: tree.missing),
}


class WorktreeFilter:
    """What was typed, as a test. `problem` says what could not be understood; then nothing is left out for it."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.problem = ""
        self._plain: list[str] = []
        self._tests: list[tuple[bool, Test]] = []
        for word in text.split():
            self._read(word)

    def __bool__(self) -> bool:
        return bool(self._plain or self._tests)

    def apply(self, facts: SnapshotFacts, trees: Sequence[Worktree]) -> list[Worktree]:
        """The worktrees that fit, in the order given."""
        if not self:
            return list(trees)
        kept = [tree for tree in trees if all(test(facts, tree) != inverted for inverted, test in self._tests)]
        exact = [tree for tree in kept if all(_name_contains(tree, word) for word in self._plain)]
        return exact or [tree for tree in kept if all(_resembles(tree, word) for word in self._plain)]

    def _read(self, word: str) -> None:
        inverted, bare = word.startswith("!"), word.removeprefix("!")
        if not bare:
            return
        test = self._test(bare)
        if test is not None:
            self._tests.append((inverted, test))
        elif not self._said(bare):
            if inverted:
                self._tests.append((True, lambda facts, tree: _name_contains(tree, bare)))
            else:
                self._plain.append(bare)

    def _test(self, word: str) -> Test | None:
        head, colon, value = word.partition(":")
        wanted = value.lower()
        if word.startswith("@"):
            agent = word[1:].lower()
            return lambda facts, tree: (
                agent in tree.owner.lower()
                or any(agent in name.lower() for one in facts.agents_in(tree) for name in (one.name, one.cli))
            )
        if colon and head == "type":
            return lambda facts, tree: tree.type.startswith(wanted)
        if colon and head == "repo":
            return lambda facts, tree: wanted in tree.key.repo.lower()
        return STATES[wanted][1] if colon and head == "is" and wanted in STATES else None

    def _said(self, word: str) -> bool:
        """Whether the word is an `is:` that nobody knows; an unfinished one is being typed."""
        if not word.startswith("is:"):
            return False
        state = word[3:].lower()
        if not any(known.startswith(state) for known in STATES):
            near = get_close_matches(state, STATES, 1)
            hint = f"did you mean is:{near[0]}?" if near else f"use one of {', '.join(STATES)}"
            self.problem = f"there is no is:{safe(state, 20)}: {hint}"
        return True


def _intrudes(agent: Agent) -> bool:
    return agent.intruder and not attention.has_ended(agent)


def _haystack(tree: Worktree) -> str:
    return f"{tree.key.repo}/{tree.key.worktree} {tree.branch or ''}"


def _name_contains(tree: Worktree, word: str) -> bool:
    text = _haystack(tree)
    return word in text if word != word.lower() else word in text.lower()


def _resembles(tree: Worktree, word: str) -> bool:
    from imi_monitor.model import fuzzy  # hardly anybody types what no name holds

    return _name_contains(tree, word) or (word == word.lower() and fuzzy.match(word, tree.key.worktree) is not None)


# other words for the same, as they stand in headings and in the filter of worktrees
_SAME = {
    "asking": attention.ASKS,
    "waiting": attention.ASKS,
    "working": attention.WORKS,
    "done": attention.ENDED,
    "intruder": attention.INTRUDES,
    "intruded": attention.INTRUDES,
}


def agent_matches(agent: Agent, wanted: str) -> bool:
    """Whether every word fits; a lone `!` is being typed."""
    return all(
        _agent_fits(agent, word.removeprefix("!")) != word.startswith("!") for word in wanted.split() if word != "!"
    )


def _agent_fits(agent: Agent, word: str) -> bool:
    if word.startswith("@"):
        return _holds(f"{agent.name} {agent.cli}", word[1:])
    if word.startswith("is:"):
        stands = word[3:].lower()
        return attention.standing(agent).startswith(_SAME.get(stands, stands))
    where = f"{agent.key.repo}/{agent.key.worktree}" if agent.key else ""
    doing = f"{agent.truth.detail or ''} {agent.truth.tool or ''} {agent.facts.title or ''}"
    return _holds(f"{agent.name} {agent.cli} {where} {agent.facts.model or ''} {doing}", word)


def _holds(text: str, word: str) -> bool:
    return word in text if word != word.lower() else word in text.lower()
