"""RowList: the cursor follows its row, and only changed cells are painted."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterable
from functools import partial
from operator import is_

from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.style import Style

from imi_monitor.ui.widgets.cursor_list import LineRenderer
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield RowList(id="lines")

    @property
    def lines(self) -> RowList:
        return self.query_one(RowList)


def row(key: str, text: str | None = None) -> ListRow:
    return ListRow(key, (Content(text or key),))


def played(play) -> None:  # type: ignore[no-untyped-def]
    async def main() -> None:
        app = Host()
        async with app.run_test(size=(40, 10)) as pilot:
            app.lines.focus()
            await play(app.lines, pilot)

    asyncio.run(main())


def test_a_message_alone_is_shown_whole() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        said = "this home has no team: set servers.redis_url in the config file to see other machines here"
        for height in (1, 2):
            lines.show([message_row(said)], height)
            await pilot.pause()
            shown = [line.plain for row in lines.rows for line in row.lines]
            assert " ".join(shown) == said and max(map(len, shown)) <= lines.room

    played(play)


def test_a_message_has_no_cursor() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        lines.show([message_row("nothing here")])
        await pilot.pause()
        assert lines.draw_line(0, 0, on_cursor=True) == lines.draw_line(0, 0, on_cursor=False)
        lines.show([row("a", "nothing here")])
        assert lines.draw_line(0, 0, on_cursor=True) != lines.draw_line(0, 0, on_cursor=False)

    played(play)


def test_the_cursor_follows_its_row() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        lines.show([row("a"), row("b"), row("c")])
        await pilot.press("j")
        assert lines.cursor == "b"
        lines.show([row("x"), row("c"), row("b"), row("a")])
        assert lines.cursor == "b", "the row moved, the cursor with it"
        lines.show([row("x"), row("a")])
        assert lines.cursor == "a", "its row is gone: the neighbour"
        lines.show([])
        assert lines.cursor is None
        lines.show([row("n")])
        assert lines.cursor == "n"

    played(play)


def test_keys_keep_the_cursor_within_the_list() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        lines.show([row(str(n)) for n in range(30)])
        await pilot.press("k")
        assert lines.cursor == "0"
        await pilot.press("end")
        assert lines.cursor == "29"
        await pilot.press("j", "pageup")
        assert lines.cursor == "20"
        await pilot.press("home")
        assert lines.cursor == "0"

    played(play)


def test_what_is_no_longer_shown_does_not_stay_in_memory() -> None:  # K1
    """As broken a feed kept the painted lines of its last 600 rows, and each row the worktree it was made from."""
    made: list[weakref.ref[Content]] = []

    def lines_of(number: int) -> tuple[Content, ...]:
        content = Content(f"row {number}")
        made.append(weakref.ref(content))
        return (content,)

    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        for first in range(0, 600, 10):
            lines.show([ListRow(f"{number}", partial(lines_of, number)) for number in range(first, first + 10)])
            await pilot.pause()
        gc.collect()
        assert len(made) >= 600
        assert sum(content() is not None for content in made) <= 3 * lines.size.height

    played(play)


def test_a_row_drops_what_it_was_made_from() -> None:
    class Source:
        """What a row shows."""

    source = Source()
    shown, kept = ListRow("a", lambda source=source: (Content(str(source)),)), weakref.ref(source)  # type: ignore[misc]
    del source
    assert shown.lines is shown.lines
    gc.collect()
    assert kept() is None


def test_rows_that_look_the_same_are_not_painted() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        lines.show([row(str(n)) for n in range(8)])
        await pilot.pause()
        painted = []
        real = lines.refresh
        lines.refresh = lambda *regions, **options: painted.extend(regions) or real(*regions, **options)  # type: ignore[method-assign,assignment]
        lines.show([row(str(n)) for n in range(8)])
        assert painted == [], "nothing looks different"
        lines.show([row(str(n), "changed" if n == 3 else None) for n in range(8)])
        assert [region.y for region in painted] == [3]

    played(play)


def test_only_cells_that_changed_are_painted() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        starts = [Content.styled(f"feat-{n}  ", "green") for n in range(6)]

        def rows(*ends: str) -> list[ListRow]:
            return [ListRow(str(n), (starts[n].append(Content.styled(end, "red")),)) for n, end in enumerate(ends)]

        lines.show(rows("1s", "2s", "3s", "4s", "5s", "6s"))
        await pilot.pause()
        painted: list[Region] = []
        real = lines.refresh
        lines.refresh = lambda *regions, **options: painted.extend(regions) or real(*regions, **options)  # type: ignore[method-assign,assignment]
        lines.show(rows("1s", "3s", "4s", "4s", "6s", "6s"))
        assert painted == [Region(8, 1, 2, 2), Region(8, 4, 2, 1)], "lines below each other are one rectangle"
        assert lines.render_line(1).text.startswith("feat-1  3s ")
        painted.clear()
        kept = lines.rows
        lines.show(rows("1s", "3s", "4s", "4s", "6s", "6s"))
        assert painted == [] and all(map(is_, kept, lines.rows)), "what looks the same stays the row it was"

    played(play)


_pieces = st.lists(
    st.tuples(st.text("ab日⚡ ", max_size=6), st.sampled_from(["", "red", "bold", "green on blue"])), max_size=6
)
_over = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(["italic", "blue"])), max_size=2)


@given(_pieces, _over)
@settings(max_examples=200)
def test_line_renderer_draws_what_textual_draws(
    pieces: list[tuple[str, str]], over: list[tuple[int, int, str]]
) -> None:
    content = Content("").join([Content.styled(text, style) if style else Content(text) for text, style in pieces])
    for start, end, style in over:
        content = content.stylize(style, start, end)
    base = Style()

    def get_style(style: Style | str) -> Style:
        return style if isinstance(style, Style) else Style.parse(style, {})

    def cells(segments: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
        return [(char, style) for text, style in segments for char in text]

    ours = LineRenderer(get_style).segments(content, base)
    theirs = [(text, (base + style).rich_style) for text, style in content.render(base, "", get_style)]
    assert cells((one.text, one.style) for one in ours) == cells(theirs)
    assert "" not in [one.text for one in ours]


def test_row_list_draws_hostile_text_harmlessly() -> None:  # T2
    from imi_monitor.model.text import safe

    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        hostile = ["[/nope]", "a[/b]", "[a=b:]", "\x1b]52;c;aGk=\x07", "\u202eevil", "日本" * 40, "x" * 10_000]
        lines.show([row(str(n), safe(text)) for n, text in enumerate(hostile)])
        await pilot.pause()
        shown = "".join(segment.text for y in range(8) for segment in lines.render_line(y))
        assert "\x1b" not in shown and "\u202e" not in shown
        assert "[/nope]" in shown

    played(play)


def test_a_row_with_another_colour_is_painted_again() -> None:
    """Two `Content` are equal when their text is: that must not decide what is painted."""

    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        lines.show([ListRow("a", (Content.styled("held", "green"),))])
        await pilot.pause()
        before = lines.render_line(0)
        lines.show([ListRow("a", (Content.styled("held", "red"),))])
        assert [segment.style for segment in lines.render_line(0)] != [segment.style for segment in before]

    played(play)


def test_visible_rows_keep_their_place_when_rows_are_added_above() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        names = [f"{n:02}" for n in range(40)]
        lines.show([row(name) for name in names])
        await pilot.press(*["j"] * 20)
        on_screen = lines.cursor_index - lines.scroll_offset.y
        lines.show([row(name) for name in ["new", "newer", *names]])
        await pilot.pause()
        assert lines.cursor == "20" and lines.cursor_index - lines.scroll_offset.y == on_screen
        lines.scroll_to(y=5, animate=False, force=True)  # the cursor is out of sight: then it is the topmost row
        await pilot.pause()
        top = lines.rows[lines.scroll_offset.y].key
        lines.show([row(name) for name in ["one", "more", "new", "newer", *names]])
        await pilot.pause()
        assert lines.rows[lines.scroll_offset.y].key == top

    played(play)


def test_cursor_stays_on_the_first_row_below_a_heading_until_it_is_moved() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        lines.show([row("b")])
        lines.show([row("a"), row("b")])
        assert lines.cursor == "a"
        lines.show([ListRow("h", (Content("heading"),), heading=True), row("b"), row("a")])
        assert lines.cursor == "b"
        await pilot.press("j")
        lines.show([row("x"), row("b"), row("a")])
        assert lines.cursor == "a"

    played(play)


def test_taller_rows_keep_the_cursor() -> None:
    async def play(lines: RowList, pilot) -> None:  # type: ignore[no-untyped-def]
        rows = [ListRow(str(n), (Content(str(n)), Content("below"))) for n in range(30)]
        lines.show(rows, 1)
        await pilot.press(*["j"] * 15)
        lines.show(rows, 2)
        await pilot.pause()
        top = lines.scroll_offset.y
        assert lines.cursor == "15" and top <= 30 < top + lines.size.height

    played(play)
