"""The diff of the selected worktree, by keys, over a real repository."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from imi_monitor.actions.status import diff_action as action
from imi_monitor.git import turn_start
from imi_monitor.model import times
from imi_monitor.model.diff import Diff, FileDiff
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.widgets.sheet import Sheet
from tests.git.git_kit import open_git, start_conflict
from tests.helpers import Repo, git
from tests.limits import LIMIT
from tests.ui.pilot_kit import run_view, screen_strips, screen_text, toasts, wait_until

Play = Callable[[ImiApp, Pilot[Any]], Awaitable[None]]
HOSTILE = "\x1b]52;c;aGk=\x07 [/b] [a=b:] ev\u202eil \x9b31m"


def lines_of(app: ImiApp) -> Sheet:
    return app.screen.query_one("#rows", Sheet)


@pytest.fixture
def feat(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("own.py", "def own():\n    return 'committed'\n")
    made.commit("own work")
    made.write("README.md", "hello\nstaged words\n")
    made.git("add", "README.md")
    made.write("src/api.py", "def api():\n    return 2\n")
    made.write("new.txt", "brand new\n")
    return made


def test_kinds_of_diff_by_key_and_by_tab(feat: Repo, repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "staged words" in screen_text(app) and "brand new" in screen_text(app))
        assert "3 files +3 −1" in screen_text(app) and "return 2" in screen_text(app)
        await pilot.press("s")
        await wait_until(pilot, lambda: "staged words" in screen_text(app) and "brand new" not in screen_text(app))
        await pilot.press("u")
        await wait_until(pilot, lambda: "return 2" in screen_text(app) and "staged words" not in screen_text(app))
        await pilot.press("t")
        await wait_until(pilot, lambda: "committed" in screen_text(app) and "against main" in screen_text(app))
        await pilot.press("tab")
        await wait_until(pilot, lambda: "no turn of an agent is known in feat-x" in screen_text(app))
        await pilot.press("tab")
        await wait_until(pilot, lambda: "against HEAD" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_view(repo, "d", play)


def test_the_last_turn_of_the_agent_is_a_scope_of_the_diff(feat: Repo, repo: Repo) -> None:
    turn_start.keep(open_git(feat), "claude:1", "claude-1", times.stamp(), times.stamp())
    feat.write("src/api.py", "def api():\n    return 3\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "brand new" in screen_text(app))
        await pilot.press("r")
        await wait_until(pilot, lambda: "return 3" in screen_text(app) and "brand new" not in screen_text(app))
        assert "since claude-1's last turn began" in screen_text(app)
        await pilot.resize_terminal(100, 40)  # with all kinds and the whole name the end would be cut
        await wait_until(pilot, lambda: "since the last turn began" in screen_text(app))
        assert "C Commit  P Push" in screen_text(app).splitlines()[-1], "a wider bar has more keys"
        assert all(f" {kind} " in screen_text(app) for kind in ("all", "unstaged", "staged", "trunk", "turn"))
        await pilot.press("plus")
        await wait_until(pilot, lambda: any("staged or discarded" in one for one in toasts(app)))

    run_view(repo, "d", play)


def test_files_hunks_and_the_list_beside(feat: Repo, repo: Repo) -> None:
    text = "".join(f"line {number}\n" for number in range(200))
    feat.write("long.txt", text)
    feat.git("add", "-A")
    feat.git("commit", "-q", "-m", "long")
    feat.write("long.txt", text.replace("line 20\n", "LINE 20\n").replace("line 150\n", "LINE 150\n"))
    feat.write("zz.txt", "last\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "LINE 20" in screen_text(app))
        files = app.screen.query_one("#diff-files", Sheet)
        assert (files.row_count, files.cursor) == (2, 0)
        await pilot.press("right_square_bracket")
        assert lines_of(app).cursor == 1
        await pilot.press("right_square_bracket", "j", "j", "j")
        view = app.screen
        assert isinstance(view, DiffView)
        line = view.rows.line_at(lines_of(app).cursor)
        assert line is not None and line.text == "line 149"
        await pilot.press("n")
        await wait_until(pilot, lambda: files.cursor == 1)
        assert view.rows.rows[lines_of(app).cursor].kind == "file"
        await pilot.press("N")
        await wait_until(pilot, lambda: files.cursor == 0)
        await pilot.click("#diff-files", offset=(3, 1))
        await wait_until(pilot, lambda: view.rows.file_at(lines_of(app).cursor) == 1)

    run_view(repo, "d", play, size=(140, 16))


def test_cursor_stays_on_its_line_while_the_worktree_changes(feat: Repo, repo: Repo) -> None:
    text = "".join(f"line {number}\n" for number in range(300))
    feat.write("new.txt", text)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "line 5" in screen_text(app))
        view = app.screen
        assert isinstance(view, DiffView)
        await pilot.press("n", "n", *["j"] * 150)

        def at() -> tuple[str, int]:
            line = view.rows.line_at(lines_of(app).cursor)
            assert line is not None
            return line.text, lines_of(app).cursor - lines_of(app).scroll_offset.y

        before = at()
        assert before[0] == "line 149"
        feat.write("new.txt", "inserted above\n" * 40 + text)
        await wait_until(pilot, lambda: (view.diff.added if view.diff else 0) > 340)
        assert at() == before
        feat.write("aaa.txt", "a file before all others\n" * 5)
        await wait_until(pilot, lambda: len(view.rows.diff.files) == 4)
        assert at() == before

    run_view(repo, "d", play)


def test_diff_shows_a_change_with_equal_line_counts(feat: Repo, repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "return 2" in screen_text(app))
        feat.write("src/api.py", "def api():\n    return 7\n")
        await wait_until(pilot, lambda: "return 7" in screen_text(app))

    run_view(repo, "d", play)


def test_diff_follows_a_worktree_that_changes_all_the_time(feat: Repo, repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "return 2" in screen_text(app))
        for number in range(1000, 1300):
            feat.write("src/api.py", f"def api():\n    return {number}\n")
            await pilot.pause(0.04)
            if "return 1" in screen_text(app).replace("return 1 ", ""):
                return
        pytest.fail(screen_text(app))

    run_view(repo, "d", play)


def delay_comparison(monkeypatch: pytest.MonkeyPatch, released: Event, name: str) -> Event:
    """Let the diff against the trunk be read when `released` is set: one file with this name. Set when it was read."""
    answered, real = Event(), action.read

    def read(context: Any, one: Any, kind: str, *rest: Any, **options: Any) -> Diff:
        if kind != "trunk":
            return real(context, one, kind, *rest, **options)  # type: ignore[arg-type]
        assert released.wait(LIMIT)
        answered.set()
        return Diff((FileDiff(name, "A", added=1),))

    monkeypatch.setattr(action, "read", read)
    return answered


def test_the_result_of_a_cancelled_read_is_not_shown(feat: Repo, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    released = Event()
    answered = delay_comparison(monkeypatch, released, "stale.txt")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "return 2" in screen_text(app))
        await pilot.press("t", "s")
        await wait_until(pilot, lambda: "staged words" in screen_text(app))
        released.set()
        await wait_until(pilot, answered.is_set)
        await pilot.pause()
        assert "staged words" in screen_text(app) and "stale.txt" not in screen_text(app)

    run_view(repo, "d", play)


class SlowToClose(Widget):
    """Keeps a screen half removed until a condition holds."""

    def __init__(self, closing: Event, may_close: Callable[[], bool]) -> None:
        super().__init__()
        self._began, self._may_end = closing, may_close

    async def on_unmount(self) -> None:
        self._began.set()
        async with asyncio.timeout(60):
            while not self._may_end():
                await asyncio.sleep(0.01)


def test_a_result_that_comes_while_the_view_is_closed_is_dropped(
    feat: Repo, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = Event()
    delay_comparison(monkeypatch, closing, "late.txt")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "return 2" in screen_text(app))
        view = app.screen
        assert isinstance(view, DiffView)
        await view.mount(SlowToClose(closing, lambda: not view.reading))
        await pilot.press("t")
        await wait_until(pilot, lambda: view.reading)
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1 and not view.is_attached)

    run_view(repo, "d", play)


def test_a_long_diff_is_cut_and_names_the_command(feat: Repo, repo: Repo) -> None:
    feat.write("big.txt", "x\n" * 20_000)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "+20,000" in screen_text(app))
        await pilot.press("n", "n", "n")
        await pilot.press("G", *["k"] * 8)
        await wait_until(
            pilot, lambda: "17,000 more lines: imi diff feat-x --file big.txt" in screen_text(app) or _upwards(app)
        )

    def _upwards(app: ImiApp) -> bool:
        lines_of(app).action_move(-1)
        return False

    run_view(repo, "d", play)


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20), (40, 12)])
def test_hostile_text_in_a_diff_is_harmless_at_every_width(feat: Repo, repo: Repo, size: tuple[int, int]) -> None:  # T2
    feat.git("stash", "-q", "-u")
    name = HOSTILE.replace("/", "_")
    feat.write(f"{name}.py", f"{HOSTILE}\n{'日本👩‍👩‍👧' * 50}\n{'x' * 10_000}\n\t'''\n")
    (feat.path / "new\nline").write_bytes(b"caf\xe9 \x00 binary")
    (feat.path / "latin").write_bytes(b"caf\xe9\r\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        for key in ("j", "l", "l", "h", "n", "n", "G", "g", "t", "u"):
            await pilot.press(key)
            await wait_until(pilot, lambda: "reading…" not in screen_text(app))
            assert not set(screen_text(app)) & set("\x1b\x07\u202e\x9b\r")
        await wait_until(pilot, lambda: "[/b]" in screen_text(app) or size[0] < 100)
        if size == (140, 40):
            assert (
                "caf\\xe9␍" in screen_text(app) and "binary" in screen_text(app) and "new\\x0aline" in screen_text(app)
            )
        widths = {sum(segment.cell_length for segment in strip) for strip in screen_strips(app)}
        assert widths == {size[0]}, "no line is wider or narrower than the screen"

    run_view(repo, "d", play, size=size)


def test_diff_of_no_change_conflict_rename_mode_and_submodule(repo: Repo, tmp_path: Path) -> None:
    made = repo.worktree("feat-x")
    inner = Repo.create(tmp_path / "inner")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "no uncommitted changes" in screen_text(app))
        start_conflict(repo)  # elsewhere: the same view must not care
        made.git("mv", "src/db.py", "src/database.py")
        (made.path / "src/api.py").chmod(0o755)
        made.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "sub")
        await wait_until(pilot, lambda: "src/database.py (was src/db.py)" in screen_text(app))
        await wait_until(
            pilot, lambda: "mode 100644 → 100755" in screen_text(app) and "Subproject commit" in screen_text(app)
        )

    run_view(repo, "d", play)


def test_a_conflict_shows_both_sides(repo: Repo) -> None:
    start_conflict(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("u")
        await wait_until(pilot, lambda: "++ <<<<<<< HEAD" in screen_text(app) and "conflict" in screen_text(app))

    run_view(repo, "d", play, tree="app")


def test_diff_of_a_branch_without_commits(tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "fresh"), cwd=tmp_path)
    fresh = Repo(tmp_path / "fresh")
    fresh.write("first.txt", "first\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "first.txt" in screen_text(app) and "+1" in screen_text(app))
        await pilot.press("t")
        await wait_until(
            pilot,
            lambda: (
                "?" in screen_text(app)
                and ("no trunk" in screen_text(app) or "nothing is committed" in screen_text(app))
            ),
        )

    run_view(fresh, "d", play, tree="fresh")


def test_diff_of_a_deleted_worktree_says_so(feat: Repo, repo: Repo, tmp_path: Path) -> None:
    feat.git("stash", "-q", "-u")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "no uncommitted changes" in screen_text(app))
        feat.path.rename(tmp_path / "elsewhere")
        await wait_until(pilot, lambda: "feat-x is gone: its folder does not exist any more" in screen_text(app))
        await pilot.press("t", "s", "j", "n", "e")
        await wait_until(pilot, lambda: "is gone" in screen_text(app))

    run_view(repo, "d", play)


def test_e_opens_the_editor_at_the_line(feat: Repo, repo: Repo, edited: list[tuple[str, str, int | None]]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "return 2" in screen_text(app))
        await pilot.press("n", "j", "j", "j", "j", "e")
        assert edited == [(os.path.realpath(feat.path), "src/api.py", 2)]

    run_view(repo, "d", play)


def test_hunks_and_files_are_staged_unstaged_and_discarded(feat: Repo, repo: Repo) -> None:
    text = "".join(f"line {number}\n" for number in range(60))
    feat.write("long.txt", text)
    feat.git("add", "-A")
    feat.git("commit", "-q", "-m", "long")
    feat.write("long.txt", text.replace("line 5\n", "LINE 5\n").replace("line 50\n", "LINE 50\n"))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "LINE 50" in screen_text(app))
        await pilot.press("right_square_bracket", "right_square_bracket", "plus")
        await wait_until(pilot, lambda: "LINE 50" in feat.git("diff", "--cached"))
        assert "LINE 5\n" not in feat.git("diff", "--cached")
        await pilot.press("s")
        await wait_until(pilot, lambda: "LINE 5 " not in screen_text(app) and "LINE 50" in screen_text(app))
        await pilot.press("minus")
        await wait_until(pilot, lambda: feat.git("diff", "--cached") == "")
        await pilot.press("u")
        await wait_until(pilot, lambda: "LINE 5 " in screen_text(app) and "LINE 50" in screen_text(app))
        await pilot.press("right_square_bracket", "x")
        await wait_until(pilot, lambda: "discards one hunk of long.txt" in screen_text(app))
        await pilot.click("#act")
        await wait_until(pilot, lambda: "LINE 5\n" not in (feat.path / "long.txt").read_text())
        assert "LINE 50" in (feat.path / "long.txt").read_text()
        await pilot.press("t", "x")
        await wait_until(pilot, lambda: any("shows commits too" in text for text in toasts(app)))

    run_view(repo, "d", play)


def test_what_is_read_is_marked_and_can_be_left_out(feat: Repo, repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "brand new" in screen_text(app))
        await pilot.press("m")
        await wait_until(pilot, lambda: "2/3 unread" in screen_text(app) and "✓ read" in screen_text(app))
        await pilot.press("o")
        await wait_until(pilot, lambda: "staged words" not in screen_text(app) and "only 2/3" in screen_text(app))
        feat.write("README.md", "hello\nother words\n")
        await wait_until(pilot, lambda: "other words" in screen_text(app))
        feat.write("README.md", "hello\nstaged words\n")
        await wait_until(pilot, lambda: "other words" not in screen_text(app))
        await pilot.press("o")
        await wait_until(pilot, lambda: "staged words" in screen_text(app))
        await pilot.press("home", "m")
        await wait_until(pilot, lambda: "2/3 unread" not in screen_text(app) and "✓ read" not in screen_text(app))

    run_view(repo, "d", play)


def test_a_narrow_title_says_what_is_unread(feat: Repo, repo: Repo) -> None:
    """At 60 cells there is no room for all kinds: the shown one stays, and returns to all of them in a wider window."""

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        def title() -> str:
            return screen_text(app).splitlines()[0]

        await wait_until(pilot, lambda: "3 files +3 −1" in title())
        assert "unstaged" not in title() and " all " in title()
        await pilot.press("m", "o")
        await wait_until(pilot, lambda: "only" in title() and "unread" in title() and "3 files" in title())
        await pilot.resize_terminal(140, 30)
        await wait_until(pilot, lambda: "unstaged" in title() and "unread" in title())

    run_view(repo, "d", play, size=(60, 24))


def test_notes_stand_under_their_lines_and_are_answered_sent_and_done(feat: Repo, repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "staged words" in screen_text(app))
        await pilot.press("j", "j", "j", "c")
        await wait_until(pilot, lambda: app.screen.is_modal and app.focused is not None)
        await pilot.press(*"why", "enter")
        await wait_until(pilot, lambda: "▎ note 1" in screen_text(app))
        await pilot.press("S")
        await wait_until(pilot, lambda: "1 note as one round" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "why · sent" in screen_text(app))
        assert "note 1] README.md:" in app.clipboard
        await pilot.press("j", "m")
        await wait_until(pilot, lambda: "▎ note 1" not in screen_text(app))

    run_view(repo, "d", play)


def test_commit_takes_the_message_from_the_editor(feat: Repo, repo: Repo, tmp_path: Path, monkeypatch: Any) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\ngrep -q "^#   README.md" "$1" && printf "From the editor\\n" >> "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        monkeypatch.setattr(app, "suspend", contextlib.nullcontext)  # a pilot has no terminal to give away
        await wait_until(pilot, lambda: "staged words" in screen_text(app))
        await pilot.press("C")
        await wait_until(pilot, lambda: feat.git("log", "-1", "--format=%s") == "From the editor")
        await wait_until(pilot, lambda: "staged words" not in screen_text(app))
        await pilot.press("C")
        await wait_until(pilot, lambda: any("nothing is staged" in text for text in toasts(app)))

    run_view(repo, "d", play)
