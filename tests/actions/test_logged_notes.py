"""Intents, milestones and lessons: recorded at once, in order, for the worktree and the terminal; with an event each."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.mux import terminal_place
from tests.helpers import Ran, Repo, imi

PANE = {"ZELLIJ_SESSION_NAME": "work", "ZELLIJ_PANE_ID": "3"}


@pytest.fixture
def feat(repo: Repo) -> Repo:
    return repo.worktree("feat-x")


def log(where: Repo, *words: str, terminal: bool = True) -> Ran:
    return imi(*words, "--json", cwd=where.path, env=PANE if terminal else {})


def rows(sql: str) -> list[Any]:
    with closing(sqlite3.connect(os.path.expanduser("~/.config/iMi/iMi.db"))) as connection:
        return connection.execute(sql).fetchall()


def test_the_newest_intent_counts_until_it_is_done(feat: Repo) -> None:  # S2.23
    assert imi("intent", cwd=feat.path).out == "no intent here yet\n"
    log(feat, "intent", "make", "it", "work")
    made = log(feat, "intent", "make it fast", "--agent", "claude-1").data
    assert (made["worktree_name"], made["text"]) == ("feat-x", "make it fast") and made["context"]
    assert "claude-1  make it fast" in imi("intent", cwd=feat.path).out
    assert log(feat, "intent").data["notes"][0]["context"] == made["context"]
    shown = {one["worktree_name"]: one["intent"] for one in imi("status", "--json", cwd=feat.path).data["worktrees"]}
    assert shown["app"] is None
    assert (shown["feat-x"]["text"], shown["feat-x"]["by"]) == ("make it fast", "claude-1")
    done = imi("intent", "--done", cwd=feat.path)
    assert done.out == "done: make it fast\n"
    assert log(feat, "intent").data["notes"] == [], "an earlier one does not come back"
    again = imi("intent", "--done", cwd=feat.path)
    assert (again.code, again.out) == (1, "") and "there is no intent here that is not done" in again.err
    assert imi("intent", "x", "--done", cwd=feat.path).code == 2


def test_milestones_stay_in_order_with_their_artifacts_and_events(feat: Repo) -> None:  # S2.24
    for number in range(3):
        log(feat, "milestone", f"step {number}", "--artifacts", f"out/{number}.html, https://ci/{number}")
    found = log(feat, "milestone").data["notes"]
    assert [one["text"] for one in found] == ["step 0", "step 1", "step 2"]
    assert found[2]["artifacts"] == ["out/2.html", "https://ci/2"]
    logged = [
        json.loads(data) for (data,) in rows("SELECT data FROM events WHERE type = 'milestone.logged' ORDER BY seq")
    ]
    assert [(one["note"], one["artifacts"]) for one in logged] == [(one["id"], one["artifacts"]) for one in found]
    assert "reached a milestone in feat-x: step 2" in imi("events", cwd=feat.path).out


def test_lessons_are_of_the_repository_and_no_notes_on_its_diffs(feat: Repo, repo: Repo) -> None:
    log(feat, "note", "ports must be free")
    log(repo, "note", "--kind", "lesson", "main is slow")
    assert [one["text"] for one in log(repo, "note").data["notes"]] == ["ports must be free", "main is slow"]
    assert log(repo, "note", "--kind", "intent").data["notes"] == []
    assert imi("notes", "list", "x", cwd=repo.path).out == "no open notes on feat-x\n"
    refused = imi("note", "x", "--kind", "wish", cwd=repo.path)
    assert refused.code == 2 and "--kind takes one of intent, milestone, lesson" in refused.err


def test_a_terminal_outside_of_worktrees_has_its_own_intent(feat: Repo) -> None:
    folder = feat.path.parent
    made = imi("intent", "read the papers", "--json", cwd=folder, env=PANE).data
    assert made["worktree_name"] is None and made["context"]
    assert "read the papers" in imi("intent", cwd=folder, env=PANE).out
    assert imi("intent", "--json", cwd=folder, env={**PANE, "ZELLIJ_SESSION_NAME": "other"}).data["notes"] == []
    nowhere = imi("intent", "x", cwd=folder)
    assert (nowhere.code, nowhere.out) == (1, "") and "neither a worktree nor a terminal" in nowhere.err


def test_a_worktree_that_is_named_is_not_this_terminals(feat: Repo, repo: Repo) -> None:
    made = log(repo, "intent", "later", "--worktree", "x").data
    assert (made["worktree_name"], made["context"]) == ("feat-x", None)
    assert log(repo, "intent").data["notes"] == []


@pytest.mark.parametrize("words", [("intent", "x" * 1001), ("milestone", "x", "--artifacts", "y" * 301)])
def test_what_is_too_long_is_refused(words: tuple[str, ...], repo: Repo) -> None:
    done = imi(*words, cwd=repo.path)
    assert done.code == 2 and "at most" in done.err and done.out == ""


def test_a_place_names_a_process_and_is_over_when_that_is_gone() -> None:
    me = os.getpid()
    tmux = {"TMUX": f"/tmp/tmux-0/a,b,{me},2", "TMUX_PANE": "%0"}
    place = terminal_place.find(tmux)
    assert place is not None and (place.kind, place.server, place.pane) == ("tmux", "/tmp/tmux-0/a,b", "%0")
    assert terminal_place.is_over(place.text) is False
    gone = place.text.replace(f"|{me}|", "|4194300|")
    assert terminal_place.is_over(gone) and terminal_place.is_same(gone, place.text)
    assert terminal_place.is_over(place.text.replace(host.boot().partition("/")[0], "another-boot"))
    assert not terminal_place.is_same(place.text, place.text.replace("a,b", "c"))
    assert terminal_place.is_over("zellij|b|work|0||") is None, "no process is known"
