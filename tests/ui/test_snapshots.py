"""Every screen as a picture, looked at before it was accepted (`make snap`). A new screen is one line in PICTURES."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui import demo_repository, sample_agents, sample_runs, sample_snapshots, sample_team
from tests.ui.snapshot_kit import (
    ACCEPTING,
    FOLDER,
    LEAST,
    LONG_REST,
    MIDDLE,
    NARROW,
    SHORT_REST,
    WIDE,
    Picture,
    Tour,
    agrees,
    check,
    taken,
    toured,
    unused,
)

LIGHT = "imi-light"
NO_COLOR = {"NO_COLOR": "1"}
SIZES = ((60, 40), (80, 24), (100, 30), (140, 40), (200, 50))

HOST_7 = ("slash", *"host:host-07", "enter")
PICTURES = [
    # the home screen at its widths, and in its moods
    Picture("home-140"),
    Picture("home-100", size=MIDDLE),
    Picture("home-60", size=NARROW),
    Picture("home-40", size=LEAST),
    Picture("home-light", theme=LIGHT),
    Picture("home-60-light", size=NARROW, theme=LIGHT),
    Picture("home-no-color", env=NO_COLOR),
    Picture("home-60-no-color", size=NARROW, env=NO_COLOR),
    Picture("home-ascii", ascii_only=True),
    Picture("home-60-ascii", size=NARROW, ascii_only=True),
    Picture("home-colour-blind", theme="imi-colour-blind"),
    Picture("home-colour-blind-light", theme="imi-colour-blind-light"),
    Picture("home-16", theme="imi-16"),
    Picture("home-starting", sample_snapshots.nothing_yet),
    Picture("home-empty", sample_snapshots.empty),
    Picture("home-60-empty", sample_snapshots.empty, size=NARROW),
    Picture("home-needy", sample_snapshots.needy),
    Picture("home-60-needy", sample_snapshots.needy, size=NARROW),
    Picture("home-failing", sample_snapshots.failing),
    Picture("home-60-failing", sample_snapshots.failing, size=NARROW),
    Picture("home-200", sample_snapshots.many),
    Picture("home-60-200", sample_snapshots.many, size=NARROW, keys=("end",)),
    Picture("home-fleet", sample_snapshots.fleet),
    Picture("home-read-only", options={"read_only": True}),
    Picture("home-paused", keys=("p",)),
    Picture("home-filter", keys=("slash", *"feat")),
    Picture("home-filter-none", keys=("slash", *"zzz")),
    Picture("home-zoom", keys=("z",)),
    Picture("preset-list-and-agents", sample_agents.at_work, keys=("7",)),
    Picture("theme-nord", sample_agents.trouble, theme="nord"),
    Picture("theme-solarized-light", sample_agents.trouble, theme="solarized-light"),
    Picture("home-sorted", keys=("s",)),
    Picture("home-grouped", keys=("b",)),
    Picture("home-marked", keys=("m", "m")),
    Picture("home-100-agents", size=MIDDLE, keys=("3",)),
    Picture("home-100-changes", size=MIDDLE, keys=("4",)),
    Picture("home-60-git", size=NARROW, keys=("2",)),
    # twelve worktrees on a quiet day, twenty with forty agents, at each width
    *(Picture(f"quiet-{size[0]}", sample_snapshots.quiet, size=size) for size in SIZES),
    *(Picture(f"swarm-{size[0]}", sample_agents.swarm, size=size) for size in SIZES),
    # pull requests beside the worktrees, with the Git panel of one
    *(
        Picture(f"pull-requests-{size[0]}", sample_snapshots.reviewed, size=size, keys=("end", "up"))
        for size in (NARROW, MIDDLE, (140, 40), (200, 50))
    ),
    *(
        Picture(f"unread-{size[0]}", sample_snapshots.unread, size=size, keys=("s", "r"))
        for size in (NARROW, MIDDLE, (140, 40), (200, 50))
    ),
    # a team: three homes at each width, twenty homes of which one is cut off, and their list
    *(Picture(f"team-{size[0]}", sample_team.team, size=size) for size in SIZES),
    *(Picture(f"team-of-twenty-{size[0]}", sample_team.large_team, size=size) for size in SIZES),
    Picture("team-cut-off-140", sample_team.large_team, size=(140, 40), keys=HOST_7),
    Picture("team-returned-140", sample_team.returned_team, size=(140, 40), keys=HOST_7),
    Picture("team-remote", sample_team.team, keys=("slash", *"is:remote", "enter")),
    Picture("view-hosts", sample_team.team, keys=("C",)),
    Picture("view-60-hosts", sample_team.team, size=NARROW, keys=("C",)),
    Picture("view-collisions-team", sample_team.team, keys=("x",)),
    Picture("palette-search-60", size=NARROW, keys=("colon", *"rem")),
    Picture("home-small", size=(38, 11)),
    # the demonstration as it is after some twenty minutes: the picture of the README
    Picture("home-demo", real=True, dressed=sample_agents.demo),
    # agents at work, and in trouble
    Picture("agents-140", sample_agents.at_work),
    Picture("agents-100", sample_agents.at_work, size=MIDDLE, keys=("3",)),
    Picture("agents-60", sample_agents.at_work, size=NARROW),
    Picture("agents-60-panel", sample_agents.trouble, size=NARROW, keys=("3",)),
    Picture("agents-light", sample_agents.trouble, theme=LIGHT),
    Picture("agents-trouble", sample_agents.trouble),
    Picture("agents-60-trouble", sample_agents.trouble, size=NARROW),
    Picture("agents-ascii", sample_agents.trouble, ascii_only=True),
    Picture("agents-no-color", sample_agents.trouble, env=NO_COLOR),
    Picture("agents-colour-blind", sample_agents.trouble, theme="imi-colour-blind"),
    Picture("agents-asking", sample_agents.asking, keys=("w", "w")),
    Picture("view-40-agents", sample_agents.trouble, size=(40, 20), keys=("A",), kept=True),
    Picture("view-agents-crowd", sample_agents.crowd, size=MIDDLE, keys=("A", "w", "w"), kept=True),
    Picture("view-agents-filter", sample_agents.trouble, size=MIDDLE, keys=("A", "slash", *"is:asking"), kept=True),
    Picture("peek-asking", sample_agents.at_work, keys=("space",), kept=True),
    # runs: in their worktree's row, and alone with their files
    *(Picture(f"runs-{size[0]}", sample_runs.started, size=size, keys=("down",)) for size in (NARROW, MIDDLE, WIDE)),
    # two agents in one contained workspace are one row
    *(Picture(f"contained-{size[0]}", sample_runs.shared, size=size, keys=("g",)) for size in (NARROW, MIDDLE, WIDE)),
    # runs of other programs in watched workspaces; the last key selects one with files
    *(
        Picture(f"watched-{size[0]}", sample_runs.watching, size=size, keys=("down",) * 6)
        for size in (NARROW, MIDDLE, WIDE)
    ),
    # worktree, agent and prompt in one dialog
    Picture("dialog-new-agent", keys=("n", *"payments", "tab", "right", "tab", *"read @ap"), real=True),
    Picture("dialog-60-new-agent", size=NARROW, keys=("n", *"payments", "tab", "right", "tab", *"pay"), real=True),
    # views
    Picture("view-diff-trunk-light", theme=LIGHT, keys=("down", "d", "t"), real=True),
    Picture("board-40", sample_agents.at_work, size=LEAST, keys=("B", "l"), kept=True),
    Picture("board-light", sample_agents.at_work, theme=LIGHT, keys=("B", "l", "j"), kept=True),
    Picture("board-ascii", sample_agents.at_work, ascii_only=True, keys=("B",), kept=True),
    Picture("view-commands", keys=("R", "enter", "escape", "D", "tab", "tab", "enter", "escape", "at"), real=True),
    Picture("view-commands-none", keys=("at",)),
    # dialogs
    Picture("dialog-trouble", sample_snapshots.failing, keys=("colon", *"what is", "enter")),
    Picture("dialog-new-taken", keys=("n", *"api"), real=True),
    Picture("dialog-ascii", ascii_only=True, keys=("n", *"user", "space", *"auth"), real=True),
    Picture("dialog-40-review", size=LEAST, keys=("v",), real=True),
    Picture("dialog-light", theme=LIGHT, keys=("D",), real=True),
]


DIALOGS = {
    "dialog-new": ("n", *"user-auth"),
    "dialog-review": ("v", *"123"),
    "dialog-claim": ("down", "down", "down", "c"),
    "dialog-claim-taken": ("c",),
    "dialog-claim-several": ("m", "m", "c"),
    "dialog-release": ("R",),
    "dialog-remove": ("D",),
    "dialog-undo": ("U",),
    "dialog-restore": ("K", "enter"),
    "dialog-merge": ("end", "up", "up", "i"),
    "dialog-rename": ("end", "up", "up", "N", *"pipeline"),
    "dialog-sync": ("Y",),
    "dialog-prune": ("P",),
    "dialog-repair": ("Z",),
    "dialog-discard": ("d", "down", "x"),
    "dialog-note": ("d", "down", "down", "down", "c"),
    "dialog-send-notes": ("d", "S"),
    "dialog-push": ("d", "P"),
    "dialog-update": ("colon", *"update from", "enter"),
}
"""The dialogs over the demonstration's repository."""
MENUS = {
    "menu-worktree": ("a",),
    "menu-copy": ("y",),
    "menu-open": ("O",),
    "menu-sort": ("s",),
    "menu-group": ("b",),
    "menu-theme": ("T",),
    "help": ("question_mark",),
    "palette": ("colon",),
}
"""The menus over it."""
VIEWS_OF_GIT = {
    "view-diff": ("d",),
    "view-diff-trunk": ("d", "t"),
    "view-diff-turn": ("d", "r"),
    "view-diff-help": ("d", "question_mark"),
    "view-files": ("f",),
    "view-log": ("down", "down", "L"),
    "view-commit": ("down", "down", "L", "enter"),
    "view-collisions": ("x",),
    "view-history": ("H",),
    "view-queue": ("Q",),
    "view-trash": ("K",),
    "view-events": ("t",),
    "view-milestones": ("comma",),
    "view-compare": ("equals_sign",),
}
"""The views over it."""
VIEWS_OF_AGENTS = {
    "view-agents": ("A",),
    "view-explain": ("down", "E"),
    "view-peek": ("down", "space"),
    "view-hosts": ("C",),
}
"""The views of agents, over agents that are in trouble."""
VIEWS_OF_TEAM = {"team-{}": HOST_7, "view-hosts-{}": ("C",), "view-agents-{}": ("A",)}
"""A lead's screens over twenty homes, while one of them is cut off, and when it is back."""


def stops_of_team(width: int) -> list[str]:
    """At 140 without the home screen, which has a picture of its own: its Git panel keeps the height of the row before."""
    return [stop for stop in VIEWS_OF_TEAM if width != 140 or stop.startswith("view-")]


VIEWS_OF_WORK = {
    "view-session": ("down", "V"),
    "view-session-tools": ("down", "V", "2", "enter"),
    "board": ("B",),
    "board-item": ("B", "l", "enter"),
}
"""The views of sessions and items, over agents at work."""
VIEWS_OF_RUNS = {"view-jobs": ("J",), "view-job-log": ("J", "down", "enter")}
"""The list of started agents and the log of one, over runs in each state."""
TOURS = [
    *(
        Tour(moment, size, {stop.format(moment): VIEWS_OF_TEAM[stop] for stop in stops_of_team(size[0])}, world)
        for moment, world in (("cut-off", sample_team.large_team), ("returned", sample_team.returned_team))
        for size in SIZES
        if size[0] != 80
    ),
    *(Tour("dialogs", size, DIALOGS, real=True) for size in SIZES),
    *(Tour("menus", size, MENUS, real=True) for size in SIZES),
    *(Tour("views", size, VIEWS_OF_GIT, real=True) for size in SIZES),
    *(Tour("agents", size, VIEWS_OF_AGENTS, sample_agents.trouble) for size in SIZES),
    *(Tour("runs", size, VIEWS_OF_RUNS, sample_runs.jobs) for size in SIZES if size[0] in (60, 100, 140)),
    *(Tour("work", size, VIEWS_OF_WORK, sample_agents.at_work, kept=True) for size in SIZES),
]
ALL = [*PICTURES, *(picture for tour in TOURS for picture in tour.pictures)]


@pytest.fixture(scope="module", autouse=True)
def tidy() -> Iterator[None]:
    yield
    demo_repository.closed()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_picture(picture: Picture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = taken(picture, monkeypatch, LONG_REST if ACCEPTING else SHORT_REST)
    if not ACCEPTING and not agrees(picture, now):  # a busy machine may be later than a short rest
        now = taken(picture, monkeypatch, LONG_REST)
    check(picture, now, tmp_path / "received.svg")


@pytest.mark.parametrize("tour", TOURS, ids=str)
def test_tour(tour: Tour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    different = []
    found = list(toured(tour, monkeypatch, LONG_REST if ACCEPTING else SHORT_REST))
    if not ACCEPTING and not all(agrees(picture, now) for picture, now in found):
        found = list(toured(tour, monkeypatch, LONG_REST))
    for picture, now in found:
        try:
            check(picture, now, tmp_path / f"{picture.name}.svg")
        except pytest.fail.Exception as problem:
            different.append(str(problem))
    assert not different, "\n".join(different)


def test_pictures_have_unique_names() -> None:
    names = [picture.name for picture in ALL]
    assert len(names) == len(set(names))


def test_every_picture_file_belongs_to_a_picture() -> None:
    if ACCEPTING:
        for name in unused(ALL):
            (FOLDER / name).unlink()
    assert unused(ALL) == [], "no screen looks like these any more: `make snap` removes them"


def test_a_picture_is_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(PICTURES[0], monkeypatch) == taken(PICTURES[0], monkeypatch)


def test_a_different_screen_fails_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = taken(Picture(PICTURES[0].name, sample_snapshots.needy), monkeypatch)
    if not ACCEPTING:
        with pytest.raises(pytest.fail.Exception, match="looks different"):
            check(PICTURES[0], other, tmp_path / "received.svg")
