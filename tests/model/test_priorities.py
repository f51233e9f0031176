"""Items from priority files and task definitions, in the shapes that people really write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model import board, priorities

BLOCKS = """# Priority 1

**Description:** Add a `token refresh`. It fails at night.
**Expected outcome:**
- sessions survive midnight
- a test shows it
**Files:** src/auth.ts
**Dependencies:** none
**Complexity:** Low

# Priority 2: Faster start

**Description:** Measure first.
```
# Priority 9
```
## Priority notes of a reader

# Priority 3

# Priority 4
**Priority:** high

# Priority 5
Just say it. And more.
"""
BOXES = """# Marketing Priority - Q1

**Priority Level:** High

### 1. Content Marketing
- [ ] Blog post: "Why we measure"
- [x] Landing page
* [ ] [A link](https://example.invalid) and **bold**
### 2. Mail
1. [ ] Newsletter
"""


def made(name: str, text: str) -> list[tuple[str, str]]:
    return [(one.title, one.priority) for one in priorities.parse(name, text).items]


def test_blocks_of_priorities() -> None:  # S4.14
    found = priorities.parse("reports/priorities-2026-11-19.md", BLOCKS)
    assert [(one.title, one.priority) for one in found.items] == [
        ("Add a token refresh", "high"),
        ("Faster start", "medium"),
        ("Priority 3", "low"),
        ("Priority 4", "high"),
        ("Just say it", "low"),
    ]
    assert "sessions survive midnight" in found.items[0].text and "# Priority 9" in found.items[1].text
    assert [one.number for one in found.items] == [1, 2, 3, 4, 5]
    assert len({one.sha256 for one in found.items}) == 5


def test_boxes_under_a_priority_level() -> None:
    found = priorities.parse("marketing-priority-20260207.md", BOXES)
    assert [(one.title, one.text) for one in found.items] == [
        ('Blog post: "Why we measure"', "Marketing Priority - Q1 / 1. Content Marketing"),
        ("A link and bold", "Marketing Priority - Q1 / 1. Content Marketing"),
        ("Newsletter", "Marketing Priority - Q1 / 2. Mail"),
    ]
    assert {one.priority for one in found.items} == {"high"} and found.done == 1
    ticked = priorities.parse("x.md", BOXES.replace("- [ ] Blog", "- [x] Blog"))
    assert [one.sha256 for one in ticked.items] == [one.sha256 for one in found.items[1:]], (
        "the others stay the same items"
    )


def test_headings_or_the_whole_file() -> None:
    assert made("x.md", "# Plan\nintro\n## First\na\n## Second\nb\n### deeper\n") == [
        ("First", "medium"),
        ("Second", "medium"),
    ]
    assert made("x.md", "# Only a title\n\ntext\n") == [("Only a title", "medium")]
    assert made("reports/today.md", "just text\n**Priority:** low") == [("today", "low")]
    assert priorities.parse("x.md", " \n\n").problem == "the file is empty"


def test_definitions() -> None:  # S4.16
    whole = (
        '{"type": "marketing-campaign", "priority": "high", "deliverables": ["blog-post", {"name": "mail", "n": 3}],'
    )
    whole += ' "target_audience": "enterprise-healthcare"}'
    found = priorities.parse("tasks/marketing-prd.json", whole)
    assert [one.title for one in found.items] == [
        "blog-post for enterprise-healthcare",
        "mail for enterprise-healthcare",
    ]
    assert {(one.kind, one.priority) for one in found.items} == {("marketing-campaign", "high")}
    assert "n: 3" in found.items[1].text
    assert made("tasks/marketing-prd.json", '{"type": "marketing-campaign", "priority": "high"}') == [
        ("marketing-prd", "high")
    ]
    assert made("tasks/x.json", '{"title": "t", "deliverables": []}') == [("t", "medium")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"type": "mark', "the file is no JSON in line 1"),
        ("[]", "the file is no JSON object"),
        ("[" * 100_000, "the file is no JSON"),
    ],
)
def test_a_definition_that_is_torn(text: str, problem: str) -> None:
    assert priorities.parse("tasks/x.json", text).problem == problem


def test_dates_in_names() -> None:
    names = ("priorities-2026-02-08.md", "marketing-priority-20260207.md", "x.md")
    assert [priorities.date_of(name) for name in names] == ["2026-02-08", "2026-02-07", ""]


@given(st.text(st.sampled_from(list('# \n-*[]xX12.`~:Ppriority\u202e\x1b{}",')), max_size=200), st.booleans())
def test_any_text_is_items_or_a_problem(text: str, is_json: bool) -> None:
    found = priorities.parse("x.json" if is_json else "x.md", text)
    assert (found.problem is None) == bool(found.items or found.done)
    assert all(one.priority in board.PRIORITIES and one.title for one in found.items)
