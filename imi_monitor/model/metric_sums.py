"""Metrics summed up: by day, week, agent, team, worktree or repository; and as bars, CSV and OpenMetrics."""

from __future__ import annotations

from datetime import date, timedelta

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from imi_monitor.store.metrics import EndedSession

BARS = " ▁▂▃▄▅▆▇█"
NUMBERS = ("working_seconds", "seconds", "turns", "tools", "failures", "tokens_in", "tokens_out", "cost_usd")
_HELP = {
    "sessions": "sessions of agents that ended",
    "working_seconds": "time in which agents worked",
    "seconds": "time for which sessions lasted",
    "turns": "prompts that agents got",
    "tools": "tool calls",
    "failures": "failed tool calls, and sessions that failed or died",
    "tokens_in": "tokens that agents read",
    "tokens_out": "tokens that agents wrote",
    "cost_usd": "cost in US dollars, as far as agents report it",
}


@dataclass(frozen=True, slots=True)
class MetricSum:
    """The sum of some sessions. A number that none of them reports is None."""

    key: str
    sessions: int
    numbers: tuple[float | None, ...]  # in the order of NUMBERS

    def number(self, name: str) -> float | None:
        return float(self.sessions) if name == "sessions" else self.numbers[NUMBERS.index(name)]


def sum_up(ends: Iterable[EndedSession], key_of: Callable[[EndedSession], str]) -> list[MetricSum]:
    """One sum for each key, in the order of the keys."""
    groups: dict[str, list[EndedSession]] = {}
    for one in ends:
        groups.setdefault(key_of(one), []).append(one)
    return [MetricSum(key, len(groups[key]), _numbers(groups[key])) for key in sorted(groups)]


def day_of(one: EndedSession) -> str:
    """The local day on which it ended."""
    moment = times.parse(one.ended_at)
    return moment.astimezone().date().isoformat() if moment is not None else "?"


def week_of(one: EndedSession) -> str:
    """The Monday of that week."""
    day = day_of(one)
    if day == "?":
        return day
    moment = date.fromisoformat(day)
    return (moment - timedelta(days=moment.weekday())).isoformat()


def with_gaps(sums: Sequence[MetricSum], step: int, last: str) -> list[MetricSum]:
    """Return the sums, with empty ones for days or weeks (`step` days) up to `last` in which nothing ended."""
    known = {one.key: one for one in sums if one.key != "?"}
    if not known:
        return list(sums)
    found, day, end = [], date.fromisoformat(min(known)), date.fromisoformat(max(last, max(known)))
    while day <= end:
        key = day.isoformat()
        found.append(known.get(key) or MetricSum(key, 0, (None,) * len(NUMBERS)))
        day += timedelta(days=step)
    return found


def bars(numbers: Sequence[float | None]) -> str:
    """The numbers as bars, each at least visible if it is not zero."""
    most = max((number or 0 for number in numbers), default=0)
    return "".join(BARS[0 if not number else 1 + int(number * 7 // most)] for number in numbers)


def csv_lines(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """A table in CSV with its heading; an unknown value is empty."""
    return [",".join(names), *(",".join(_cell(row.get(name)) for name in names) for row in rows)]


def openmetrics_lines(sums: Sequence[tuple[Mapping[str, str], MetricSum]]) -> list[str]:
    """The text that Prometheus and the textfile collector of its node_exporter read."""
    lines: list[str] = []
    for name in ("sessions", *NUMBERS):
        values = [(labels, one.number(name)) for labels, one in sums]
        if all(value is None for _, value in values):
            continue
        lines += [f"# TYPE imi_{name} counter", f"# HELP imi_{name} {_HELP[name]}"]
        for labels, value in values:
            if value is not None:
                marks = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
                lines.append(f"imi_{name}_total{{{marks}}} {_plain(value)}")
    return [*lines, "# EOF"]


def _numbers(group: Sequence[EndedSession]) -> tuple[float | None, ...]:
    sums: list[float | None] = []
    for name in NUMBERS:
        known = [value for one in group if (value := getattr(one, name)) is not None]
        sums.append(sum(known) if known else None)
    return tuple(sums)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = str(value)
    if text[:1] in ("=", "+", "-", "@") and not isinstance(value, int | float):
        text = f"'{text}"  # spreadsheets would run it as a formula
    return '"' + text.replace('"', '""') + '"' if any(char in text for char in ',"\n\r') else text


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.6f}".rstrip("0")


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
