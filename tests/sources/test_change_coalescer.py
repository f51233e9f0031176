"""The raw events that editors and tools cause become the changes a person would name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor.model.change import GIT
from imi_monitor.sources.files.change_coalescer import GRACE, MANY, QUIET, ChangeCoalescer, common_folder
from imi_monitor.sources.files.checkout import Checkout
from imi_monitor.sources.files.watcher import FileEvent, FileEventKind


class World:
    """A folder, its events, and a clock that the test moves."""

    def __init__(self, root: Path, tracked: set[str]) -> None:
        self.root = root
        self.now = 100.0
        self.coalescer = ChangeCoalescer(
            str(root), "app", "feat-x", lambda path: path.endswith(".log"), lambda path: path in tracked
        )
        self.reported: list[str] = []

    def event(self, kind: FileEventKind, name: str, cookie: int = 0) -> None:
        self.report(self.coalescer.add([FileEvent(str(self.root / name), kind, False, cookie)], self.now, "t"))

    def burst(self, events: list[tuple[FileEventKind, str]]) -> None:
        batch = [FileEvent(str(self.root / name), kind) for kind, name in events]
        self.report(self.coalescer.add(batch, self.now, "t"))

    def every_event_of(self, path: Path) -> None:
        kinds: tuple[FileEventKind, ...] = ("modified", "created", "deleted")
        self.report(self.coalescer.add([FileEvent(str(path), kind) for kind in kinds], self.now, "t"))

    def let_pass(self, seconds: float = GRACE) -> None:
        self.now += seconds
        self.report(self.coalescer.flush(self.now, "t"))

    def report(self, changes: list) -> None:
        for change in changes:
            name = f"{change.kind} {change.origin + ' -> ' if change.origin else ''}{change.path}"
            self.reported.append(name + (f" x{change.count}" if change.count > 1 else ""))


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x")
    return World(tmp_path, {"a.txt", "b.txt"})


def test_a_write_is_reported_at_once(world: World) -> None:
    world.event("modified", "a.txt")
    assert world.reported == ["modified a.txt"]


@pytest.mark.parametrize("name", ["..notes", "...", "..x/file", ".notes", ".. ", "sub/..notes"])
def test_files_whose_names_begin_with_dots_are_reported(world: World, name: str) -> None:
    world.event("modified", name)
    (world.root / name).parent.mkdir(exist_ok=True)
    (world.root / f"{name}new").write_text("x")
    world.event("created", f"{name}new")
    world.let_pass()
    assert world.reported == [f"modified {name}", f"created {name}new"]


def test_events_outside_of_the_worktree_are_dropped(world: World) -> None:
    for path in (world.root, world.root.parent, world.root.parent / "x", Path(f"{world.root}-2") / "x"):
        world.every_event_of(path)
    world.let_pass()
    assert world.reported == []


def test_a_file_that_is_written_all_the_time_is_one_change_a_second(world: World) -> None:
    for _ in range(30):
        world.event("modified", "a.txt")
        world.let_pass(0.05)
    assert world.reported == ["modified a.txt"] * 2


def test_a_new_file_is_created_after_the_grace_time(world: World) -> None:
    (world.root / "new.txt").write_text("x")
    world.event("created", "new.txt")
    world.event("modified", "new.txt")
    assert world.reported == []
    world.let_pass()
    assert world.reported == ["created new.txt"]


def test_save_by_rename_is_one_change(world: World) -> None:
    world.event("created", "a.txt.tmp")
    world.event("modified", "a.txt.tmp")
    world.event("moved_from", "a.txt.tmp", 7)
    world.event("moved_to", "a.txt", 7)
    world.let_pass()
    assert world.reported == ["modified a.txt"]


def test_save_with_a_backup_as_vim_does_it(world: World) -> None:
    world.event("moved_from", "a.txt", 1)
    world.event("moved_to", "a.txt~", 1)
    world.event("created", "a.txt")
    world.event("modified", "a.txt")
    world.event("deleted", "a.txt~")
    world.let_pass()
    assert world.reported == ["modified a.txt"]


def test_a_renamed_file_is_one_change_with_its_origin(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "c.txt")
    world.event("moved_from", "a.txt", 3)
    world.event("moved_to", "c.txt", 3)
    world.let_pass()
    assert world.reported == ["renamed a.txt -> c.txt"]


def test_each_event_waits_for_its_own_other_half(world: World) -> None:
    """An older event that is over does not take a younger one with it."""
    for name in ("old.txt", "young.txt"):
        (world.root / name).write_text("x")
    world.event("created", "old.txt")
    world.let_pass(GRACE * 0.6)
    assert world.reported == []
    world.event("created", "young.txt")
    world.let_pass(GRACE * 0.6)
    assert world.reported == ["created old.txt"]
    assert world.coalescer.waiting_since == 100.0 + GRACE * 0.6
    world.let_pass(GRACE * 0.6)
    assert world.reported == ["created old.txt", "created young.txt"]
    assert world.coalescer.waiting_since is None


def test_the_halves_of_a_rename_may_come_in_two_batches(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "c.txt")
    world.event("moved_from", "a.txt", 3)
    world.let_pass(GRACE * 0.6)
    world.event("moved_to", "c.txt", 3)
    world.let_pass(GRACE * 0.6)
    world.let_pass(GRACE)
    assert world.reported == ["deleted a.txt", "created c.txt"], "the first half is reported when its time is over"
    (world.root / "b.txt").rename(world.root / "d.txt")
    world.event("moved_from", "b.txt", 4)
    world.let_pass(0)
    world.event("moved_to", "d.txt", 4)
    world.let_pass(GRACE)
    assert world.reported[2:] == ["renamed b.txt -> d.txt"]


def test_files_that_are_moved_away_are_not_remembered(world: World) -> None:
    """The other half never comes, and each has another number."""
    for number in range(1, 100):
        world.event("moved_from", f"{number}.txt", number)
        world.let_pass()
    assert world.coalescer._rename_sources == {}


def test_a_new_file_by_rename_is_created(world: World) -> None:
    (world.root / "new.txt").write_text("x")
    world.event("created", "tmp123")
    world.event("moved_from", "tmp123", 9)
    world.event("moved_to", "new.txt", 9)
    world.let_pass()
    assert world.reported == ["created new.txt"]


def test_a_file_deleted_and_made_again_is_modified(world: World) -> None:
    world.event("deleted", "a.txt")
    world.event("created", "a.txt")
    world.let_pass()
    (world.root / "b.txt").unlink()
    world.event("deleted", "b.txt")
    world.let_pass()
    assert world.reported == ["modified a.txt", "deleted b.txt"]


def test_a_temporary_file_is_no_change(world: World) -> None:
    world.event("created", "x")
    world.event("deleted", "x")
    world.let_pass()
    assert world.reported == []


def test_moves_across_the_root_are_a_deletion_and_a_creation(world: World) -> None:
    (world.root / "b.txt").unlink()
    world.event("moved_from", "b.txt", 5)
    (world.root / "in.txt").write_text("x")
    world.event("moved_to", "in.txt", 6)
    world.let_pass()
    assert world.reported == ["deleted b.txt", "created in.txt"]


def test_ignored_files_are_no_changes(world: World) -> None:
    for name in ("x.log", "y.log"):
        (world.root / name).write_text("x")
    world.event("modified", "x.log")
    world.event("created", "y.log")
    world.let_pass()
    assert world.reported == []


def test_many_files_at_once_are_one_change_with_a_count(world: World) -> None:
    (world.root / "src").mkdir()
    events: list[tuple[FileEventKind, str]] = []
    for number in range(MANY * 3):
        (world.root / "src" / f"{number}").write_text("x")
        events.append(("created", f"src/{number}"))
    world.burst(events)
    world.let_pass()
    assert world.reported == [f"created src x{MANY * 3}"]


def test_a_folder_is_no_change(world: World) -> None:
    (world.root / "src").mkdir()
    for kind in ("created", "modified"):
        world.report(world.coalescer.add([FileEvent(str(world.root / "src"), kind, True)], world.now, "t"))
    world.let_pass()
    assert (world.reported, world.coalescer.waiting_since) == ([], None)


@pytest.mark.parametrize(("number", "lines"), [(MANY, MANY), (MANY + 1, 1)])
def test_files_are_counted_from_a_hundred_on(world: World, number: int, lines: int) -> None:
    world.burst([("modified", f"src/{each}") for each in range(number)])
    assert len(world.reported) == lines


def test_each_kind_is_counted_by_itself(world: World) -> None:
    (world.root / "new.txt").write_text("x")
    world.burst([("created", "new.txt"), *(("deleted", f"src/{number}") for number in range(MANY))])
    world.let_pass()
    assert world.reported == ["created new.txt", f"deleted src x{MANY}"]


def test_a_flush_takes_no_more_than_two_thousand_files(world: World) -> None:
    """The event loop runs in between; what is left comes with the next flush."""
    world.burst([("deleted", f"src/{number}") for number in range(2001)])
    world.let_pass()
    assert world.reported == ["deleted src x2000"]
    world.let_pass(0)
    assert world.reported[1:] == ["deleted src/2000"]


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        ([], "."),
        (["a"], "."),
        (["a", "src/b"], "."),
        (["src/a", "lib/b"], "."),
        (["src/a", "src/b"], "src"),
        (["src/x/a", "src/xy/b"], "src"),
        (["src/x/a", "src/x/y/b"], "src/x"),
    ],
)
def test_the_folder_above_several_files(paths: list[str], folder: str) -> None:
    assert common_folder(paths) == folder


def test_a_change_has_the_size_of_its_file(world: World) -> None:
    (world.root / "b.txt").write_text("12345")
    (world.root / "link").symlink_to("b.txt")
    names = ("a.txt", "b.txt", "link", "gone")
    events = [FileEvent(str(world.root / name), "modified") for name in names]
    assert [one.size for one in world.coalescer.add(events, world.now, "t")] == [1, 5, None, None]
    world.coalescer.add([FileEvent(str(world.root / "lost"), "deleted")], world.now, "t")
    assert [(one.kind, one.size) for one in world.coalescer.flush(world.now + 1, "t")] == [("deleted", None)]


# -- the same file again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        ("modified", "modified", False),
        ("created", "modified", False),
        ("deleted", "modified", True),
        ("deleted", "deleted", False),
        ("modified", "deleted", True),
        ("created", "created", False),
        ("modified", "created", True),
        ("deleted", "created", True),
    ],
)
@pytest.mark.parametrize("apart", [QUIET - GRACE, QUIET])
def test_what_was_told_within_the_last_second_is_not_repeated(
    world: World, first: FileEventKind, then: FileEventKind, told: bool, apart: float
) -> None:
    """A write is no news after any change but a deletion."""
    path = world.root / "a.txt"

    def happen(kind: FileEventKind) -> None:
        path.unlink() if kind == "deleted" and path.exists() else path.write_text("x")
        if kind == "deleted":
            path.unlink(missing_ok=True)
        world.event(kind, "a.txt")
        world.report(world.coalescer.flush(world.now, "t", grace=0))

    happen(first)
    world.now += apart
    happen(then)
    assert world.reported == [f"{first} a.txt", *([f"{then} a.txt"] if told or apart == QUIET else [])]


def test_a_file_deleted_and_made_again_at_once_was_told_as_created(world: World) -> None:
    (world.root / "new.txt").write_text("x")
    world.event("created", "new.txt")
    world.let_pass()
    world.event("deleted", "new.txt")
    world.event("created", "new.txt")
    world.let_pass()
    assert world.reported == ["created new.txt"]


# -- renames --------------------------------------------------------------------------------------------------------------


def test_halves_without_a_number_are_no_rename(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "c.txt")
    world.event("moved_from", "a.txt")
    world.event("moved_to", "c.txt")
    world.let_pass()
    assert world.reported == ["deleted a.txt", "created c.txt"]


def test_a_write_to_a_renamed_file_leaves_it_renamed(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "c.txt")
    world.event("moved_from", "a.txt", 3)
    world.event("moved_to", "c.txt", 3)
    world.event("modified", "c.txt")
    world.let_pass()
    assert world.reported == ["renamed a.txt -> c.txt"]


def test_a_file_that_is_there_again_was_not_renamed(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "c.txt")
    (world.root / "a.txt").write_text("anew")
    world.event("moved_from", "a.txt", 3)
    world.event("moved_to", "c.txt", 3)
    world.event("created", "a.txt")
    world.let_pass()
    assert world.reported == ["modified a.txt", "created c.txt"]


def test_a_rename_onto_a_file_modifies_that_file(world: World) -> None:
    (world.root / "a.txt").rename(world.root / "b.txt")
    world.event("moved_from", "a.txt", 3)
    world.event("moved_to", "b.txt", 3)
    world.let_pass()
    assert "modified b.txt" in world.reported and "renamed a.txt -> b.txt" not in world.reported


def test_the_first_event_says_whether_a_file_was_there_before(world: World) -> None:
    """Not git: a tracked file may have been missing."""
    world.event("created", "a.txt")
    world.let_pass()
    assert world.reported == ["created a.txt"]


def test_reported_paths_are_forgotten_beyond_the_limit(world: World) -> None:
    for number in range(6000):
        world.event("modified", f"f{number}")
    world.event("modified", "f5999")
    assert world.reported.count("modified f5999") == 1, "it was just reported"
    world.event("modified", "f1000")
    assert world.reported.count("modified f1000") == 1, "it is the oldest of five thousand"
    world.event("modified", "f0")
    assert world.reported.count("modified f0") == 2, "it was forgotten"
    assert world.coalescer.waiting_since is None


def test_a_checkout_is_one_change_by_git_and_what_follows_is_work(tmp_path: Path) -> None:
    """While git holds the index's lock, all files are its own; afterwards those that are not newer than the index."""
    root, admin = tmp_path / "feat", tmp_path / "admin"
    root.mkdir()
    admin.mkdir()
    (admin / "index.lock").touch()
    coalescer = ChangeCoalescer(
        str(root), "app", "feat", lambda path: False, lambda path: False, Checkout(str(root), str(admin), new=False)
    )
    (root / ".git").write_text("gitdir: elsewhere")
    files = [root / f"f{number}" for number in range(3)]
    for file in files[:2]:
        file.write_text("x")
    coalescer.add([FileEvent(str(path), "created") for path in (root / ".git", *files[:2])], 1.0, "T1")
    assert coalescer.flush(2.0, "T2") == [], "git still writes"
    assert coalescer.waiting_since == 2.0, "the end of the checkout is waited for"
    assert coalescer.add([FileEvent(str(files[0]), "modified")], 2.0, "T2") == [], "git wrote that, too"
    coalescer.add([FileEvent(str(root / "gone"), "created")], 1.5, "T2")
    assert coalescer.waiting_since == 1.5, "what has waited for longer"
    assert coalescer.flush(2.2, "T2") == []
    assert coalescer.waiting_since == 2.2, "it is looked for again later"
    files[2].write_text("x")
    (admin / "index.lock").rename(admin / "index")
    os.utime(admin / "index", (4e9, 4e9))
    coalescer.add([FileEvent(str(files[2]), "created")], 2.0, "T2")
    found = coalescer.flush(3.0, "T3")
    assert [(one.path, one.count, one.by) for one in found] == [(".", 4, GIT)]
    os.utime(admin / "index", (1, 1))
    coalescer.add([FileEvent(str(files[2]), "modified")], 4.0, "T4")
    coalescer.add([FileEvent(str(files[0]), "created")], 4.0, "T4")
    later = [(one.path, one.by) for one in coalescer.flush(5.0, "T5")]
    assert later == [("f0", None)]
    assert coalescer.waiting_since is None
