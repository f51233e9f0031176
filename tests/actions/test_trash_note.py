"""The file of a note: what is written is read back, and what no imi writes is refused with the part that is damaged."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor import host
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import trash_note
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.actions.removal.trash_note import NotedClaim, NotedProcess, NotedRow, NoteError, TrashNote
from imi_monitor.config import database_path
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.store import claims, registry_identity, trash
from tests.actions.removal_kit import act, note_of, register, remove, set_registry_aside, trash_root, undo
from tests.audit_events import at_event
from tests.helpers import Repo, imi

# any text that a file name can hold, also bytes that are no UTF-8
TEXT = st.binary(max_size=12).filter(lambda raw: b"\0" not in raw).map(os.fsdecode)
MAYBE = st.none() | TEXT
NUMBER = st.integers(0, (1 << 31) - 1)

worktrees_in_trash = st.builds(
    TrashedWorktree,
    **dict.fromkeys(("id", "repo_name", "name", "common_dir", "admin_dir", "path", "trash_dir"), TEXT),
    **dict.fromkeys(("gitfile", "head", "gitdir", "agent", "how", "boot"), TEXT),
    **dict.fromkeys(("locked", "branch", "sha"), MAYBE),
    inode=st.integers(0, (1 << 64) - 1),
    overridden=st.lists(TEXT, max_size=3).map(tuple),
    uptime=st.floats(0, 1e9),
)
notes = st.builds(
    TrashNote,
    trashed=worktrees_in_trash,
    state=st.sampled_from([trash_note.MOVING, trash_note.REMOVED]),
    host=TEXT,
    process=st.none() | st.builds(NotedProcess, host=TEXT, boot=TEXT, pid=NUMBER, pid_started=MAYBE),
    registry_id=MAYBE,
    registry_path=TEXT,
    began_at=TEXT,
    removed_at=MAYBE,
    epoch=st.integers(0, (1 << 40) - 1),
    claim=st.none()
    | st.builds(NotedClaim, agent_id=TEXT, epoch=st.integers(0, (1 << 40) - 1), task_id=MAYBE, claimed_at=MAYBE),
    row=st.none() | st.builds(NotedRow, branch=TEXT, kind=TEXT, base_branch=MAYBE, pr_number=st.none() | NUMBER),
)


@given(notes)
def test_every_note_is_read_back_as_it_was_written(tmp_path: Path, note: TrashNote) -> None:
    note = replace(note, trashed=replace(note.trashed, trash_dir=str(tmp_path)))
    trash_note.write_note(note)
    assert trash_note.read_note(str(tmp_path)) == note
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["note.json"]
    assert (tmp_path / "note.json").stat().st_mode & 0o777 == 0o600


TEXTS = ("id", "repo_name", "name", "common_dir", "admin_dir", "path", "gitfile", "head", "gitdir", "agent", "how")


def example(folder: Path, **changes: Any) -> TrashNote:
    data: dict[str, object] = dict.fromkeys((*TEXTS, "boot", "locked", "branch", "sha"), "x")
    data |= {"trash_dir": str(folder), "inode": 7, "overridden": ["a"], "uptime": 1.5}
    note = TrashNote(
        TrashedWorktree.of(data),
        trash_note.MOVING,
        "here",
        NotedProcess("here", "boot", 1, "1"),
        "registry",
        "/registry",
        "began",
        None,
        3,
        NotedClaim("me", 2, "task", "then"),
        NotedRow("b", "feat", "main", 7),
    )
    return replace(note, **changes)


def changed(folder: Path, part: str, key: str, value: object) -> None:
    """Change one value of the written note; `part` is empty for the note itself."""
    data = json.loads((folder / "note.json").read_text())
    (data[part] if part else data)[key] = value
    (folder / "note.json").write_text(json.dumps(data))


NO_TEXT: tuple[object, ...] = (None, 7, True, [], {}, "a\0b", "\ud800", "x" * ((1 << 16) + 1))
NO_NUMBER: tuple[object, ...] = (None, "7", 7.0, True, -1)
WORKTREE_TEXTS = (*TEXTS, "trash_dir", "boot")
# (part, key, values that are refused)
DAMAGES: list[tuple[str, str, tuple[object, ...]]] = [
    *[("worktree", key, NO_TEXT) for key in WORKTREE_TEXTS],
    *[("worktree", key, NO_TEXT[1:]) for key in ("locked", "branch", "sha")],
    ("worktree", "inode", (*NO_NUMBER, 1 << 64)),
    ("worktree", "uptime", (None, "1", [])),
    ("worktree", "overridden", (None, "x", {})),
    *[("", key, NO_TEXT) for key in ("state", "host", "began_at")],
    ("", "removed_at", NO_TEXT[1:]),
    ("", "epoch", (*NO_NUMBER, 1 << 40)),
    ("registry", "id", NO_TEXT[1:]),
    ("registry", "path", NO_TEXT),
    *[("", key, (7, "x", [])) for key in ("process", "claim", "row", "registry", "worktree")],
    *[("process", key, NO_TEXT) for key in ("host", "boot")],
    ("process", "pid", (*NO_NUMBER, 1 << 31)),
    ("process", "pid_started", NO_TEXT[1:]),
    ("claim", "agent_id", NO_TEXT),
    ("claim", "epoch", (*NO_NUMBER, 1 << 40)),
    *[("claim", key, NO_TEXT[1:]) for key in ("task_id", "claimed_at")],
    *[("row", key, NO_TEXT) for key in ("branch", "kind")],
    ("row", "base_branch", NO_TEXT[1:]),
    ("row", "pr_number", (*NO_NUMBER[1:], 1 << 31)),
]


@pytest.mark.parametrize(("part", "key", "values"), DAMAGES, ids=[f"{part} {key}" for part, key, _ in DAMAGES])
def test_a_value_that_imi_does_not_write_is_damage(
    tmp_path: Path, part: str, key: str, values: tuple[object, ...]
) -> None:
    for value in values:
        trash_note.write_note(example(tmp_path))
        changed(tmp_path, part, key, value)
        with pytest.raises(NoteError) as refused:
            trash_note.read_note(str(tmp_path))
        assert str(refused.value).startswith("is damaged (") and key in str(refused.value), value


@pytest.mark.parametrize("part", ["process", "claim", "row", "registry", "worktree"])
def test_a_part_that_is_missing(tmp_path: Path, part: str) -> None:
    """Process, claim and row may be none; registry and worktree may not."""
    trash_note.write_note(example(tmp_path))
    changed(tmp_path, "", part, None)
    if part in ("registry", "worktree"):
        with pytest.raises(NoteError, match="is damaged"):
            trash_note.read_note(str(tmp_path))
    else:
        assert getattr(trash_note.read_note(str(tmp_path)), part) is None


def test_the_largest_values_are_none(tmp_path: Path) -> None:
    trash_note.write_note(example(tmp_path))
    for part, key, value in (
        ("", "epoch", (1 << 40) - 1),
        ("worktree", "inode", (1 << 64) - 1),
        ("worktree", "uptime", 7),
        ("row", "pr_number", 0),
        ("row", "branch", "x" * (1 << 16)),
    ):
        changed(tmp_path, part, key, value)
        trash_note.read_note(str(tmp_path))


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", "7", '{"format": 2}', '{"format": "1"}', "[" * 200_000])
def test_what_is_no_note_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "note.json").write_text(content)
    with pytest.raises(NoteError, match="is damaged"):
        trash_note.read_note(str(tmp_path))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", ["missing", "link", "pipe", "folder", "large", "another user's"])
def test_only_a_small_file_of_the_user_is_read(tmp_path: Path, what: str) -> None:
    trash_note.write_note(example(tmp_path))
    note, aside = tmp_path / "note.json", tmp_path / "aside"
    before = len(os.listdir("/dev/fd"))
    if what == "large":
        note.write_bytes(note.read_bytes() + b" " * (1 << 20))
    elif what == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(note, 12345, -1)
    else:
        note.rename(aside)
    if what == "link":
        note.symlink_to(aside)
    elif what == "pipe":
        os.mkfifo(note)
    elif what == "folder":
        note.mkdir()
    reason = {"missing": "is missing", "link": "cannot be read"}.get(what, "is not a small file of yours")
    with pytest.raises(NoteError, match=reason):
        trash_note.read_note(str(tmp_path))
    assert len(os.listdir("/dev/fd")) == before


def test_a_note_as_large_as_allowed_is_read(tmp_path: Path) -> None:
    trash_note.write_note(example(tmp_path))
    note = tmp_path / "note.json"
    note.write_bytes(note.read_bytes().ljust(1 << 20))
    assert trash_note.read_note(str(tmp_path)) == example(tmp_path)


class TestWriting:
    def test_the_rest_of_a_crashed_write_is_overwritten(self, tmp_path: Path) -> None:
        (tmp_path / "note.json.imi-new").write_text("x" * 100_000)
        trash_note.write_note(example(tmp_path))
        assert trash_note.read_note(str(tmp_path)) == example(tmp_path)

    def test_nothing_is_written_through_a_planted_link(self, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("my work\n")
        (tmp_path / "note.json.imi-new").symlink_to(tmp_path / "mine")
        before = len(os.listdir("/dev/fd"))
        with pytest.raises(OSError, match="note"):
            trash_note.write_note(example(tmp_path))
        assert (tmp_path / "mine").read_text() == "my work\n"
        (tmp_path / "note.json.imi-new").unlink()
        trash_note.write_note(example(tmp_path))
        assert len(os.listdir("/dev/fd")) == before

    def test_a_completed_note_has_the_time_and_no_process(self, tmp_path: Path) -> None:
        trash_note.complete_note(example(tmp_path))
        note = trash_note.read_note(str(tmp_path))
        assert note.removed_at is not None
        assert note == example(tmp_path, state="removed", process=None, removed_at=note.removed_at)

    def test_a_note_that_cannot_be_completed_is_no_failure(self, tmp_path: Path) -> None:
        trash_note.complete_note(example(tmp_path / "deleted"))


def test_only_a_process_that_lives_is_alive() -> None:
    me = host.identify_process(os.getpid())
    alive = NotedProcess(me.host, me.boot, me.pid or 0, me.started)
    assert alive.alive
    assert not replace(alive, pid_started="0").alive
    assert not replace(alive, host="elsewhere").alive


def entry_note(repo: Repo, identity: object) -> TrashNote:
    return trash_note.read_note(str(note_of(repo, identity).parent))


def test_a_note_describes_the_removal_as_the_registry_does(repo: Repo) -> None:
    """While it runs, and when it is complete."""
    tree = repo.worktree("feat-x")
    with Context(str(repo.path)) as context:
        register(context, repo, tree)
        identity = registry_identity.registry_id(context.connection)
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    with Context(str(repo.path)) as context:
        before = claims.current(context.connection, "app", "feat-x")
    seen: list[TrashNote] = []

    def look() -> None:
        (folder,) = trash_root(repo).iterdir()
        seen.append(trash_note.read_note(str(folder)))

    with at_event("os.rename", look, when=lambda source, *_: source == str(tree.path)):
        trashed = remove(repo, "feat-x", agent="claude-1").data["trash_id"]
    (moving,), removed = seen, entry_note(repo, trashed)
    me = host.identify_process(os.getpid())
    assert moving.process == NotedProcess(me.host, me.boot, os.getpid(), me.started)
    assert (moving.state, moving.removed_at, moving.host) == ("moving", None, host.hostname())
    assert (moving.registry_id, moving.registry_path) == (identity, os.path.realpath(database_path(None)))
    assert moving.claim == NotedClaim("claude-1", before.epoch, before.task_id, before.claimed_at)
    assert moving.epoch > before.epoch
    assert moving.row == NotedRow("feat/x", "feat", "main", 7)
    assert removed == replace(moving, state="removed", process=None, removed_at=removed.removed_at)


def test_the_row_of_another_folder_is_not_noted(repo: Repo, tmp_path: Path) -> None:
    """iMi shares the registry and writes its rows by name."""
    tree = repo.worktree("feat-x")
    trashed = replace(example(tmp_path).trashed, repo_name="app", name="feat-x", path=str(tree.path))
    with Context(str(repo.path)) as context:
        register(context, repo, tree)
        before = claims.current(context.connection, "app", "feat-x")
        notes = [
            trash_note.new_note(context, one, before, 1)
            for one in (trashed, replace(trashed, path="/elsewhere"), replace(trashed, name="feat-y"))
        ]
    assert [note.row for note in notes] == [NotedRow("feat/x", "feat", "main", 7), None, None]
    assert [note.claim for note in notes] == [None] * 3


def test_only_entries_without_a_note_get_one(repo: Repo, tmp_path: Path) -> None:
    """What an imi without notes removed; each failure is for itself."""
    ids = []
    for name in ("feat-a", "feat-b", "feat-c", "feat-d"):
        tree = repo.worktree(name)
        with Context(str(repo.path)) as context:
            context.register(context.repository(str(repo.path)))
        assert imi("claim", name, "--agent", "claude-1", cwd=repo.path).code == 0
        ids.append(str(remove(repo, name, agent="claude-1").data["trash_id"]))
        assert not tree.path.exists()
    restored, kept, blocked, last = ids
    kept_note = note_of(repo, kept).read_bytes()
    with Context(str(repo.path)) as context:
        entries = {entry.id: entry for entry in trash.list_kept(context.connection)}
        undo(repo, restored)
        for identity in (blocked, last):
            note_of(repo, identity).unlink()
        (note_of(repo, blocked).parent / "note.json.imi-new").mkdir()
        trash_note.write_missing_notes(context, [entries[one] for one in ids])
        epoch = claims.current(context.connection, "app", "feat-d").epoch
        identity = registry_identity.registry_id(context.connection)
    assert not (trash_root(repo) / restored).exists()
    assert note_of(repo, kept).read_bytes() == kept_note
    assert not note_of(repo, blocked).exists()
    note, entry = entry_note(repo, last), entries[last]
    assert (note.state, note.process, note.claim, note.host) == ("removed", None, None, entry.host)
    assert (note.began_at, note.removed_at, note.epoch) == (entry.removed_at, entry.removed_at, epoch)
    assert (note.registry_id, note.registry_path) == (identity, os.path.realpath(database_path(None)))
    assert epoch > 0
    set_registry_aside(tmp_path)
    assert act("undo", cwd=repo.path, which=last).data["worktree_name"] == "feat-d"


def test_a_disk_that_fails_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trash_note.write_note(example(tmp_path))

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched, pytest.raises(NoteError, match="cannot be read"):
        patched.setattr(os, "read", fails)
        trash_note.read_note(str(tmp_path))
