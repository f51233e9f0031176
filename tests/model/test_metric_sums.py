"""Sums of metrics: what is unknown stays unknown, empty days are shown, and other programs can read the export."""

from __future__ import annotations

import csv
import io

from imi_monitor.model import metric_sums
from imi_monitor.store.metrics import EndedSession


def ended(at: str, *, agent: str = "a", cost: float | None = None, worked: float | None = 60.0) -> EndedSession:
    return EndedSession(at, "app", "feat-x", agent, "claude", "done", 100.0, worked, 2, 3, 0, 1000, None, cost)


def test_days_and_weeks_have_no_holes_and_unknown_is_not_zero() -> None:
    ends = [ended("2026-01-01T12:00:00+00:00"), ended("2026-01-04T12:00:00+00:00", cost=1.5), ended("never")]
    days = metric_sums.with_gaps(metric_sums.sum_up(ends, metric_sums.day_of), 1, "2026-01-05")
    assert [(one.key[-2:], one.sessions, one.number("cost_usd")) for one in days] == [
        ("01", 1, None),
        ("02", 0, None),
        ("03", 0, None),
        ("04", 1, 1.5),
        ("05", 0, None),
    ]
    weeks = metric_sums.sum_up(ends[:2], metric_sums.week_of)
    assert [(one.key, one.sessions, one.number("tokens_in"), one.number("tokens_out")) for one in weeks] == [
        ("2025-12-29", 2, 2000, None)
    ]
    assert metric_sums.bars([0, 1, None, 1000]) == " ▁ █"


def test_csv_is_read_back_and_no_cell_is_a_formula() -> None:
    rows = [{"agent": '=cmd|"x",1', "n": -2.5}, {"agent": "b\nc", "n": None}]
    read = list(csv.DictReader(io.StringIO("\n".join(metric_sums.csv_lines(("agent", "n"), rows)))))
    assert read == [{"agent": '\'=cmd|"x",1', "n": "-2.5"}, {"agent": "b\nc", "n": ""}]


def test_openmetrics_has_its_form() -> None:
    (total,) = metric_sums.sum_up([ended("2026-01-01T12:00:00+00:00", cost=0.25)], lambda one: one.agent_id)
    lines = metric_sums.openmetrics_lines([({"agent": 'a"\\\n'}, total)])
    assert lines[-1] == "# EOF" and 'imi_sessions_total{agent="a\\"\\\\\\n"} 1' in lines
    assert 'imi_cost_usd_total{agent="a\\"\\\\\\n"} 0.25' in lines and "# TYPE imi_cost_usd counter" in lines
    assert not any("tokens_out" in line for line in lines), "what nothing reports is left out"
