"""Each state has one colour, named by its token: a theme that changes the token changes every place that shows the state."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.color import Color

from imi_monitor.model import attention
from imi_monitor.ui import agent_cells, themes
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.preferences import Preferences
from tests.ui import sample_agents, sample_snapshots
from tests.ui.pilot_kit import screen_strips, screen_text, wait_until
from tests.ui.snapshot_kit import no_context

PINK = Color.parse("#ff00aa")


def texts_in(app: ImiApp, colour: Color) -> str:
    """Everything on the screen that has this colour."""
    return " ".join(
        segment.text
        for strip in screen_strips(app)
        for segment in strip
        if segment.style is not None
        and segment.style.color is not None
        and Color.from_rich_color(segment.style.color).rgb == colour.rgb
    )


def test_every_theme_has_a_colour_for_every_state() -> None:
    for theme in (*themes.THEMES, *map(themes.adapted, themes.KNOWN)):
        tokens = themes.state_tokens(theme.to_color_system().generate())
        assert set(tokens) == set(themes.STATE_COLOURS)
        assert all(tokens.values())


def test_every_standing_of_an_agent_has_a_sign_and_a_known_colour() -> None:
    assert set(agent_cells.SIGNS) == set(attention.STANDINGS)
    for _, style in agent_cells.SIGNS.values():
        assert style == agent_cells.MUTED or style.removeprefix("$") in themes.STATE_COLOURS


@pytest.mark.parametrize("name", themes.KNOWN)
def test_a_known_theme_is_readable_on_its_background_and_on_the_cursor(name: str) -> None:
    colours = themes.adapted(name).to_color_system().generate()
    back, fore, cursor = (Color.parse(colours[one]) for one in ("background", "foreground", "block-cursor-background"))
    for meaning in ("accent", "warning", "error", "success"):
        assert themes.contrast(Color.parse(colours[meaning]), back) >= themes.LEAST_CONTRAST
        assert themes.contrast(Color.parse(colours[meaning]), cursor) >= 2.5
    assert themes.contrast(fore, back) >= themes.LEAST_CONTRAST_OF_TEXT
    assert themes.contrast(back.blend(fore, 0.6), back) >= 3.0


@pytest.mark.parametrize("keys", [(), ("A",), ("space",)], ids=["home", "agents view", "peek"])
def test_one_token_colours_an_asking_agent_everywhere(keys: tuple[str, ...]) -> None:
    dark = next(theme for theme in themes.THEMES if theme.name == "imi-dark")
    pink = replace(dark, name="pink", variables={**dark.variables, "agent-asks": PINK.hex})

    async def play() -> None:
        app = ImiApp(sample_snapshots.live(sample_agents.trouble()), no_context)
        async with app.run_test(size=(140, 40)) as pilot:
            app.register_theme(pink)
            app.theme = "pink"
            await wait_until(pilot, lambda: "gemini" in screen_text(app))
            await pilot.press(*keys)
            await wait_until(pilot, lambda: "◆" in texts_in(app, PINK))

    asyncio.run(play())


def test_known_themes_are_previewed_while_moving_and_the_present_one_is_marked() -> None:
    async def play() -> None:
        app = ImiApp(
            sample_snapshots.live(sample_snapshots.busy()), no_context, preferences=Preferences(theme="imi-dark")
        )
        async with app.run_test(size=(140, 40)) as pilot:
            await wait_until(pilot, lambda: "feat-api" in screen_text(app))
            await pilot.press("T")
            await wait_until(
                pilot, lambda: any("●" in line and "dark" in line for line in screen_text(app).splitlines())
            )
            await pilot.press(*["down"] * list(themes.NAMES | themes.KNOWN).index("nord"))
            await wait_until(pilot, lambda: app.theme == "nord")
            blurred = app.theme_variables["border-blurred"]
            assert blurred == themes.adapted("nord").variables["border-blurred"], "greys are mixed from its own colours"
            await pilot.press("escape")
            await wait_until(pilot, lambda: app.theme == "imi-dark")

    asyncio.run(play())
