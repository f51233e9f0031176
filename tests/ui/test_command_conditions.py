"""Why a command cannot run: each condition, and the rows that are no worktree of this home."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model import agent as states
from imi_monitor.model import run as words
from imi_monitor.model.agent import Agent
from imi_monitor.model.pull_request_list import PullRequest
from imi_monitor.model.run import Run, WantedDelivery
from imi_monitor.model.snapshot import HomeState, RegistryState, SourceHealth, Worktree
from imi_monitor.ui import command_conditions, commands
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from tests.test_programs import make_programs
from tests.ui import sample_agents, sample_runs, snapshot_builder

TREE = snapshot_builder.tree("feat-a")
TABLE = {one.word: one for one in commands.table()}
RUNS_READ = SourceHealth("runs", snapshot_builder.ago(1), None)


def facts(*trees: Worktree, read: bool = True, **fields: Any) -> SnapshotFacts:
    return snapshot_builder.facts(*trees, health=(RUNS_READ,) if read else (), **fields)


def run(**fields: Any) -> Run:
    return replace(sample_runs.run("1b2c3d4e", "claude", None, "works"), **fields)


def row(**fields: Any) -> Worktree:
    """The row of a run without a worktree."""
    tree = snapshot_builder.tree("1b2c3d4e", run=None)
    return replace(tree, run=run(key=tree.key, **fields))


def agent(state: str = states.RUNNING, **fields: Any) -> Agent:
    return replace(sample_agents.agent("claude", None, state), **{"key": TREE.key, "name": "claude-1", **fields})


def ended(one: Agent) -> Agent:
    return replace(one, truth=replace(one.truth, ended=True))


def holds(condition: str, known: SnapshotFacts, tree: Worktree = TREE) -> str:
    return command_conditions.CONDITIONS[condition](known, tree)


def why(word: str, known: SnapshotFacts | None, tree: Worktree | None, *marked: Worktree) -> str:
    return command_conditions.reason_against(TABLE[word], known, tree, marked)


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    command_conditions.git_screen.cache_clear()
    yield
    command_conditions.git_screen.cache_clear()


# -- the conditions ----------------------------------------------------------------------------------------------------


def test_a_pull_request_is_known_by_its_number_or_by_its_page() -> None:
    page = PullRequest(7, url="https://example.org/7")
    for fields, known in (
        ({}, False),
        ({"pr": 7}, True),
        ({"pull": page}, True),
        ({"pull": replace(page, url=None)}, False),
    ):
        said = holds("pull-request", facts(), snapshot_builder.tree("feat-a", **fields))  # type: ignore[arg-type]
        assert bool(said) != known
        assert known or said == "feat-a has no known pull request: `imi review` reviews one"


@pytest.mark.parametrize(
    ("installed", "found"), [(("lazygit", "tig"), "lazygit"), (("tig",), "tig"), (("lazygit",), "lazygit"), ((), "")]
)
def test_a_git_screen_is_lazygit_or_else_tig(
    installed: tuple[str, ...], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_programs(tmp_path / "bin", tmp_path / "log", installed)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert command_conditions.git_screen() == found
    assert holds("git-screen", facts()) == ("" if found else "neither lazygit nor tig is installed")


def test_an_agent_is_one_that_works_there() -> None:
    assert holds("agent", facts(TREE, agents=(agent(),))) == ""
    assert holds("agent", facts(TREE, agents=(replace(agent(), key=None),))) == "no agent works in feat-a"


def test_an_unseen_end_is_one_that_no_person_has_looked_at() -> None:
    died = ended(agent(states.DEAD))
    assert holds("unseen", facts(TREE, agents=(died,))) == ""
    for known in (facts(TREE), facts(TREE, agents=(agent(),)), facts(TREE, agents=(replace(died, looked_at=True),))):
        assert holds("unseen", known) == "no agent died or failed unseen"


NOT_STARTED = "claude-1 was not started by imi: enter goes to its own screen"
CRASHED_THERE = "run 1b2c3d4e is over (crashed): `imi resume` takes its session up again"
NONE_STARTED = "imi has started no agent that runs in feat-a: `imi start` starts one"


@pytest.mark.parametrize(
    ("read", "runs", "agents", "reason"),
    [
        (False, (), (), ""),
        (True, (), (), NONE_STARTED),
        (True, (run(key=TREE.key),), (), ""),
        (True, (run(key=TREE.key, status=words.QUEUED),), (agent(),), ""),
        (True, (run(key=TREE.key, status=words.CRASHED, shown="crashed", resumable=True),), (), CRASHED_THERE),
        (True, (run(key=TREE.key, status=words.CRASHED),), (), NONE_STARTED),
        (True, (run(),), (), NONE_STARTED),
        (True, (), (agent(),), NOT_STARTED),
        (True, (), (ended(agent()),), NONE_STARTED),
        (True, (), (ended(agent()), agent(name="claude-2")), NOT_STARTED.replace("1", "2")),
        (False, (), (agent(),), ""),
    ],
)
def test_a_run_is_an_open_one_and_another_agent_is_named(
    read: bool, runs: tuple[Run, ...], agents: tuple[Agent, ...], reason: str
) -> None:
    assert holds("run", facts(TREE, read=read, runs=runs, agents=agents)) == reason


def test_a_run_that_is_over_says_how_to_go_on_with_it() -> None:
    for status, reason in (
        (words.ALIVE, ""),
        (words.CRASHED, "run 1b2c3d4e is over (died): `imi resume` takes its session up again"),
    ):
        tree = row(status=status, shown="died")
        assert holds("run", facts(tree), tree) == reason
        assert holds("run", facts(tree, read=False), tree) == ""
        assert holds("question", facts(tree), tree) == reason


def test_a_question_is_one_that_imi_can_answer() -> None:
    asks = agent(states.WAITING)
    answerable = replace(asks, facts=replace(asks.facts, ask="a1"))
    own = replace(asks, run="1b2c3d4e")
    assert holds("question", facts(TREE, agents=(answerable,))) == ""
    assert holds("question", facts(TREE, agents=(agent(), answerable))) == ""
    said = holds("question", facts(TREE, agents=(asks,)))
    assert said.startswith("enter goes to its own screen: imi did not start claude-1, and ")
    for agents in ((own,), (agent(),)):
        assert holds("question", facts(TREE, agents=agents)) == NOT_STARTED
    assert holds("question", facts(TREE)) == NONE_STARTED
    assert holds("question", facts(TREE, agents=(own,), runs=(run(key=TREE.key),))) == ""


def test_a_delivery_is_a_file_that_waits() -> None:
    waits, done = WantedDelivery("a.md", "/a.md", True), WantedDelivery("b.md", "/b.md", False)
    none = "no file of 1b2c3d4e waits to be delivered"
    for deliveries, reason in (((waits, done), ""), ((done,), none), ((), none)):
        assert holds("delivery", facts(), row(deliveries=deliveries)) == reason
    assert holds("delivery", facts()) == "no file of feat-a waits to be delivered"


# -- rows that are no worktree of this home ------------------------------------------------------------------------------

# A second time on purpose: what a row without a worktree takes, and what one takes that imi only watches.
OF_RUNS = {
    *("open", "open_with", "shell", "menu", "copy", "mark", "attach", "stop", "resume", "seen", "claim", "release"),
    *("history", "answer", "say", "interrupt", "workspace-deliver", "explain", "session", "peek"),
}
OF_WATCHED = {"open", "menu", "copy", "mark", "seen", "peek", "explain", "session"}
FOR_WORKTREES = [word for word, one in TABLE.items() if one.needs_worktree]


@pytest.mark.parametrize("word", FOR_WORKTREES)
def test_a_run_without_a_worktree_takes_what_needs_none(word: str) -> None:
    tree = row()
    said = why(word, facts(tree), tree)
    assert (said == "run 1b2c3d4e has no worktree: this is about one") == (word not in OF_RUNS), said


@pytest.mark.parametrize("word", FOR_WORKTREES)
def test_a_run_that_imi_only_watches_takes_what_changes_nothing(word: str) -> None:
    tree = row(origin="crew", session="nightly")
    said = why(word, facts(tree), tree)
    refused = "nightly is a run of crew: imi watches it and changes nothing there"
    assert (said == refused) == (word not in OF_WATCHED), said
    assert command_conditions.watched_run(tree) is tree.run
    assert command_conditions.watched_run(row()) is None and command_conditions.watched_run(TREE) is None


@pytest.mark.parametrize("word", FOR_WORKTREES)
def test_a_worktree_of_another_home_takes_what_that_home_is_asked(word: str) -> None:
    home = HomeState("h2", "desk", "desk", "ada", "1", snapshot_builder.ago(9), "alive", None, own=False)
    there = replace(snapshot_builder.tree("feat-b", by="bo"), key=replace(TREE.key, host="desk", worktree="feat-b"))
    said = why(word, facts(TREE, homes=(home,)), there)
    assert (said == "feat-b is on desk: this can only be done there") == (
        word not in {"open", "menu", "claim", "release"}
    )
    own = replace(home, label="here", own=True)
    assert "this can only" not in why(word, facts(TREE, homes=(own,)), TREE)


def test_an_agent_of_another_home_is_acted_on_there() -> None:
    home = HomeState("h2", "desk", "desk", "ada", "1", snapshot_builder.ago(9), "alive", None, own=False)
    known = facts(TREE, homes=(home,))
    said = "claude-1 works on desk: this can only be done there"
    assert command_conditions.reason_against_agent(known, replace(agent(), id="h2:claude:1")) == said
    assert command_conditions.reason_against_agent(known, agent()) == ""
    assert command_conditions.reason_against_agent(None, agent()) == ""


def test_marked_rows_are_refused_together_if_one_is_only_watched() -> None:
    watched = row(origin="crew", session="nightly")
    said = "nightly is a run of crew: imi watches it and changes nothing there"
    for word in ("release", "own_commands"):
        assert why(word, facts(TREE, watched), TREE, TREE, watched) == said
        assert why(word, facts(TREE), TREE, TREE, row()) == "", "each of the marked ones says so itself"
    assert why("shell", facts(TREE, watched), TREE, TREE, watched) == "", "it is for the selected one"
    assert why("diff", facts(TREE), None, TREE) == "select a worktree first"


def test_the_first_unmet_condition_is_told() -> None:
    gone = snapshot_builder.tree("feat-a", missing=True, is_main=True)
    assert why("update", facts(gone), gone).startswith("feat-a's folder is missing")
    main = snapshot_builder.tree("feat-a", is_main=True)
    assert why("update", facts(main), main).startswith("feat-a is the repository's main worktree")
    assert why("update", facts(TREE), TREE) == ""


def test_while_claims_are_unknown_only_what_needs_none_of_them_runs() -> None:
    known = facts(TREE, registry=RegistryState(problem="it is damaged"))
    for word, one in TABLE.items():
        said = why(word, known, TREE)
        assert (said == "claims are unknown and count as held: it is damaged") == one.needs_registry, word
    assert any(one.needs_registry for one in TABLE.values()) and not all(one.needs_registry for one in TABLE.values())


def test_before_anything_is_read_only_what_needs_no_worktree_runs() -> None:
    for word, one in TABLE.items():
        assert why(word, None, None) == ("no worktree has been read yet" if one.needs_worktree else "")
        assert not one.needs_worktree or why(word, facts(), None) == "select a worktree first"


def test_a_command_is_about_an_agent_if_it_needs_one_or_its_session() -> None:
    about = {word for word, one in TABLE.items() if command_conditions.about_agent(one)}
    assert about == {"explain", "session", "peek"}
