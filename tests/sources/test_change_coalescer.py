"""What editors and tools do to files, as raw events, gives the changes a person would name."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.sources.files.change_coalescer import GRACE, MANY, ChangeCoalescer
from imi_monitor.sources.files.watcher import FileEvent, FileEventKind


class World:
    """A folder and the events one would see in it; time is ours."""

    def __init__(self, root: Path, tracked: set[str]) -> None:
        self.root = root
        self.now = 100.0
        self.settle = ChangeCoalescer(
            str(root), "app", "feat-x", lambda path: path.endswith(".log"), lambda path: path in tracked
        )
        self.told: list[str] = []

    def see(self, kind: FileEventKind, name: str, cookie: int = 0) -> None:
        self._tell(self.settle.add([FileEvent(str(self.root / name), kind, False, cookie)], self.now, "t"))

    def burst(self, events: list[tuple[FileEventKind, str]]) -> None:
        batch = [FileEvent(str(self.root / name), kind) for kind, name in events]
        self._tell(self.settle.add(batch, self.now, "t"))

    def wait(self, seconds: float = GRACE) -> None:
        self.now += seconds
        self._tell(self.settle.flush(self.now, "t"))

    def _tell(self, changes: list) -> None:
        for change in changes:
            name = f"{change.kind} {change.origin + ' -> ' if change.origin else ''}{change.path}"
            self.told.append(name + (f" x{change.count}" if change.count > 1 else ""))


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x")
    return World(tmp_path, {"a.txt", "b.txt"})


def test_a_write_is_told_at_once(world: World) -> None:
    world.see("modified", "a.txt")
    assert world.told == ["modified a.txt"]


def test_a_file_written_again_and_again_is_one_line_a_second(world: World) -> None:
    for _ in range(30):
        world.see("modified", "a.txt")
        world.wait(0.05)
    assert world.told == ["modified a.txt"] * 2


def test_a_new_file(world: World) -> None:
    (world.root / "new.txt").write_text("x")
    world.see("created", "new.txt")
    world.see("modified", "new.txt")
    assert world.told == []
    world.wait()
    assert world.told == ["created new.txt"]


def test_save_by_rename_is_one_change(world: World) -> None:
    world.see("created", "a.txt.tmp")
    world.see("modified", "a.txt.tmp")
    world.see("moved_from", "a.txt.tmp", 7)
    world.see("moved_to", "a.txt", 7)
    world.wait()
    assert world.told == ["modified a.txt"]


def test_save_with_a_backup_as_vim_does_it(world: World) -> None:
    world.see("moved_from", "a.txt", 1)
    world.see("moved_to", "a.txt~", 1)
    world.see("created", "a.txt")
    world.see("modified", "a.txt")
    world.see("deleted", "a.txt~")
    world.wait()
    assert world.told == ["modified a.txt"]


def test_a_rename_is_a_rename(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "c.txt")
    world.see("moved_from", "a.txt", 3)
    world.see("moved_to", "c.txt", 3)
    world.wait()
    assert world.told == ["renamed a.txt -> c.txt"]


def test_a_new_file_by_rename_is_created(world: World) -> None:
    (world.root / "new.txt").write_text("x")
    world.see("created", "tmp123")
    world.see("moved_from", "tmp123", 9)
    world.see("moved_to", "new.txt", 9)
    world.wait()
    assert world.told == ["created new.txt"]


def test_deleted_and_there_again(world: World) -> None:
    world.see("deleted", "a.txt")
    world.see("created", "a.txt")
    world.wait()
    (world.root / "b.txt").unlink()
    world.see("deleted", "b.txt")
    world.wait()
    assert world.told == ["modified a.txt", "deleted b.txt"]


def test_a_temporary_file_is_nothing(world: World) -> None:
    world.see("created", "x")
    world.see("deleted", "x")
    world.wait()
    assert world.told == []


def test_moved_out_and_moved_in(world: World) -> None:
    (world.root / "b.txt").unlink()
    world.see("moved_from", "b.txt", 5)
    (world.root / "in.txt").write_text("x")
    world.see("moved_to", "in.txt", 6)
    world.wait()
    assert world.told == ["deleted b.txt", "created in.txt"]


def test_ignored_files_are_no_changes(world: World) -> None:
    (world.root / "x.log").write_text("x")
    world.see("modified", "x.log")
    world.see("created", "y.log")
    world.wait()
    assert world.told == []


def test_a_checkout_of_thousands_is_a_line_with_a_count(world: World) -> None:
    (world.root / "src").mkdir()
    events: list[tuple[FileEventKind, str]] = []
    for number in range(MANY * 3):
        (world.root / "src" / f"{number}").write_text("x")
        events.append(("created", f"src/{number}"))
    world.burst(events)
    world.wait()
    assert world.told == [f"created src x{MANY * 3}"]


def test_nothing_is_remembered_for_ever(world: World) -> None:
    for number in range(20_000):
        world.see("modified", f"f{number}")
    assert len(world.settle._told) <= 5000
    assert world.settle.waiting_since is None
