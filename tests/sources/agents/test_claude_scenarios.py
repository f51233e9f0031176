"""Every scenario of Claude Code, step by step, through the reader and the decision about its state.

Each scenario is played twice: with Claude's live registry, where every state must be right, and with transcripts alone
(an old version), where an ambiguous state must be marked as uncertain. No state may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RUNNING, UNKNOWN, WAITING, Agent
from tests.sources.agents.claude_kit import Scene
from tests.sources.agents.fakes.claude import Claude


@dataclass(frozen=True)
class Step:
    """An act of the fake and the state after it. `shown`: a part of the tool or of the detail."""

    act: Callable[[Claude], object]
    state: str
    shown: str | None = None
    quiet: float = 0.0  # seconds that pass before the read


Scenario = Sequence[Step]


def _subagent(claude: Claude) -> None:
    below = claude.subagent()
    below.tool("Grep", pattern="needle")


def _subagent_over(claude: Claude) -> None:
    (below,) = claude.subagents.values()
    below.result("found")
    claude.subagent_over(below)


SCENARIOS: dict[str, Scenario] = {
    "an edit": (
        Step(lambda c: c.prompt("make it so"), RUNNING),
        Step(lambda c: c.say("I'll do it."), RUNNING),
        Step(lambda c: c.tool("Edit", file_path=f"{c.cwd}/src/api.ts"), RUNNING, "Edit src/api.ts"),
        Step(lambda c: c.result(), RUNNING),
        Step(lambda c: c.tool("Bash", command="pytest -q"), RUNNING, "Bash pytest -q"),
        Step(lambda c: c.result("1 failed", ok=False), RUNNING),
        Step(lambda c: c.finish("Done."), COMPLETED),
        Step(lambda c: c.aside(), COMPLETED),
    ),
    "a permission": (
        Step(lambda c: c.prompt("touch it"), RUNNING),
        Step(lambda c: (c.tool("Bash", command="touch x"), c.ask()), WAITING, "permission for Bash touch x"),
        Step(lambda c: c.result(), RUNNING),
        Step(lambda c: c.finish("Touched."), COMPLETED),
    ),
    "a permission refused": (
        Step(lambda c: c.prompt("touch it"), RUNNING),
        Step(lambda c: (c.tool("Bash", command="touch x"), c.ask()), WAITING),
        Step(lambda c: c.esc(), CANCELLED),
    ),
    "a question": (
        Step(lambda c: c.prompt("ask me"), RUNNING),
        Step(lambda c: c.question("Which colour?"), WAITING, "question: Which colour?"),
        Step(lambda c: c.result("Blue"), RUNNING),
        Step(lambda c: c.finish("Blue it is."), COMPLETED),
    ),
    "a plan": (
        Step(lambda c: c.prompt("think first", mode="plan"), PLANNING),
        Step(lambda c: c.tool("Read", file_path="/etc/hosts"), PLANNING, "Read /etc/hosts"),
        Step(lambda c: c.result("127.0.0.1"), PLANNING),
        Step(lambda c: c.plan("1. do it"), WAITING, "plan approval"),
        Step(lambda c: c.result("approved"), RUNNING),
        Step(lambda c: c.finish("Done."), COMPLETED),
    ),
    "a plan refused": (
        Step(lambda c: c.prompt("think first", mode="plan"), PLANNING),
        Step(lambda c: c.plan("1. do it"), WAITING),
        Step(lambda c: c.result("no, otherwise", ok=False), PLANNING),
    ),
    "esc while it talks": (
        Step(lambda c: c.prompt("talk"), RUNNING),
        Step(lambda c: (c.say("word word", stop=None), c.esc()), CANCELLED),
        Step(lambda c: c.prompt("go on"), RUNNING),
    ),
    "esc in a tool": (
        Step(lambda c: c.prompt("sleep"), RUNNING),
        Step(lambda c: c.tool("Bash", command="sleep 20"), RUNNING, "Bash sleep 20"),
        Step(lambda c: c.esc(), CANCELLED),
    ),
    "an error of the server": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(lambda c: c.fail("API Error: 400 no"), FAILED, "API Error: 400 no"),
        Step(lambda c: c.prompt("again"), RUNNING),
        Step(lambda c: c.fail("You've hit your limit · resets 3pm"), FAILED, "hit your limit"),
    ),
    "an error of the server while a tool runs": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(lambda c: c.tool("Bash", command="sleep 20"), RUNNING, "Bash sleep 20"),
        Step(lambda c: c.fail("API Error: 500"), FAILED, "API Error: 500"),
        Step(lambda c: (c.register("busy"), c.retry(1)), RUNNING, "None retrying 1/10"),
    ),
    "a refusal": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(
            lambda c: (c.say("I cannot help with that.", stop="refusal"), c.register("idle")),
            FAILED,
            "refused to answer",
        ),
    ),
    "retries": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(lambda c: c.retry(1), RUNNING, "retrying 1/10"),
        Step(lambda c: c.retry(2), RUNNING, "retrying 2/10: Connection dropped"),
        Step(lambda c: c.finish("there again"), COMPLETED),
    ),
    "esc while it retries": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(lambda c: c.retry(1), RUNNING),
        Step(lambda c: c.esc_while_retrying(), CANCELLED, "stopped without a record", quiet=2.0),
        Step(lambda c: c.prompt("once more"), RUNNING),
    ),
    "a command in the background": (
        Step(lambda c: c.prompt("serve"), RUNNING),
        Step(lambda c: c.background("npm run dev"), RUNNING),
        Step(lambda c: c.finish("It runs."), RUNNING, "Bash npm run dev"),
        Step(lambda c: c.background_over(), RUNNING),
        Step(lambda c: c.finish("It ended."), COMPLETED),
    ),
    "a subagent in the background": (
        Step(lambda c: c.prompt("look around"), RUNNING),
        Step(_subagent, RUNNING),
        Step(lambda c: c.finish("It looks."), RUNNING, "Grep needle"),
        Step(_subagent_over, RUNNING),
        Step(lambda c: c.finish("It is back."), COMPLETED),
    ),
    "a compaction": (
        Step(lambda c: c.prompt("long"), RUNNING),
        Step(lambda c: c.tool("Bash", command="true"), RUNNING),
        Step(lambda c: c.result(), RUNNING),
        Step(lambda c: c.compact(), RUNNING),
        Step(lambda c: c.finish("Done."), COMPLETED),
        Step(lambda c: c.compact(), COMPLETED),
    ),
    "its own commands": (
        Step(lambda c: (c.prompt("x"), c.finish("y")), COMPLETED),
        Step(lambda c: c.command("model"), COMPLETED),
    ),
    "messages that do not say whether they are the last": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(lambda c: c.say("One moment.", stop=None), RUNNING),
        Step(lambda c: c.tool("Bash", command="true"), RUNNING, "Bash true"),
        Step(lambda c: c.result(), RUNNING),
        Step(lambda c: (c.say("Done.", stop=None), c.register("idle")), COMPLETED),
    ),
    "unknown records": (
        Step(lambda c: c.prompt("x"), RUNNING),
        Step(lambda c: c.line({"type": "hologram", "depth": [1, {"type": "user"}]}), RUNNING),
        Step(lambda c: c.raw(b"not json at all\n\n"), RUNNING),
        Step(lambda c: c.raw(b'\xff\xfe\x00\n[1,2]\n"text"\nnull\n'), RUNNING),
        Step(lambda c: c.finish("y"), COMPLETED),
    ),
}


def judged(agent: Agent, step: Step) -> str:
    """right, wrong, or unknown (the evidence names the right state as an alternative)."""
    truth = agent.truth
    if truth.state == step.state:
        return "right"
    doubted = any(step.state in one.or_else for one in truth.used)
    return "unknown" if truth.state == UNKNOWN or doubted else "wrong"


@pytest.mark.parametrize("name", SCENARIOS)
def test_with_the_registry_every_state_is_right(name: str, scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    assert scene.state() == COMPLETED
    for number, step in enumerate(SCENARIOS[name]):
        scene.wait(1.5)
        step.act(claude)
        scene.wait(step.quiet)
        agent = scene.agent()
        assert agent.state == step.state, (name, number, agent.truth)
        told = f"{agent.truth.tool} {agent.truth.detail}"
        assert step.shown is None or step.shown in told, (name, number, told)
        assert agent.truth.source and agent.truth.since, (name, number)


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_a_registry_ambiguous_states_are_uncertain(name: str, scene: Scene) -> None:
    claude = scene.claude(registers=False, version="2.0.50")
    for number, step in enumerate(SCENARIOS[name]):
        scene.wait(1.5)
        step.act(claude)
        scene.wait(step.quiet)
        agent = scene.agent()
        assert judged(agent, step) != "wrong", (name, number, agent.truth)
