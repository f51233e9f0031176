"""Budgets of runs: a warning, an interrupt that keeps the session, and the same amount again after the user's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.runs import run_budget
from imi_monitor.runs.run_ingest import FollowedRun
from imi_monitor.store import db, run_usage, runs
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, kill_followers, registry
from tests.runs.test_limits import configure


def test_a_run_is_interrupted_when_its_money_is_used_up(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--budget", "0.014")  # each turn of the fake costs 0.01, counted at its end
    world.wait(run, "idle")
    world.imi("say", run, "[[spend]] [[slow]]")
    wait_for(lambda: world.events("run.interrupted"))
    world.wait(run, "idle")
    assert world.events("run.interrupted")[0] | {"run": ""} == {"run": "", "unit": "usd", "used": 0.02, "budget": 0.014}
    refused = world.imi("say", run, "[[ask]]")
    assert refused.code == 1 and f"the budget of {run[:8]} is used up: $0.02 of $0.01" in refused.err, refused.err
    said = world.imi("say", run, "--over-budget", "[[ask]]")
    assert said.code == 0 and "the same amount is allowed again" in said.out, said.err
    world.wait(run, "asks")
    assert len(world.events("run.interrupted")) == 1


def test_turns_that_are_over_use_a_budget_up_too(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--budget", "0.06")  # 0.01 for each turn, and as much for each [[spend]]
    world.wait(run, "idle")
    world.imi("say", run, "[[dear]] hi")  # 0.05 of 0.06
    wait_for(lambda: world.events("run.warned"))
    world.wait(run, "idle")
    kill_followers()  # the next one knows what was said
    assert world.imi("say", run, "[[dear]] hi").code == 0
    wait_for(lambda: world.events("run.used_up"))
    assert world.events("run.used_up") == [{"run": run, "unit": "usd", "used": 0.09, "budget": 0.06}]
    world.wait(run, "idle")
    refused = world.imi("say", run, "[[spend]]")
    assert refused.code == 1 and f"the budget of {run[:8]} is used up: $0.09 of $0.06" in refused.err, refused.err
    assert "--over-budget" in refused.err and world.run(run)["used"]["usd"] == pytest.approx(0.09)
    assert world.imi("say", run, "--over-budget", "hi").code == 0
    wait_for(lambda: world.run(run)["used"]["usd"] == pytest.approx(0.10))
    assert world.imi("say", run, "hi").code == 0, "the same amount again"
    wait_for(lambda: len(world.events("run.warned")) == 2)  # 0.11 of 0.12
    assert len(world.events("run.used_up")) == 1 and not world.events("run.interrupted")
    world.imi("say", run, "hi")
    wait_for(lambda: len(world.events("run.used_up")) == 2)
    world.imi("stop", run)
    world.wait(run, "completed")
    refused = world.imi("resume", run, "--prompt", "hi")
    assert refused.code == 1 and "is used up: $0.12 of $0.12" in refused.err, refused.err
    assert world.imi("resume", run, "--prompt", "hi", "--over-budget").code == 0


def test_minutes_of_a_turn_that_is_over_are_said_and_refuse_the_next_prompt(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--minutes", "10")
    world.wait(run, "idle")
    connection = db.connect(registry(), create=False)
    row = runs.by_id(connection, run)
    assert row is not None
    db.transact(connection, run_usage.add, row, None, None, 601.0, whole_session=False)
    wait_for(lambda: world.events("run.used_up"))
    refused = world.imi("say", run, "hi")
    assert refused.code == 1 and "is used up: 10 of 10 minutes" in refused.err, refused.err


def test_minutes_at_work_warn_and_interrupt(world: RunWorld) -> None:
    run = world.start("[[ask]]", "claude", "--minutes", "10")
    world.wait(run, "asks")
    kill_followers()
    connection = db.connect(registry(), create=False)
    row = runs.by_id(connection, run)
    assert row is not None
    one = FollowedRun(row)
    one.read_recorded(Path(one.folder.file("out")).stat().st_size)
    one.count_work()
    one.count_work()
    assert one.worked == 0, "one that asks does not work"
    for minutes, warned, interrupted in ((5, 0, 0), (9, 1, 0), (9, 1, 0), (11, 1, 1), (11, 1, 1), (21, 1, 2)):
        one.worked = minutes * 60.0
        run_budget.check(connection, one)
        assert (len(world.events("run.warned")), len(world.events("run.interrupted"))) == (warned, interrupted), minutes


@pytest.mark.parametrize(
    ("program", "words", "sentence"),
    [
        ("claude", ["--budget", "much"], "--budget 'much' is no amount of money"),
        ("claude", ["--budget", "0"], "--budget '0' is no amount of money"),
        (
            "codex",
            ["--budget", "5"],
            "codex does not report what it costs: use --minutes, or set the price of its model",
        ),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(
    world: RunWorld, program: str, words: list[str], sentence: str
) -> None:
    ran = world.imi("start", program, "--prompt", "x", *words)
    assert ran.code == 2 and sentence in ran.err
    assert world.imi("runs", "--json").data["runs"] == []


def test_money_follows_from_prices_where_a_program_reports_tokens(world: RunWorld, own_home: Path) -> None:
    configure(own_home, '[runs.prices]\nfake = "1 10 0.5"\n')  # 1.0 M fresh, 0.1 M out, 0.1 M cached: 1 + 1 + 0.05
    assert world.imi("start", "codex", "--prompt", "x", "--budget", "5", "--model", "other").code == 2
    run = world.start("hi", "codex", "--budget", "1.50")
    wait_for(lambda: world.run(run)["used"]["usd"] == pytest.approx(2.05))
    assert "$2.05" in world.imi("runs").out
    world.imi("stop", run)
    world.wait(run, "completed")
    again = world.imi("resume", run, "--prompt", "hi", "--over-budget", "--json").data["id"]
    world.wait(again, "idle")
    used = world.imi("runs", "--json").data
    assert used["today"]["usd"] == pytest.approx(2.05), "the tokens of a Codex thread are those of the whole session"


def test_tokens_without_a_price_are_said_to_be_tokens(world: RunWorld) -> None:
    run = world.start("hi", "codex")
    wait_for(lambda: world.run(run)["used"]["tokens"] == 1_100_000)
    assert world.run(run)["used"]["usd"] is None
    assert "today  1,100,000 tokens of programs that report no money and have no price" in world.imi("runs").out


def test_the_budget_of_a_day_interrupts_all_and_is_asked_for(world: RunWorld, own_home: Path) -> None:
    configure(own_home, '[runs]\nday_budget = "0.036"\nbudget = "1"\n')
    slow = world.start("[[slow]]", "codex", "--in", "app")
    run = world.start("hi")
    world.wait(run, "idle")
    world.imi("say", run, "[[spend]]")  # 0.02 and 0.01
    wait_for(lambda: world.events("budget.warned"))
    assert world.run(slow)["shown_state"] == "works" and world.run(run)["budget"] == {"usd": 1.0}
    world.imi("say", run, "[[dear]] [[slow]]")
    wait_for(lambda: world.events("budget.used_up"))
    for one in (slow, run):
        world.wait(one, "idle")
    refused = world.imi("start", "claude", "--prompt", "hi", "--in", "app")
    assert refused.code == 1 and "today's budget is used up: $0.06 of $0.04" in refused.err, refused.err
    assert "--over-budget" in refused.err
    assert "today  $0.06 of $0.04" in world.imi("runs").out
    said = world.imi("say", run, "[[ask]]")
    assert "the same amount is allowed again" in said.out
    world.wait(run, "asks")
    assert world.imi("start", "codex", "--prompt", "hi", "--in", "app").code == 0
    assert len(world.events("budget.used_up")) == 1 and len(world.events("budget.warned")) == 1


def test_nothing_of_the_queue_starts_while_the_day_is_used_up(world: RunWorld, own_home: Path) -> None:
    configure(own_home, "[runs]\nat_once = 1\nday_minutes = 10\n")
    first = world.start("[[slow]]", "codex", "--in", "app")
    second = world.start("hi")
    connection = db.connect(registry(), create=False)
    row = runs.by_id(connection, first)
    assert row is not None
    db.transact(connection, run_usage.add, row, None, None, 601.0, whole_session=False)
    world.wait(first, "idle")
    assert world.run(second)["place"] == 1
    ran = world.imi("start", "codex", "--prompt", "hi", "--in", "app", "--over-budget")
    assert ran.code == 0
    world.wait(second, "idle")
