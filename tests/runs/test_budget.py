"""Budgets of runs: a warning, an interrupt that keeps the session, and the same amount again after the user's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.runs import run_budget
from imi_monitor.runs.run_ingest import FollowedRun
from imi_monitor.store import db, runs
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, registry


def test_a_run_is_interrupted_when_its_money_is_used_up(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--budget", "0.015")  # each turn of the fake costs 0.01, counted at its end
    world.wait(run, "idle")
    world.imi("say", run, "[[spend]] [[slow]]")
    wait_for(lambda: world.events("run.interrupted"))
    world.wait(run, "idle")
    assert world.events("run.interrupted")[0] | {"run": ""} == {"run": "", "unit": "usd", "used": 0.02, "budget": 0.015}
    world.imi("say", run, "[[ask]]")  # with the same amount again
    world.wait(run, "asks")
    assert len(world.events("run.interrupted")) == 1


def test_minutes_warn_and_interrupt(world: RunWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.start("[[ask]]", "claude", "--minutes", "10")
    world.wait(run, "asks")
    connection = db.connect(registry(), create=False)
    row = runs.by_id(connection, run)
    assert row is not None
    one = FollowedRun(row)
    one.read_recorded(Path(one.folder.file("out")).stat().st_size)
    clock = times.clock
    for minutes, warned, interrupted in ((5, 0, 0), (9, 1, 0), (9, 1, 0), (11, 1, 1), (11, 1, 1), (21, 1, 2)):
        monkeypatch.setattr(times, "clock", lambda minutes=minutes: clock() + minutes * 60 * 10**9)
        run_budget.check(connection, one)
        assert (len(world.events("run.warned")), len(world.events("run.interrupted"))) == (warned, interrupted), minutes


@pytest.mark.parametrize(
    ("program", "words", "sentence"),
    [
        ("claude", ["--budget", "much"], "--budget 'much' is no amount of money"),
        ("claude", ["--budget", "0"], "--budget '0' is no amount of money"),
        ("codex", ["--budget", "5"], "codex does not report what it costs: use --minutes"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(
    world: RunWorld, program: str, words: list[str], sentence: str
) -> None:
    ran = world.imi("start", program, "--prompt", "x", *words)
    assert ran.code == 2 and sentence in ran.err
    assert world.imi("runs", "--json").data["runs"] == []
