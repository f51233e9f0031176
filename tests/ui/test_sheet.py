"""Sheet: only visible rows are made, and the cursor's row keeps its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App, ComposeResult
from textual.content import Content
from textual.pilot import Pilot

from imi_monitor.ui.widgets.sheet import Sheet


class Host(App[None]):
    def __init__(self, steady: bool) -> None:
        super().__init__()
        self._steady = steady

    def compose(self) -> ComposeResult:
        yield Sheet(steady=self._steady)


def played(play: Callable[[Sheet, Pilot[Any]], Awaitable[None]], *, steady: bool = False) -> None:
    async def main() -> None:
        app = Host(steady)
        async with app.run_test(size=(40, 10)) as pilot:
            app.query_one(Sheet).focus()
            await pilot.pause()
            await play(app.query_one(Sheet), pilot)

    asyncio.run(main())


def shown(sheet: Sheet) -> list[str]:
    return ["".join(segment.text for segment in sheet.render_line(y)).strip() for y in range(sheet.size.height)]


def test_sheet_makes_only_visible_rows() -> None:
    made: set[int] = set()

    def draw(row: int, _width: int) -> Content:
        made.add(row)
        return Content(f"row {row}")

    async def play(sheet: Sheet, pilot: Pilot[Any]) -> None:
        sheet.show(1_000_000, draw)
        await pilot.pause()
        assert shown(sheet)[0] == "row 0" and len(made) <= 20
        await pilot.press("G")
        await pilot.pause()
        assert shown(sheet)[-1] == "row 999999" and sheet.cursor == 999_999 and len(made) <= 50

    played(play)


def test_the_cursor_goes_to_the_edge_or_stays_a_third_down() -> None:
    async def choosing(sheet: Sheet, pilot: Pilot[Any]) -> None:
        sheet.show(100, lambda row, _: Content(str(row)))
        await pilot.press(*"jjjjj")
        assert (sheet.cursor, shown(sheet)[0]) == (5, "0")

    async def reading(sheet: Sheet, pilot: Pilot[Any]) -> None:
        sheet.show(100, lambda row, _: Content(str(row)))
        await pilot.press(*"jjjjj")
        assert (sheet.cursor, shown(sheet)[0]) == (5, "2")

    played(choosing)
    played(reading, steady=True)


def test_cursor_row_keeps_its_place_when_rows_are_added_above() -> None:
    async def play(sheet: Sheet, pilot: Pilot[Any]) -> None:
        sheet.show(100, lambda row, _: Content(f"line {row}"))
        await pilot.press(*"jjjjjjjjjjjjjjjjjjjj")
        before = shown(sheet)
        sheet.show(107, lambda row, _: Content(f"line {row - 7}"), cursor=sheet.cursor + 7)
        await pilot.pause()
        assert shown(sheet) == before

    played(play, steady=True)


def test_sheet_paints_only_changed_rows() -> None:
    async def play(sheet: Sheet, pilot: Pilot[Any]) -> None:
        sheet.show(100, lambda row, _: Content(f"line {row}"))
        await pilot.pause()
        painted: list[int] = []
        real = sheet.refresh
        sheet.refresh = lambda *regions, **options: painted.extend(r.y for r in regions) or real(*regions, **options)  # type: ignore[method-assign,assignment,func-returns-value]
        sheet.show(100, lambda row, _: Content(f"line {row}"))
        assert painted == []
        sheet.show(100, lambda row, _: Content.styled(f"line {row}", "bold" if row == 4 else ""))
        assert painted == [4], "a row in another colour looks different too"

    played(play)


def test_the_wheel_moves_the_cursor_with_the_rows() -> None:
    async def play(sheet: Sheet, pilot: Pilot[Any]) -> None:
        sheet.show(100, lambda row, _: Content(str(row)))
        await pilot.pause()
        sheet.scroll_to(y=50, animate=False)
        await pilot.pause()
        assert 50 <= sheet.cursor < 60
        sheet.show(3, lambda row, _: Content(str(row)))
        await pilot.pause()
        assert (sheet.cursor, shown(sheet)[:4]) == (2, ["0", "1", "2", ""])
        sheet.show(0, lambda row, _: Content(str(row)))
        await pilot.press("j", "G", "enter")
        assert set(shown(sheet)) == {""}

    played(play)
