"""Keys that arrive all at once go where the keys before them lead: into the dialog, the filter, the menu."""

from __future__ import annotations

from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from tests.helpers import Repo
from tests.ui.pilot_kit import (
    listed_names,
    make_four_worktrees,
    run_dashboard,
    selected_name,
    type_at_once,
    wait_for_list,
    wait_until,
)


@pytest.fixture
def repo_of_four(repo: Repo) -> Repo:
    make_four_worktrees(repo)
    return repo


def test_a_burst_makes_a_worktree(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        type_at_once(app, "n", *"payments", "enter")
        made = repo.path.parent / "app.worktrees" / "feat-payments"
        await wait_until(pilot, lambda: (made / ".git").exists() and len(app.screen_stack) == 1)

    run_dashboard(repo, play)


def test_a_burst_filters_sorts_and_removes(repo_of_four: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        type_at_once(app, "/", *"fix", "ctrl+u", *"api", "enter", "D", *"feat-api")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2)
        await wait_for_list(app, pilot, "feat-api")
        await wait_until(pilot, lambda: app.focused is not None and getattr(app.focused, "value", "") == "feat-api")
        type_at_once(app, "escape", "escape", "G")
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await wait_until(pilot, lambda: selected_name(app) == listed_names(app)[-1])

    run_dashboard(repo_of_four, play)


def test_what_is_chosen_from_the_palette_gets_the_keys_behind_it(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        type_at_once(app, ":", *"review", "enter", *"123")
        await wait_until(pilot, lambda: app.focused is not None and getattr(app.focused, "value", "") == "123")
        assert app.focused is not None and app.focused.id == "ask-pr"

    run_dashboard(repo, play)


def test_text_that_is_pasted_behind_a_key_goes_into_its_dialog(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        assert app._driver is not None
        type_at_once(app, "v")
        app._driver.send_message(events.Paste("1234"))
        await wait_until(pilot, lambda: app.focused is not None and getattr(app.focused, "value", "") == "1234")

    run_dashboard(repo, play)
