"""The status of worktrees as lines and tables, in the words of the specification."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model import times, worktree_table
from imi_monitor.model.columns import cell_width
from imi_monitor.model.worktree_table import ListedWorktree, WorktreeStatus

NOW = datetime(2026, 1, 27, 15, 30, tzinfo=UTC)


def ago(seconds: float) -> str:
    return times.stamp(NOW - timedelta(seconds=seconds))


API = WorktreeStatus(
    ListedWorktree("feat-api", "app", "/w/feat-api", "feat/api", "feat", agent_id="claude-1", claim_state="held"),
    head="a" * 40,
    upstream="origin/feat/api",
    ahead=3,
    behind=0,
    trunk="origin/main",
    trunk_ahead=3,
    trunk_behind=1,
    staged=0,
    unstaged=0,
    untracked=0,
    conflicted=0,
    uncommitted=0,
    last_commit_at=ago(200),
)
BUG = WorktreeStatus(
    ListedWorktree("fix-bug", "app", "/w/fix-bug", "fix/bug", "fix"),
    head="b" * 40,
    upstream="origin/fix/bug",
    ahead=0,
    behind=0,
    staged=1,
    unstaged=1,
    untracked=0,
    conflicted=0,
    uncommitted=2,
    last_commit_at=ago(7300),
    last_change_at=ago(1),
    last_change_path="src/bug.rs",
)
BROKEN = WorktreeStatus(
    ListedWorktree("odd", "app", "/w/odd", None, "unknown"), error="git status failed in /w/odd: bad index"
)


# S2.37, S2.38, S2.39
def test_narrow_lines_have_the_specified_form() -> None:
    with_change = replace(API, last_change_at=ago(2), last_change_path="src/api.ts")
    one = replace(API, known=replace(API.known, worktree_name="feat-ui", agent_id="gemini-2"), ahead=1)
    assert worktree_table.status_table([with_change, one, BUG], 60, NOW) == [
        "feat-api (claude-1)",
        "  ✓ 3 commits ahead",
        "  • src/api.ts (2s ago)",
        "feat-ui (gemini-2)",
        "  ✓ 1 commit ahead",
        "fix-bug (unclaimed)",
        "  ⚠ 2 uncommitted",
        "  • src/bug.rs (1s ago)",
    ]


def test_narrow_lines_of_unusual_states() -> None:
    rebasing = replace(BUG, operation="rebase", conflicted=1, behind=2, last_change_path=None)
    fresh = replace(
        BUG, upstream=None, ahead=None, behind=None, trunk="main", trunk_ahead=2, trunk_behind=1, uncommitted=0
    )
    gone = replace(API, ahead=None, behind=None)
    lost = WorktreeStatus(replace(BUG.known, missing=True, prunable="its folder is gone"), error="missing")
    stale = replace(API, known=replace(API.known, claim_state="stale", locked="on a stick"), ahead=0)
    shown = [
        "\n".join(worktree_table.status_table([one], 60, NOW)) for one in (rebasing, fresh, gone, lost, stale, BROKEN)
    ]
    assert shown == [
        "fix-bug (unclaimed)\n  ↓ 2 commits behind\n  … rebase in progress\n  ✗ 1 conflict\n  ⚠ 2 uncommitted",
        "fix-bug (unclaimed)\n  ✓ 2 commits ahead of main\n  ↓ 1 commit behind main\n  • src/bug.rs (1s ago)",
        "feat-api (claude-1)\n  ? upstream origin/feat/api is gone",
        "fix-bug (unclaimed)\n  ✗ missing: its folder is gone",
        "feat-api (claude-1 (stale))\n  ✗ locked: on a stick\n  ✓ clean",
        "odd (unclaimed)\n  ? git status failed in /w/odd: bad index",
    ]


def test_a_wide_terminal_gets_a_table() -> None:
    assert worktree_table.status_table([API, BUG, BROKEN], None, NOW) == [
        "Name      Owner      Branch      Upstream  Trunk  Staged  Changed  New  Conflicts  Commit  Last change    Note",
        "feat-api  claude-1   feat/api    ↑3        ↑3 ↓1                                       3m",
        "fix-bug   unclaimed  fix/bug     =                     1        1                      2h  src/bug.rs 1s",
        "odd       unclaimed  (detached)  ?         ?           ?        ?    ?          ?       ?"
        "                 git status failed in /w/odd: bad index",
    ]


def test_the_wall_around_a_started_agent_is_named_and_none_is_empty() -> None:
    walled, off = (replace(API, known=replace(API.known, wall=level)) for level in ("write", "off"))
    head, row = worktree_table.status_table([walled], 140, NOW)
    assert row[head.index("Wall") :].startswith("write")
    assert "Wall" not in worktree_table.status_table([off, BUG], 140, NOW)[0]
    assert "  • behind a wall: write" in worktree_table.status_table([walled], 60, NOW)
    assert (walled.data()["wall"], off.data()["wall"], BUG.data()["wall"]) == ("write", "off", None)


def test_unknown_is_never_zero_or_clean() -> None:
    for width in (None, 200, 60):
        text = "\n".join(worktree_table.status_table([BROKEN], width, NOW))
        assert "clean" not in text and "=" not in text and "?" in text
    data = BROKEN.data()
    keys = ("ahead", "behind", "staged", "unstaged", "untracked", "conflicted", "uncommitted", "head", "upstream")
    assert [data[key] for key in keys] == [None] * len(keys)


def test_several_repositories_have_a_column() -> None:
    other = replace(BUG, known=replace(BUG.known, repo="tool"))
    assert worktree_table.status_table([API, other], 140, NOW)[0].startswith("Repo")
    assert worktree_table.list_table([API.known, other.known], None)[2].split()[0] == "tool"


hostile = st.text(st.characters(codec="utf-8"), max_size=60)


@given(hostile, hostile, hostile, st.integers(1, 200))
def test_hostile_names_neither_wrap_nor_control_the_terminal(
    name: str, agent: str, path: str, width: int
) -> None:  # T3
    reading = replace(
        BUG,
        known=replace(BUG.known, worktree_name=name, agent_id=agent, claim_state="held", locked=path),
        last_change_path=path,
        error=None,
    )
    lines = worktree_table.status_table([reading, BROKEN], width, NOW) + worktree_table.list_table(
        [reading.known], width
    )
    assert all(cell_width(line) <= width and line.isprintable() for line in lines)
