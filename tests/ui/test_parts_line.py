"""A line of parts ends with a whole part."""

from __future__ import annotations

import pytest
from textual.content import Content

from imi_monitor.ui.widgets.parts_line import fit_parts

LINE = "today  10 sessions · worked 4m 38s · waited for you 13m 55s · $1.37"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, LINE),
        (len(LINE), LINE),
        (len(LINE) - 1, "today  10 sessions · worked 4m 38s · waited for you 13m 55s"),
        (48, "today  10 sessions · worked 4m 38s"),
        (20, "today  10 sessions"),
        (10, "today  10…"),
    ],
)
def test_what_does_not_fit_is_left_out_part_by_part(width: int, shown: str) -> None:
    assert fit_parts(Content(LINE), width).plain == shown


def test_a_long_part_is_cut_where_leaving_it_out_would_leave_little() -> None:
    line = Content("Diff feat-api · 1 file +4 −0 since the last turn of claude-1 began, 50s ago")
    assert fit_parts(line, 60).plain == line.plain[:59] + "…"
