"""What the records of Claude and Codex prove about the files of a turn, in the form of Claude 2.1.326 and Codex 0.169.0."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.turn_files import NO_FILES, TurnFiles
from imi_monitor.sources.agents import turn_records
from imi_monitor.sources.agents.claude.live_registry import slug
from imi_monitor.sources.agents.codex.turn_record import take_patch_back

SESSION = "0199a7c2-1111-7222-8333-444455556666"
BEGAN = 1_795_145_448.5


def at(seconds: float) -> str:
    return datetime.fromtimestamp(BEGAN + seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Records:
    """A file of records of one session in one worktree."""

    tree: Path
    path: Path
    cli: str

    def add(self, seconds: float, kind: str, **fields: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"type": kind, **fields, "timestamp": at(seconds)}) + "\n")

    def read(self) -> TurnFiles:
        return turn_records.read_files(self.cli, SESSION, str(self.tree), at(0))

    def found(self) -> dict[str, bytes | None]:
        return {os.path.relpath(path, self.tree): content for path, content in self.read().before.items()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "work tree").mkdir()
    return (tmp_path / "work tree").resolve()


# -- Claude -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def claude(tree: Path) -> Records:
    folder = Path(os.environ["HOME"]) / ".claude"
    return Records(tree, folder / "projects" / slug(str(tree)) / f"{SESSION}.jsonl", "claude")


def copy(claude: Records, name: str | None, content: bytes = b"", folder: Path | None = None) -> dict[str, Any]:
    """A record of a copy that Claude keeps; without a name the file did not exist."""
    if name is not None:
        place = Path(os.environ["HOME"]) / ".claude" / "file-history" / SESSION
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return {"backupFileName": name, "version": 1, "realParentDir": str(folder or claude.tree)}


def snapshot(claude: Records, seconds: float, copies: dict[str, Any], *, update: bool = False) -> None:
    found = {"messageId": "m", "trackedFileBackups": copies, "timestamp": at(seconds)}
    claude.add(seconds, "file-history-snapshot", snapshot=found, isSnapshotUpdate=update)


def result(claude: Records, seconds: float, path: Path, original: str | None, kind: str | None = None) -> None:
    told = {"filePath": str(path), "originalFile": original, "structuredPatch": [], **({"type": kind} if kind else {})}
    claude.add(seconds, "user", message={"role": "user", "content": []}, toolUseResult=told)


def test_the_copies_of_the_prompt_and_those_before_each_change(claude: Records) -> None:
    snapshot(claude, -60, {"a.txt": copy(claude, "aa@v1", b"of the turn before\n")})
    snapshot(claude, 0.1, {"a.txt": copy(claude, "aa@v2", b"\xff\r\nexact\r\n"), "new.py": copy(claude, None)})
    delta = {"trackingPath": "sub/b.txt", "backup": copy(claude, "bb@v1", b"b\n", claude.tree / "sub")}
    claude.add(1, "file-history-delta", snapshotMessageId="m", **delta)
    result(claude, 2, claude.tree / "a.txt", "what the transcript says counts less\n")
    snapshot(claude, 3, {"a.txt": copy(claude, "aa@v3", b"a prompt within the turn\n")})
    assert claude.found() == {"a.txt": b"\xff\r\nexact\r\n", "new.py": None, "sub/b.txt": b"b\n"}
    assert claude.read().inexact == frozenset()


def test_older_versions_record_the_snapshot_again(claude: Records) -> None:
    first = {"a.txt": {"backupFileName": "aa@v1", "version": 1}}
    copy(claude, "aa@v1", b"a\n")
    snapshot(claude, 0.1, first)
    copy(claude, "bb@v1", b"b\n")
    snapshot(claude, 0.1, {**first, "b.txt": {"backupFileName": "bb@v1", "version": 1}}, update=True)
    assert claude.found() == {"a.txt": b"a\n", "b.txt": b"b\n"}


def test_without_copies_the_results_of_the_tools_have_the_original(claude: Records) -> None:
    (claude.tree / "crlf.txt").write_bytes(b"one\r\nTWO\r\n")
    result(claude, -5, claude.tree / "before.txt", "a turn before\n")
    result(claude, 1, claude.tree / "a.txt", "first\n")
    result(claude, 2, claude.tree / "a.txt", "second\n")
    result(claude, 3, claude.tree / "new.py", None, "create")
    result(claude, 4, claude.tree / "unknown.txt", None)
    result(claude, 5, claude.tree / "crlf.txt", "one\ntwo\n")
    assert claude.found() == {"a.txt": b"first\n", "new.py": None, "crlf.txt": b"one\r\ntwo\r\n"}
    assert claude.read().inexact == {str(claude.tree / "crlf.txt")}


def test_changes_of_subagents_count(claude: Records) -> None:
    result(claude, 1, claude.tree / "a.txt", "main\n")
    inside = Records(claude.tree, claude.path.with_suffix("") / "subagents" / "agent-1.jsonl", "claude")
    result(inside, 2, claude.tree / "b.txt", "sub\n")
    assert claude.found() == {"a.txt": b"main\n", "b.txt": b"sub\n"}


@pytest.mark.parametrize("name", ["../../secret", "aa@v1/../x", "", 5, "aa@v9"])
def test_a_copy_is_only_read_in_its_folder(claude: Records, name: object) -> None:
    (Path(os.environ["HOME"]) / "secret").write_text("secret\n")
    snapshot(claude, 0.1, {"a.txt": {"backupFileName": name, "version": 1}})
    assert claude.found() == {}


def test_a_pipe_or_a_link_in_place_of_a_copy_is_not_read(claude: Records) -> None:
    record, link = copy(claude, "aa@v1"), copy(claude, "bb@v1")
    place = Path(os.environ["HOME"]) / ".claude" / "file-history" / SESSION
    (place / "aa@v1").unlink()
    os.mkfifo(place / "aa@v1")
    (place / "bb@v1").unlink()
    (place / "bb@v1").symlink_to("/etc/passwd")
    snapshot(claude, 0.1, {"a.txt": record, "b.txt": link})
    assert claude.found() == {}


def test_broken_records_are_nothing(claude: Records) -> None:
    for odd in (
        None,
        5,
        [],
        {"trackedFileBackups": [1]},
        {"trackedFileBackups": {"a": 5, "b\0": {"backupFileName": None}}},
    ):
        claude.add(1, "file-history-snapshot", snapshot=odd)
        claude.add(1, "file-history-delta", backup=odd, trackingPath=odd)
        claude.add(1, "user", toolUseResult={"filePath": "a\0b", "originalFile": "x"})
    with open(claude.path, "ab") as file:
        file.write(b'{"type":"user","toolUseResult":{"originalFile":"torn\n\xff\n')
    assert claude.found() == {}


def test_a_long_transcript_is_read_from_its_end(claude: Records) -> None:
    for number in range(1000):
        result(claude, number - 990, claude.tree / f"{number}.txt", "x" * 50)
    lines = turn_records.lines_since(str(claude.path), BEGAN, first=2000)
    assert 10 <= len(lines) < 500 and b"989.txt" in b"".join(lines) and b"999.txt" in lines[-1]
    assert len(turn_records.lines_since(str(claude.path), BEGAN - 2000, first=2000)) == 1000
    found = claude.found()
    assert len(found) == 10 and "989.txt" not in found and "990.txt" in found


def test_other_programs_record_no_contents(claude: Records) -> None:
    result(claude, 1, claude.tree / "a.txt", "a\n")
    assert turn_records.read_files("gemini", SESSION, str(claude.tree), at(0)) == NO_FILES
    assert turn_records.read_files("claude", None, str(claude.tree), at(0)) == NO_FILES


# -- Codex ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def codex(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    home = Path(os.environ["HOME"]) / ".codex"
    monkeypatch.setenv("CODEX_HOME", str(home))
    day = home / "sessions" / "2026" / "11" / "20"
    return Records(tree, day / f"rollout-2026-11-20T03-30-47-{SESSION}.jsonl", "codex")


def patched(codex: Records, seconds: float, status: str = "completed", **changes: dict[str, Any]) -> None:
    named = {str(codex.tree / name.replace("__", "/").replace("_", ".")): change for name, change in changes.items()}
    item = {"type": "FileChange", "id": "call", "changes": named, "status": status}
    codex.add(seconds, "event_msg", payload={"type": "item_completed", "item": item})


def update(diff: str, to: Path | None = None) -> dict[str, Any]:
    return {"type": "update", "unified_diff": diff, "move_path": str(to) if to else None}


def test_patches_are_taken_back_in_turn(codex: Records) -> None:
    (codex.tree / "a.txt").write_text("ONE\nTWO\nthree\nmine\n")
    (codex.tree / "un2.txt").write_text("replaced")
    patched(codex, -5, a_txt=update("@@ -1,2 +1,2 @@\n-zero\n+one\n two\n"))
    patched(codex, 1, a_txt=update("@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n"), new_py={"type": "add", "content": "x\n"})
    patched(codex, 2, "failed", a_txt=update("@@ -1 +1 @@\n-a\n+b\n"))
    patched(
        codex,
        3,
        a_txt=update("@@ -1,3 +1,3 @@\n ONE\n-two\n+TWO\n three\n"),
        sub__s_txt={"type": "delete", "content": "s\n"},
        un_txt=update("@@ -1 +1 @@\n-before\n+replaced\n\\ No newline at end of file\n", codex.tree / "un2.txt"),
    )
    assert codex.found() == {
        "a.txt": b"one\ntwo\nthree\nmine\n",
        "new.py": None,
        "sub/s.txt": b"s\n",
        "un.txt": b"before\n",
        "un2.txt": None,
    }


def test_a_file_that_was_changed_behind_its_patch_is_unknown(codex: Records) -> None:
    (codex.tree / "a.txt").write_text("something else\n")
    patched(codex, 1, a_txt=update("@@ -1 +1 @@\n-one\n+two\n"))
    patched(codex, 2, a_txt=update("@@ -1 +1 @@\n-two\n+three\n"), b_txt=update("@@ -1 +1 @@\n-x\n+y\n"))
    assert codex.found() == {}


def test_the_events_of_other_versions(codex: Records) -> None:
    (codex.tree / "a.txt").write_text("two\n")
    changes = {
        str(codex.tree / "a.txt"): {"update": {"unified_diff": "@@ -1 +1 @@\n-one\n+two\n", "move_path": None}},
        str(codex.tree / "b.txt"): {"delete": {"content": "b\n"}},
    }
    codex.add(1, "event_msg", payload={"type": "patch_apply_end", "success": True, "changes": changes})
    codex.add(2, "event_msg", payload={"type": "patch_apply_end", "success": False, "changes": {"c.txt": {"add": {}}}})
    assert codex.found() == {"a.txt": b"one\n", "b.txt": b"b\n"}


@pytest.mark.parametrize(
    ("now", "patch", "before"),
    [
        (b"a\nB\nc\n", b"@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", b"a\nb\nc\n"),
        (b"a\r\nB\r\n", b"@@ -2 +2 @@\n-b\r\n+B\r\n", b"a\r\nb\r\n"),
        (b"a\nnew\nb\n", b"@@ -1,0 +2 @@\n+new\n", b"a\nb\n"),
        (b"a\nb\n", b"@@ -2 +1,0 @@\n-gone\n", b"a\ngone\nb\n"),
        (b"a", b"@@ -1 +1 @@\n-b\n+a\n\\ No newline at end of file\n", b"b\n"),
        (b"a\n", b"@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+a\n", b"b"),
        (b"1\nX\n3\n4\n5\nY\n", b"@@ -2 +2 @@\n-x\n+X\n@@ -6 +6 @@\n-y\n+Y\n", b"1\nx\n3\n4\n5\ny\n"),
        (b"", b"@@ -1 +0,0 @@\n-all\n", b"all\n"),
        (b"other\n", b"@@ -1 +1 @@\n-b\n+a\n", None),
        (b"a\n", b"@@ -9 +9 @@\n-b\n+a\n", None),
    ],
)
def test_one_patch(now: bytes, patch: bytes, before: bytes | None) -> None:
    assert take_patch_back(now, patch) == before
