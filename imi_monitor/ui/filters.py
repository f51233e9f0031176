"""Filters: words that must all match. `!word` negates one; capitals count only in a word that has any.

In the worktree list plain text matches name, repository and branch (when none contains it, its letters in order), `@name` the
owner or an agent there, `type:` and `repo:` these fields, and `is:` one of STATES. A word without a meaning is reported. In the
lead's view plain text matches an agent's name, program, worktree, model and activity, `@name` its name, `is:` its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from imi_monitor.model import attention
from imi_monitor.model.agent import WORKING, Agent
from imi_monitor.model.agent_walls import WALLED
from imi_monitor.model.contained_names import in_git
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.state_words import DEAD, INTRUDES, MEANINGS, WORKS
from imi_monitor.model.state_words import SYNONYMS as OLD_WORDS
from imi_monitor.model.text import safe
from imi_monitor.ui import key_hints
from imi_monitor.ui.snapshot_facts import SnapshotFacts

Test = Callable[[SnapshotFacts, Worktree], bool]


def _has_agent(standing: str) -> Test:
    return lambda facts, tree: facts.has_agent(tree, standing)


STATES: dict[str, tuple[str, Test]] = {
    "dirty": ("has uncommitted changes", lambda facts, tree: bool(tree.git and tree.git.uncommitted)),
    "clean": ("has no uncommitted changes", lambda facts, tree: bool(tree.git and not tree.git.uncommitted)),
    "claimed": ("has a claim, or one that is unknown", lambda facts, tree: tree.claim is not None),
    "walled": (
        "its agent is behind a wall",
        lambda facts, tree: any(one.wall in WALLED for one in facts.agents_in(tree)),
    ),
    "unclaimed": ("has no claim", lambda facts, tree: tree.claim is None and tree.run is None),
    "mine": ("you hold its claim", lambda facts, tree: tree.claim is not None and tree.claim.agent == facts.me),
    "stale": ("its holder has sent no heartbeat for long", lambda facts, tree: facts.claim_state(tree) == "stale"),
    **{word: (f"{what} there", _has_agent(word)) for word, what in MEANINGS.items()},
    WORKS: (
        "an agent works there",
        lambda facts, tree: any(one.state in WORKING and not one.suspended for one in facts.agents_in(tree)),
    ),
    INTRUDES: (MEANINGS[INTRUDES], lambda facts, tree: any(map(_intrudes, facts.agents_in(tree)))),
    DEAD: (
        "its holder or an agent there is dead",
        lambda facts, tree: facts.claim_state(tree) == "dead" or facts.has_agent(tree, DEAD),
    ),
    "changing": ("a file changed within a minute", lambda facts, tree: facts.is_busy(tree)),
    "collides": ("conflicts with another", lambda facts, tree: bool(facts.conflicts.get(tree.key))),
    "missing": ("its folder is gone", lambda facts, tree: tree.missing),
    "remote": ("it is in another home of the team", lambda facts, tree: facts.home_of(tree) is not None),
}


SYNONYMS = {**OLD_WORDS, "free": "unclaimed", "busy": "changing"}
"""Words that earlier versions had."""


class WorktreeFilter:
    """A filter of worktrees. `problem` names a word that has no meaning; it excludes nothing."""

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
        """The worktrees that match, in the order given."""
        if not self:
            return list(trees)
        kept = [tree for tree in trees if all(test(facts, tree) != inverted for inverted, test in self._tests)]
        exact = [tree for tree in kept if all(_name_contains(facts, tree, word) for word in self._plain)]
        return exact or [tree for tree in kept if all(_resembles(facts, tree, word) for word in self._plain)]

    def _read(self, word: str) -> None:
        inverted, bare = word.startswith("!"), word.removeprefix("!")
        if not bare:
            return
        test = self._test(bare)
        if test is not None:
            self._tests.append((inverted, test))
        elif not self._is_unknown_state(bare):
            if inverted:
                self._tests.append((True, lambda facts, tree: _name_contains(facts, tree, bare)))
            else:
                self._plain.append(bare)

    def _test(self, word: str) -> Test | None:
        head, colon, value = word.partition(":")
        wanted = value.lower()
        if word.startswith("@"):
            agent = word[1:].lower()
            return lambda facts, tree: (
                bool(tree.claim and agent in tree.owner.lower())
                or any(agent in name.lower() for one in facts.agents_in(tree) for name in (one.name, one.cli))
            )
        if colon and head == "type":
            return lambda facts, tree: tree.type.startswith(wanted)
        if colon and head == "repo":
            return lambda facts, tree: wanted in _repository(facts, tree).lower()
        if colon and head == "host":
            return lambda facts, tree: wanted in (facts.host_of(tree) or tree.key.host).lower()
        state = SYNONYMS.get(wanted, wanted)
        return STATES[state][1] if colon and head == "is" and state in STATES else None

    def _is_unknown_state(self, word: str) -> bool:
        """True for an `is:` with an unknown state; `problem` explains it, unless it is the beginning of a known one."""
        if not word.startswith("is:"):
            return False
        state = word[3:].lower()
        if not any(known.startswith(state) for known in (*STATES, *SYNONYMS)):
            near = get_close_matches(state, STATES, 1)
            hint = f"did you mean is:{near[0]}?" if near else f"{key_hints.label('help')} lists the words"
            self.problem = f"there is no is:{safe(state, 20)}: {hint}"
        return True


def _intrudes(agent: Agent) -> bool:
    return agent.intruder and not attention.has_ended(agent)


def _repository(facts: SnapshotFacts, tree: Worktree) -> str:
    """The repository's name in the registry and the one shown; nothing for what is in none."""
    repo = tree.key.repo
    return f"{repo}\n{facts.names.shown(repo)}" if in_git(repo) else ""


def _name_contains(facts: SnapshotFacts, tree: Worktree, word: str) -> bool:
    repo = tree.key.repo
    if not in_git(repo):
        return contains(f"{facts.names.without_host(tree.key)} {tree.own_name}", word)
    return contains(f"{repo} {facts.names.shown(repo)}/{tree.key.worktree} {tree.branch or ''}", word)


def _resembles(facts: SnapshotFacts, tree: Worktree, word: str) -> bool:
    from imi_monitor.model import fuzzy  # rarely needed: most words are part of a name

    return _name_contains(facts, tree, word) or (
        word == word.lower() and fuzzy.match(word, tree.key.worktree) is not None
    )


def matches_words(wanted: str, matches: Callable[[str], bool]) -> bool:
    """Whether every word matches and no negated one does; a lone `!` is ignored, because a word follows it."""
    return all(matches(word.removeprefix("!")) != word.startswith("!") for word in wanted.split() if word != "!")


def contains(text: str, word: str) -> bool:
    """Whether the word is part of the text; capitals count only in a word that has any."""
    return word in text if word != word.lower() else word in text.lower()


def agent_matches(agent: Agent, wanted: str) -> bool:
    return matches_words(wanted, lambda word: _agent_has(agent, word))


def _agent_has(agent: Agent, word: str) -> bool:
    if word.startswith("@"):
        return contains(f"{agent.name} {agent.cli}", word[1:])
    if word.startswith("is:"):
        state = word[3:].lower()
        return attention.word(agent).startswith(OLD_WORDS.get(state, state))
    key = agent.key
    where = "" if key is None else f"{key.repo}/{key.worktree}" if in_git(key.repo) else key.worktree
    activity = f"{agent.truth.detail or ''} {agent.truth.tool or ''} {agent.facts.title or ''}"
    return contains(f"{agent.name} {agent.cli} {where} {agent.facts.model or ''} {activity}", word)
