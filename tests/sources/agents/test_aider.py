"""aider: every piece of recorded chats, files of any shape, and a fake that is stopped and killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, FAILED, RUNNING, UNKNOWN, WAITING
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.aider import reader as aider
from imi_monitor.sources.agents.aider.reducer import AiderReducer, parse_count
from imi_monitor.sources.agents.process_scan import ProcessScan
from tests.audit_events import recorded
from tests.limits import LIMIT
from tests.sources.agents.reader_kit import (
    FAKES,
    FIXTURES,
    Driven,
    driven,
    process,
    python,
    read_twice,
    steps,
    truth,
    world,
)

SCENARIOS = sorted(path.stem for path in (FIXTURES / "aider").glob("*.jsonl"))
AT = 1_795_000_000.0


class Place:
    def __init__(self, tmp: Path) -> None:
        self.wt = tmp.resolve() / "wt"
        self.wt.mkdir()
        self.path = self.wt / aider.NAME
        self.reader = aider.make()
        self.at = AT

    def put(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)
        self.at += 100
        os.utime(self.path, (self.at, self.at))

    def put_all(self, name: str) -> None:
        for step in steps("aider", name):
            self.put(step["text"])

    def seen(self, later: float = 0.5, alive: bool = True, **more: Any) -> list[Sighting]:
        there = [process("aider", self.wt, AT - 100, **more)] if alive else []
        return list(read_twice(self.reader, world(self.wt, self.wt, now=self.at + later, processes=there)))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_step_of_an_aider_chat_has_the_right_state(place: Place, name: str) -> None:
    """The state right after each piece, and after a quiet while."""
    for number, step in enumerate(steps("aider", name)):
        place.put(step["text"])
        for later, expected in ((0.5, step["now"]), (5.0, step["later"])):
            (one,) = place.seen(later)
            assert truth(one, place.at + later).state == expected, (name, number, step["text"], later)


@pytest.mark.parametrize("name", SCENARIOS)
def test_aider_evidence_names_its_alternatives(place: Place, name: str) -> None:
    """An open question looks like work and like the end of a turn; neither is ever certain."""
    for step in steps("aider", name):
        place.put(step["text"])
        (one,) = place.seen(5.0)
        (told,) = one.evidence
        certain = told.state in (FAILED, CANCELLED) or "/exit" in step["text"]
        assert (WAITING in told.or_else) is not certain, step["text"]
        assert truth(one, place.at + 5).confidence == ("exact" if certain else "likely")


@pytest.mark.parametrize("name", SCENARIOS)
def test_read_from_the_middle_it_is_the_same(place: Place, name: str) -> None:
    for step in steps("aider", name):
        place.put(step["text"])
        (followed,) = place.seen(5.0)
        place.reader, kept = aider.make(), place.reader
        (fresh,) = place.seen(5.0)
        place.reader = kept
        assert (fresh.session, fresh.evidence) == (followed.session, followed.evidence)
        assert (fresh.facts.tokens_in, fresh.facts.files) == (followed.facts.tokens_in, followed.facts.files)


def test_what_a_linter_says_is_no_failure_of_aider(place: Place) -> None:
    place.put(
        "\n# aider chat started at 2026-11-18 08:04:59\n\n\n#### please  \n\nI do.\n\n> Applied edit to a.py  \n>  \n"
    )
    place.put("> # Fix any errors below, if possible.  \n>  \n> Traceback (most recent call last):  \n> ^C  \n")
    (one,) = place.seen()
    assert not {"failed", "cancelled"} & {event.kind for event in one.events}
    assert truth(one, place.at + 1).state == RUNNING
    place.put("> Attempt to fix lint errors? (Y)es/(N)o [Yes]: y  \n\nDone.\n\n> litellm.APIError: no  \n")
    assert truth(place.seen()[0], place.at + 1).state == FAILED


def test_a_torn_last_line_waits(place: Place) -> None:
    place.put("\n# aider chat started at 2026-11-18 08:04:59\n\n")
    for byte in "\n#### please greet  ":
        place.put(byte)
        assert place.seen()[0].facts.prompt is None
    place.put("\n")
    (one,) = place.seen()
    assert (one.facts.prompt, truth(one, place.at + 1).state) == ("please greet", RUNNING)


def test_facts_of_a_session(place: Place) -> None:
    place.put_all("edit")
    (place.wt / ".aider.input.history").write_text("\n# 2026-11-18 08:05:01.070081\n+please greet\n+the world\n")
    (one,) = place.seen()
    facts = one.facts
    assert (facts.version, facts.model) == ("0.86.2", "openai/model-1")
    assert (facts.tokens_in, facts.tokens_out, facts.tokens_cached) == (16_200 - 1204, 142, 1204)
    assert facts.cost_usd == 0.06
    assert facts.files == (f"{place.wt}/hello.txt",)
    assert (facts.prompt, facts.last_message) == ("and again", "Nothing to change.")
    assert (one.cwd, one.pid, one.alive) == (str(place.wt), 4242, True)


def test_prompts_and_replies_are_not_taken_for_each_other(place: Place) -> None:
    place.put_all("second_chat")
    kinds = [(each.kind, each.text) for each in place.seen()[0].events]
    assert kinds == [("started", None), ("prompt", "new")]
    place.reader = aider.make()
    place.path.unlink()
    news = []
    for step in steps("aider", "edit"):
        place.put(step["text"])
        for later in (0.5, 5.0):
            news += [each for one in place.seen(later) for each in one.events]
    assert [each.kind for each in news] == [
        "started",
        "prompt",
        "completed",
        "message",
        "tool_finished",
        "tool_finished",
        "prompt",
        "completed",
        "message",
    ]
    assert news[1].text == "please greet"
    assert news[3].text is not None and "> a quotation of mine" in news[3].text
    assert (str(news[4].tool), news[4].files) == ("edit hello.txt", (f"{place.wt}/hello.txt",))
    assert len({each.id for each in news}) == len(news)


@pytest.mark.parametrize(
    ("text", "number"),
    [("42", 42), ("4.2k", 4200), ("12k", 12_000), ("1,204", 1204), ("1.5M", 1_500_000), ("k", None), ("..", None)],
)
def test_tokens_are_read_as_they_are_rounded(text: str, number: int | None) -> None:
    assert parse_count(text) == number


def test_the_time_of_an_aider_prompt_comes_from_the_input_history(place: Place) -> None:
    (place.wt / ".aider.input.history").write_text("\n# 2026-11-18 08:05:01.070081\n+please greet\n# nonsense\n+x\n")
    place.put_all("edit")
    (one,) = place.seen()
    prompts = [each for each in one.events if each.kind == "prompt"]
    assert prompts[0].at < prompts[1].at or prompts[0].at == prompts[1].at
    assert one.facts.started_at is not None and one.facts.turn_at is not None
    assert prompts[0].at > one.facts.started_at


def test_the_state_after_the_end_of_an_aider_process(place: Place) -> None:
    place.put_all("edit")
    place.seen()
    (one,) = place.seen(0.6, alive=False)
    told = truth(one, place.at + 1)
    assert (told.state, told.ended, told.confidence) == (COMPLETED, True, "exact")
    place.put("\n#### more  \n")
    place.seen()
    (one,) = place.seen(0.6, alive=False)
    assert truth(one, place.at + 1).state == DEAD


def test_only_the_last_chat_of_a_long_file_is_read(place: Place) -> None:
    place.put_all("edit")
    place.put("x" * 3_000_000 + "\n")
    place.put("\n# aider chat started at 2026-11-18 09:00:00\n\n> Aider v0.86.3  \n\n#### new  \n")
    place.put("y" * 1_500_000 + "\n\n")
    (one,) = place.seen(5.0)
    assert (one.facts.version, one.facts.prompt) == ("0.86.3", "new")
    assert one.session is not None and one.session.endswith("20261118090000")
    assert [each.kind for each in one.events] == ["started", "prompt", "completed"]
    assert one.facts.tokens_in is None


def test_files_without_a_chat_and_gone_files(place: Place) -> None:
    place.put("nothing of aider's\n")
    assert place.seen() == []
    place.put_all("edit")
    assert len(place.seen()) == 1
    place.path.write_text("")
    os.utime(place.path, (place.at + 1, place.at + 1))
    assert place.seen() == []
    place.put_all("errors")
    assert len(place.seen()) == 1
    place.path.unlink()
    assert place.seen() == []


def test_old_aider_chats_are_not_read(place: Place) -> None:
    place.put_all("edit")
    assert place.seen(later=100_000.0, alive=False) == []


def test_aider_in_a_subfolder_and_with_its_history_elsewhere(place: Place) -> None:
    below = place.wt / "src"
    below.mkdir()
    place.put_all("edit")
    there = [process("aider", below, AT - 100)]
    (one,) = place.reader.read(world(place.wt, place.wt, now=place.at, processes=there), None)
    assert one.pid == 4242
    os.rename(place.path, below / "reducer.md")
    there = [process("aider", below, AT - 100, "aider", "--chat-history-file", "reducer.md")]
    (one,) = aider.make().read(world(place.wt, place.wt, now=place.at, processes=there), None)
    assert (one.pid, one.facts.prompt) == (4242, "and again")


def test_a_tick_opens_nothing(place: Place) -> None:
    place.put_all("edit")
    place.seen(5.0)
    with recorded("open", below=place.wt) as opened:
        place.seen(6.0)
    assert opened == []
    assert place.reader.watch_folders(world(place.wt, place.wt, now=place.at)) == [str(place.wt)]


PIECES = [
    "# aider chat started at ",
    "# aider chat started at 2026-99-99 xx\n",
    "\n#### ",
    "> ",
    "Tokens: ",
    "4.2k sent",
    ".k received",
    "  \n",
    "Applied edit to ",
    "Cost: $. session.",
    "\n",
    "Commit abcdef1",
    "(Y)es/(N)o [Yes]: ",
    "^C",
    "Running ",
    "é\x00\x1b[2J",
]


@settings(max_examples=80)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30))
def test_aider_lines_of_any_shape_raise_nothing(place: Place, pieces: list[str]) -> None:
    place.path.unlink(missing_ok=True)
    place.reader = aider.make()
    for piece in ("\n# aider chat started at 2026-11-18 08:04:59\n\n", *pieces):
        place.put(piece.encode("utf-8", "replace").decode("utf-8", "replace"))
    for one in place.seen(5.0):
        truth(one, place.at)


def test_the_aider_reducer_takes_any_bytes() -> None:
    reducer = AiderReducer("/wt", "not a moment")
    for line in (b"\xff\xfe  ", b"####  ", b">   ", b"> Tokens: k sent  ", b"> Model:  with   "):
        list(reducer.add(line, "k", "2026-11-18T08:00:00.000000+00:00"))
    assert reducer.started_at is None


class Lived(Place):
    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self.scan = ProcessScan(iter(range(10**6)).__next__)
        link = tmp / "bin/aider"
        link.parent.mkdir()
        link.symlink_to(FAKES / "aider.py")
        self.argv = [python(), str(link)]

    def decided(self, later: float = 0.0) -> tuple[str, Any, Sighting | None]:
        now = time.time() + later
        found = self.reader.read(world(self.wt, self.wt, now=now, processes=self.scan()), frozenset())
        if not found:
            return UNKNOWN, None, None
        (one,) = found
        told = truth(one, now)
        return told.state, told, one


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    yield Lived(tmp_path)


def play(lived: Lived, agent: Driven, *lines: tuple[str, str, str]) -> None:
    for command, at_once, later in lines:
        agent(command)
        assert (lived.decided()[0], lived.decided(5.0)[0]) == (at_once, later), command


def test_a_real_process_from_the_first_prompt_to_the_end(lived: Lived) -> None:
    with driven(lived.argv, lived.wt) as agent:
        play(
            lived,
            agent,
            ("prompt greet the world", RUNNING, RUNNING),
            ("reply Hello it is.", RUNNING, COMPLETED),
            ("tokens", RUNNING, COMPLETED),
            ("edit hello.txt", RUNNING, COMPLETED),
            ("prompt go on", RUNNING, RUNNING),
            ("retry", RUNNING, RUNNING),
            ("fail error 400", FAILED, FAILED),
            ("prompt go on", RUNNING, RUNNING),
            ("esc", CANCELLED, CANCELLED),
            ("prompt go on", RUNNING, RUNNING),
        )
        _, told, one = lived.decided()
        assert one is not None and (one.pid, one.alive) == (agent.process.pid, True)
        os.kill(agent.process.pid, signal.SIGSTOP)
        assert lived.decided()[0] == RUNNING
        os.kill(agent.process.pid, signal.SIGCONT)
        agent.process.kill()
        agent.process.wait(LIMIT)
        assert lived.decided()[0] == DEAD
    first = lived.decided()[2]
    with driven(lived.argv, lived.wt) as agent:
        play(
            lived,
            agent,
            ("prompt anew", RUNNING, RUNNING),
            ("reply Yes.", RUNNING, COMPLETED),
            ("tokens", RUNNING, COMPLETED),
        )
        agent.process.kill()
        agent.process.wait(LIMIT)
        state, told, one = lived.decided()
        assert (state, told.ended) == (COMPLETED, True), "--message ends like that"
        assert first is not None and one is not None
