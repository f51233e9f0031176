"""Tokens of a session and its subagents: each message counts once, in whatever files it stands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from imi_monitor.model.agent import Agent
from imi_monitor.sources.agents.claude.records import TokenCounter, TokenLedger
from imi_monitor.sources.agents.claude.transcript import Transcript
from tests.sources.agents.claude_kit import Scene
from tests.sources.agents.fakes.claude import Claude


def message(ident: str, out: int = 5, request: str = "", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": out, "cache_read_input_tokens": 100}
    return {
        "type": "assistant",
        "timestamp": "2026-11-18T10:00:00Z",
        "isSidechain": True,
        "requestId": request,
        "message": {"id": ident, "role": "assistant", "model": "m", "content": [], "usage": usage},
        **more,
    }


def write(path: str, *records: dict[str, Any], mode: str = "a") -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def working(scene: Scene) -> Claude:
    """A session whose own file counts one message: 210 in, 42 out, 3000 from the cache or more."""
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.say("one")
    return claude


def below(claude: Claude, name: str) -> str:
    return f"{claude.path.removesuffix('.jsonl')}/subagents/agent-{name}.jsonl"


def tokens(agent: Agent) -> tuple[int | None, int | None, int | None]:
    return agent.facts.tokens_in, agent.facts.tokens_out, agent.facts.tokens_cached


def more_than(own: tuple[int | None, ...], messages: int) -> tuple[int, ...]:
    assert None not in own
    return tuple((one or 0) + each * messages for one, each in zip(own, (10, 5, 100), strict=True))


def settled(scene: Scene) -> Agent:
    for _ in range(200):
        agent = scene.agent()
        if not scene.reader.has_more:
            return agent
    raise AssertionError("it is never read to its beginning")


def test_tokens_of_subagents_belong_to_the_session(scene: Scene) -> None:
    claude = working(scene)
    own, window = tokens(scene.agent(whole=True)), scene.agent().facts.context_used
    write(below(claude, "a"), message("m1"), message("m2"))
    write(below(claude, "b"), message("m3"))
    agent = scene.agent()
    assert tokens(agent) == more_than(own, 3)
    assert agent.facts.context_used == window, "that is the session's own"
    write(below(claude, "b"), message("m4"))
    assert tokens(scene.agent()) == more_than(own, 4)


def test_a_message_in_several_files_counts_once(scene: Scene) -> None:
    claude = working(scene)
    own = tokens(scene.agent(whole=True))
    write(below(claude, "a"), message("m1"), message("m1"), message("m2"))
    write(below(claude, "b"), message("m1"), message("m2"), message("m3"))
    write(claude.path, message("m3"))  # as older versions kept them, in the session's own file
    assert tokens(scene.agent()) == more_than(own, 3)
    write(below(claude, "c"), message("m1", request="another"))
    assert tokens(scene.agent()) == more_than(own, 4), "numbers of messages are not always unique"


def test_a_copied_message_counts_once_wherever_it_stands() -> None:
    usage = TokenCounter()
    for number in (*range(2000), *range(2000)):
        usage.count((f"m{number}", ""), {"input_tokens": 1})
    assert usage.counted == (2000, 0, 0)


def test_a_message_that_grows_over_two_parts_of_a_file_counts_as_it_ended(scene: Scene) -> None:
    claude = working(scene)
    own = tokens(scene.agent(whole=True))
    write(below(claude, "a"), message("m1", out=1))
    scene.agent()
    write(below(claude, "a"), message("m1", out=5))
    assert tokens(scene.agent()) == more_than(own, 1)


def test_tokens_are_unknown_until_the_whole_transcript_is_read(scene: Scene) -> None:
    claude = working(scene)
    own = tokens(scene.agent(whole=True))
    filler = {"type": "progress", "text": "x" * 40_000}
    for number in range(100):
        write(below(claude, "a"), message(f"m{number}"), filler)
    agent = scene.agent()
    assert tokens(agent) == (None, None, None), "too few would be a lie"
    assert tokens(settled(scene)) == more_than(own, 100)


def test_tokens_of_old_subagents_are_counted(scene: Scene) -> None:
    claude = working(scene)
    for number in range(40):
        write(below(claude, f"n{number}"), message(f"m{number}"), message(f"again{number}"))
        os.utime(below(claude, f"n{number}"), (number, number))
    fresh = Transcript(claude.path)
    fresh.read()
    assert fresh.tokens is not None
    scene.read(whole=True)
    assert tokens(settled(scene)) == more_than(fresh.tokens, 80)
    scene.read(whole=True)
    write(below(claude, "n0"), message("m0"), message("new"))
    assert tokens(settled(scene)) == more_than(fresh.tokens, 81), "one of them goes on"


def test_tokens_of_a_replaced_file_are_counted_again(tmp_path: Path) -> None:
    path, ledger = str(tmp_path / "x" / "t.jsonl"), TokenLedger()
    transcript = Transcript(path, subagent=True, ledger=ledger)
    write(path, message("m1"), message("m2"))
    transcript.read()
    assert ledger.counted == (20, 10, 200)
    os.unlink(path)
    write(path, message("m3"))
    transcript.read()
    assert (ledger.counted, transcript.tokens) == ((10, 5, 100), (10, 5, 100))
