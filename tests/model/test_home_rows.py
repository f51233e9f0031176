"""What leaves the machine, and what may come in."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from imi_monitor.model import home_rows, times
from imi_monitor.model.agent import RUNNING, UNKNOWN, Agent, SessionFacts, ToolCall, Truth
from imi_monitor.model.commit import Commit
from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.model.snapshot import FileState, Key, Snapshot
from tests.helpers import set_clock
from tests.ui import snapshot_builder as build

HOME = HomeDescription("1f3a", "box", "ada", "0.1.0", PROTOCOL, build.ago(60), build.ago(5))
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1eF3gH5"


def agent(**fields: object) -> Agent:
    key = Key("here", "app", "feat-x")
    tool = ToolCall("Edit", "/home/ada/private/notes.txt")
    truth = Truth(RUNNING, build.ago(5), "transcript", "exact", detail="shall I drop the table?", tool=tool)
    facts = SessionFacts(title="the secret plan", prompt="make it so", last_message="done so")
    known: dict[str, object] = {"id": "claude:1", "cli": "claude", "name": "claude-1", "key": key, "cwd": "/home/ada/w"}
    known |= {"session": "1", "pid": 4711, "pid_started": "9", "truth": truth, "facts": facts, "claim": "mine"}
    return Agent(**{**known, **fields})  # type: ignore[arg-type]


def snapshot() -> Snapshot:
    git = build.state(
        files=(FileState("src/api.py", ".", "M"), FileState(f"{SECRET}.txt", "?", "?")),
        unstaged=1,
        untracked=1,
        ahead=3,
        last_commit=Commit("a" * 40, "the subject", "ada", build.ago(600)),
    )
    return Snapshot(1, build.ago(0), "here", (build.tree("feat-x", by="claude-1", git=git),), agents=(agent(),))


def rows(share: str) -> dict[str, str]:
    return home_rows.RowEncoder(share, lambda name: f"github.com/acme/{name}").rows(snapshot())


def decoded(fields: dict[str, str]) -> home_rows.HomeRows:
    return home_rows.RowDecoder("box", HOME).read(fields)


@pytest.mark.parametrize(
    ("share", "sent"),
    [
        ("counts", set()),
        ("names", {"src/api.py", "the subject", "notes.txt"}),
        ("titles", {"src/api.py", "the subject", "notes.txt", "the secret plan", "shall I drop"}),
    ],
)
def test_each_level_sends_what_it_says_and_no_more(share: str, sent: set[str]) -> None:
    text = "\n".join(rows(share).values())
    graded = {"src/api.py", "the subject", "notes.txt", "the secret plan", "shall I drop"}
    assert {words for words in graded if words in text} == sent
    for never in (SECRET, "/home/ada", "private", "make it so", "done so", "4711", '"path"'):
        assert never not in text, never


def test_rows_come_back_as_worktrees_and_agents_of_that_host() -> None:
    found = decoded(rows("names"))
    (tree,), (one,) = found.worktrees, found.agents
    assert tree.key == Key("box", "github.com/acme/app", "feat-x") and tree.path == ""
    assert tree.claim is not None and (tree.claim.agent, tree.claim.state, tree.claim.epoch) == ("claude-1", "held", 1)
    assert tree.git is not None
    assert (tree.git.ahead, tree.git.behind, tree.git.unstaged, tree.git.uncommitted) == (3, None, 1, 2)
    assert one.key == tree.key and (one.state, str(one.truth.tool), one.name) == (RUNNING, "Edit notes.txt", "claude-1")
    assert found.rejected == 0


def test_files_that_are_not_named_are_counted() -> None:
    (tree,) = decoded(rows("counts")).worktrees
    assert tree.git is not None and tree.git.uncommitted == 2


def test_a_row_of_a_hundred_long_names_fits_its_limit() -> None:
    names = tuple(FileState("ü" * 200 + str(number), ".", "M") for number in range(100))
    whole = Snapshot(1, build.ago(0), "here", (build.tree("feat-x", git=build.state(files=names)),))
    (text,) = home_rows.RowEncoder("names", str).rows(whole).values()
    assert len(text.encode()) <= home_rows.MOST_BYTES
    (tree,) = decoded({"w:x": text}).worktrees
    assert tree.git is not None and tree.git.uncommitted == 100


def test_a_row_that_did_not_change_is_not_made_again() -> None:
    encoder, same = home_rows.RowEncoder("names", str), snapshot()
    first, second = encoder.rows(same), encoder.rows(same)
    assert first and first.keys() == second.keys()
    assert all(second[field] is text for field, text in first.items())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "null",
        '{"repo": "r"}',
        '{"repo": 7, "name": "x"}',
        '{"repo": "r", "name": ""}',
        '{"repo":"r","name":"x","branch":"' + "y" * 5000 + '"}',
        "[" * 4000,
    ],
)
def test_a_wrong_row_is_counted_and_not_shown(text: str) -> None:
    found = decoded({"w:r/x": text, "a:1": text})
    assert (found.worktrees, found.agents, found.rejected) == ((), (), 2)


def test_text_from_another_home_cannot_control_the_terminal() -> None:
    evil = "\x1b[31m[bold]x\u202e\x00"
    row = {"repo": evil, "name": evil, "branch": evil, "claim": evil, "owner": evil, "read_at": evil, "subject": evil}
    row |= {"committed_at": evil, "files": [[evil, evil, evil], 7, ["a"]], "ahead": -1, "staged": "9", "pr": True}
    named = {"id": evil, "name": evil, "cli": evil, "state": evil, "tool": evil, "target": evil, "claim": evil}
    found = decoded({"w:r/x": json.dumps(row), "a:1": json.dumps(named), "w:2": json.dumps({**row, "files": 3})})
    assert found.rejected == 0
    assert repr(found).isprintable()
    for sign in ("\x1b", "\u202e", "\x00"):
        assert all(sign not in str(part) for part in (*found.worktrees, *found.agents))
    tree = found.worktrees[0]
    assert tree.claim is not None and tree.claim.state == "unknown"
    assert tree.git is not None and (tree.git.ahead, tree.git.staged, tree.pr) == (None, 0, None)
    assert found.agents[0].state == UNKNOWN


def test_a_home_has_at_most_a_thousand_rows() -> None:
    row = json.dumps({"repo": "r", "name": "x"})
    found = decoded({f"w:{number}": row for number in range(1500)})
    assert (len(found.worktrees), found.rejected) == (1000, 500)


def states(age: int | None, *, connected: bool = True, protocol: int = PROTOCOL) -> tuple[object, ...]:
    description = home_rows.describe(HomeDescription("1f3a", "box", "ada", "9", protocol, build.ago(60), build.ago(5)))
    free = {"w:r/free": json.dumps({"repo": "r", "name": "free"})}
    published = {"1f3a": PublishedRows(description, {**rows("names"), **free}, age)}
    (found,) = HomeStates("own", "here").states(published, {"1f3a"}, connected=connected)
    owners = {tree.key.worktree: tree.owner for tree in found.worktrees}
    return found.state, found.seen is None, owners, [one.state for one in found.agents]


def test_what_is_not_confirmed_is_never_free_or_busy() -> None:
    unknown = {"feat-x": "claude-1", "free": "?"}
    assert states(0) == ("here", True, {"feat-x": "claude-1", "free": "unclaimed"}, [RUNNING])
    assert states(12) == ("unconfirmed", False, unknown, [UNKNOWN])
    assert states(None) == ("offline", False, unknown, [UNKNOWN])
    assert states(0, connected=False) == ("unconfirmed", False, unknown, [UNKNOWN])


def test_a_silent_home_is_dated_from_its_last_sign_by_the_clock_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own word is that of its last change, by another machine's clock."""
    description = home_rows.describe(HomeDescription("1f3a", "box", "ada", "9", PROTOCOL, "", build.ago(7200)))
    follower, noon = HomeStates("own", "here"), times.now()

    def seen(age: int | None, later: int, *, connected: bool = True) -> str | None:
        set_clock(monkeypatch, noon + timedelta(seconds=later))
        published = {"1f3a": PublishedRows(description, rows("names"), age)}
        (found,) = follower.states(published, {"1f3a"} if later == 0 else (), connected=connected)
        if found.seen is not None:
            (one,) = found.agents
            assert (one.state, one.claim, one.truth.since) == (UNKNOWN, None, found.seen), "it may not intrude any more"
            (again,) = follower.states(published, (), connected=connected)
            assert again is found and again.agents[0] is one, "what did not change is not drawn again"
        return found.seen

    def sign(later: int) -> str:
        return times.stamp(noon + timedelta(seconds=later))

    assert seen(0, 0) is None and seen(3, 20) is None
    assert [seen(12, 29), seen(14, 31), seen(None, 60)] == [sign(17)] * 3
    assert seen(1, 70) is None
    assert [seen(1, 80, connected=False), seen(1, 90, connected=False)] == [sign(69)] * 2
    (alone,) = HomeStates("own", "here").states({"1f3a": PublishedRows(description, {}, None)}, ())
    assert alone.seen == build.ago(7200), "offline since before this process: its last change is all that is known"


def test_rows_of_a_newer_protocol_are_not_read() -> None:
    assert states(0, protocol=PROTOCOL + 1) == ("newer", False, {}, [])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"protocol": "1"}', '{"protocol": 1' + " " * 5000 + "}"])
def test_a_home_without_a_valid_description_is_not_shown(text: str) -> None:
    assert HomeStates("own", "here").states({"x": PublishedRows(text, {}, 0)}, ()) == ()
