"""Conflict markers become hunks with sides; text that only resembles a marker stays text; all within limits."""

from __future__ import annotations

from imi_monitor.model.collision import BASE, CUT, OURS, SAME, THEIRS, conflict_hunks

TEXT = """one
two
<<<<<<< aaaa
mine
||||||| bbbb
was
=======
theirs
=======
>>>>>>> cccc
three
"""


def test_a_conflict_has_sides_and_context() -> None:
    (found,) = conflict_hunks(TEXT)
    assert found.at == 3
    assert [(line.side, line.text) for line in found.lines] == [
        (SAME, "one"),
        (SAME, "two"),
        (OURS, "mine"),
        (BASE, "was"),
        (THEIRS, "theirs"),
        (THEIRS, "======="),
        (SAME, "three"),
    ]


def test_no_closing_marker_is_no_conflict() -> None:
    assert conflict_hunks("<<<<<<< a\nx\n=======\n") == ()
    assert conflict_hunks("") == ()


def test_carriage_returns_are_not_part_of_a_line() -> None:
    (found,) = conflict_hunks("<<<<<<< a\r\nx\r\n=======\ny\n>>>>>>> b\r\n")
    assert [line.text for line in found.lines] == ["x", "y"]


def test_a_long_conflict_is_cut_and_counted() -> None:
    many = "<<<<<<< a\n" + "x\n" * 1000 + "=======\ny\n>>>>>>> b\n"
    (found,) = conflict_hunks(many, most_lines=10)
    assert len(found.lines) == 11
    assert found.lines[-1].side == CUT and found.lines[-1].text == "991 more lines"


def test_many_conflicts_are_cut_and_counted() -> None:
    one = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n" + "between\n" * 10
    found = conflict_hunks(one * 100, most_lines=20)
    assert sum(len(hunk.lines) for hunk in found) < 40
    assert found[-1].lines[0].side == CUT
    shown = len(found) - 1
    assert found[-1].lines[0].text == f"{100 - shown} more conflicts"
