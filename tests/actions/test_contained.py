"""Contained workspaces by hand: where they are, files by plain names, delivery, clean-up, undo and migration."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from imi_monitor.model import roles
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.runs.contained import file_delivery, workspace_end, workspace_place, workspace_trash
from imi_monitor.runs.contained.file_door import FileDoor
from imi_monitor.store import contained_work, db
from tests.helpers import Ran, Repo, imi
from tests.runs.run_kit import registry


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default workspace, beside Denker's data."""
    data = tmp_path / "denker" / "memory"
    data.mkdir(parents=True)
    monkeypatch.setenv("DENKER_MEMORY_DATA_PATH", str(data))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "denker" / "workspace" / "default"


def write(name: str, content: str, *words: str) -> Ran:
    return imi("file", "write", name, "--content", content, *words)


def test_the_place_follows_denkers_variable_the_setting_and_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DENKER_MEMORY_DATA_PATH", str(tmp_path / "data"))
    assert workspace_place.path_of(None) == str(tmp_path / "workspace" / "default")  # S1.3 S1.7
    assert workspace_place.path_of("x", "/srv/w") == "/srv/w/x"
    monkeypatch.delenv("DENKER_MEMORY_DATA_PATH")
    assert workspace_place.path_of(None) == os.path.realpath("/tmp") + "/denker_workspace/default"  # S1.2
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert workspace_place.path_of(None) == str(tmp_path / "denker_workspace" / "default")  # S1.4


def test_a_folder_of_another_user_or_a_link_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "default").symlink_to(tmp_path)
    with pytest.raises(Refused, match=r"is no folder: set contained\.path"):
        workspace_place.make(str(tmp_path / "root" / "default"))
    loose = tmp_path / "loose"
    loose.mkdir(mode=0o777)
    workspace_place.make(str(loose / "default"))
    assert loose.stat().st_mode & 0o077 == 0 and (loose / "default").stat().st_mode & 0o777 == 0o700


def test_files_have_plain_names_and_are_shared_through_the_registry(place: Path) -> None:  # S1.5 S1.6 S1.8 S1.11
    assert write("report.md", "# a\n", "--workspace", "default").code == 0
    assert imi("file", "edit", "report.md", "--old", "# a", "--new", "# b", env={"IMI_AGENT_ID": "editor-1"}).code == 0
    assert imi("file", "read", "report.md").out == "# b\n"
    assert imi("file", "find", "B").out == "report.md:1: # b\n"
    [listed] = imi("file", "list", "--json").data["files"]
    assert (listed["name"], listed["size"], listed["agents"][-1]) == ("report.md", 4, "editor-1")
    shared = json.loads((place / "workspace_metadata.json").read_text())
    assert shared["session_id"] == "default"
    entry = shared["files"]["report.md"]
    assert {"file_id", "path", "absolute_path", "agent", "created", "size", "metadata"} <= set(entry)  # Denker's shape
    assert entry["absolute_path"] == str(place / "report.md") and "report.md" in shared["agents"]["editor-1"]
    assert sorted(os.listdir(place)) == ["report.md", "workspace_metadata.json"], "flat, and nothing temporary"
    (place / "by-hand.txt").write_text("x")
    assert {one["name"]: one["agents"] for one in imi("file", "list", "--json").data["files"]}["by-hand.txt"] == [
        "unknown"
    ]


HOSTILE = [
    "../x",
    "/etc/passwd",
    "a/b.md",
    "..",
    ".",
    "",
    ".hidden",
    "-rf",
    "a\nb",
    "a\x1b[31m",
    "workspace_metadata.json",
    "x" * 300,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out(place: Path, name: str) -> None:  # S1.16
    place.mkdir(parents=True)
    with FileDoor(str(place), "a") as door:
        for act in (lambda: door.read(name), lambda: door.write(name, b"x")):
            with pytest.raises(UsageError):
                act()
    assert os.listdir(place) == [] and not (place.parent / "x").exists()


def test_a_path_names_the_plain_name_to_use(place: Path) -> None:
    assert "use b.md" in write("../a/b.md", "x").err


def test_links_folders_pipes_and_second_names_are_no_files(place: Path, tmp_path: Path) -> None:  # S1.16
    place.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (place / "link").symlink_to(secret)
    (place / "folder").mkdir()
    os.mkfifo(place / "pipe")
    os.link(secret, place / "hard")
    with FileDoor(str(place), "a") as door:
        assert door.names() == ["hard"]
        for name in ("link", "folder", "pipe", "hard"):
            with pytest.raises(Refused, match="is no plain file"):
                door.read(name)
            with pytest.raises(Refused):
                door.write(name, b"x")
    assert secret.read_text() == "secret"


def test_a_delivery_never_replaces_and_the_original_goes(place: Path, tmp_path: Path) -> None:  # S1.9 S1.10
    downloads = tmp_path / "Downloads"
    downloads.mkdir()
    for number in (1, 2):
        write("report.pdf", f"v{number}")
        assert imi("file", "deliver", "report.pdf", "Downloads/").code == 0
    assert {path.name: path.read_text() for path in downloads.iterdir()} == {"report.pdf": "v1", "report (1).pdf": "v2"}
    assert imi("file", "list", "--json").data["count"] == 0
    acts = imi("file", "history", "--json").data["history"]  # S1.17
    assert [(one["op"], one["name"]) for one in acts] == [
        ("created", "report.pdf"),
        ("delivered", "report.pdf"),
        ("created", "report.pdf"),
        ("delivered", "report.pdf"),
    ]
    assert acts[0]["sha256"] and acts[3]["target"] == str(downloads / "report (1).pdf")
    write("left.md", "x")
    assert "there is no folder" in imi("file", "deliver", "left.md", "nowhere/left.md").err
    assert imi("file", "read", "left.md").out == "x\n"


@pytest.mark.parametrize("step", ["link", "fsync", "unlink"])
def test_a_delivery_that_is_torn_at_any_step_is_completed_once(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:  # S1.20
    place.mkdir(parents=True)
    target = tmp_path / "out.bin"
    with FileDoor(str(place), "a") as door:
        door.write("out.bin", b"data" * 1000)
        with monkeypatch.context() as torn:

            def crash(*_: object, **__: object) -> None:
                raise KeyboardInterrupt

            torn.setattr(os, step, crash)
            with pytest.raises(KeyboardInterrupt):
                file_delivery.deliver(door, "out.bin", str(target))
        assert "out.bin" in door.names() or target.read_bytes() == b"data" * 1000
        if "out.bin" in door.names():
            assert file_delivery.deliver(door, "out.bin", str(target)) == str(target)
        assert door.names() == []
    assert target.read_bytes() == b"data" * 1000
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.bin"], "no half and no second file"


def test_cleaning_is_moving_and_is_undone(place: Path) -> None:  # S1.12 S1.18
    write("a.txt", "a")
    done = imi("workspace", "clean", "--json").data
    assert not place.exists() and (Path(done["trash"]) / "a.txt").read_text() == "a"
    [row] = imi("workspace", "list", "--json").data["workspaces"]
    assert (row["state"], row["files"]) == ("cleaned", 1)
    write("b.txt", "b")
    refused = imi("undo", done["id"][:8])
    assert refused.code == 1 and "stands there again" in refused.err
    imi("workspace", "clean")
    [second, first] = imi("trash", "list", "--json").data["entries"]
    assert (first["id"], first["kind"], first["worktree_name"]) == (done["id"], "workspace", "default")
    assert first["restorable"] and first["trash_path"] == done["trash"]
    restored = imi("undo", done["id"][:8], "--json")
    assert restored.code == 0 and restored.data["kind"] == "workspace"
    assert (place / "a.txt").read_text() == "a"
    assert imi("workspace", "list", "--json").data["workspaces"][0]["state"] == "active"
    assert imi("undo", done["id"][:8]).code == 1, "it was restored"
    assert imi("trash", "purge", "--yes", second["id"], "--wait").code == 0
    assert not Path(second["trash_path"]).exists()
    assert imi("trash", "list", "--json").data["entries"] == []
    assert imi("workspace", "clean", "nothing").code == 1


def _pictured(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and time of every file."""
    return {path.name: (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_undo_brings_a_workspace_back_byte_for_byte_also_from_within_a_repository(place: Path, repo: Repo) -> None:
    write("a.txt", "a")
    (place / "binary").write_bytes(bytes(range(256)))
    (place / "binary").chmod(0o640)
    before = _pictured(place)
    assert imi("workspace", "clean", cwd=repo.path).code == 0
    done = imi("undo", cwd=repo.path)  # a person cleaned it last
    assert done.code == 0 and "restored the workspace default with 2 files, cleaned" in done.out + done.err
    assert _pictured(place) == before
    assert [one["op"] for one in imi("file", "history", "--json").data["history"]] == ["created"]


def test_a_workspace_is_claimed_like_a_worktree(place: Path, repo: Repo) -> None:
    write("a.txt", "a")
    claimed = imi("claim", "default", "--agent", "ada", "--task", "T-1", "--json", cwd=repo.path)
    assert claimed.code == 0, claimed.err
    assert imi("claim", "default", "--agent", "bob", "--wait", "0.1", cwd=repo.path).code == 1
    assert imi("heartbeat", "default", "--agent", "ada", cwd=repo.path).code == 0
    assert imi("verify-lock", "default", "--agent", "bob", cwd=repo.path).code == 1
    [listed] = imi("claims", "--all", "--json").data["claims"]
    assert (listed["repo_name"], listed["worktree_name"], listed["agent_id"]) == ("~contained", "default", "ada")
    refused = imi("workspace", "clean", cwd=repo.path, env={"IMI_AGENT_ID": "bob"})
    assert "ada has claimed default" in refused.err and place.exists()
    connection = db.connect(registry())
    assert not workspace_end.clean_if_over(connection, str(place), "its runs were over"), "not by itself either"
    db.close(connection)
    assert imi("release", "default", "--agent", "ada", cwd=repo.path).code == 0
    assert imi("workspace", "clean", env={"IMI_AGENT_ID": "bob"}).code == 0
    kinds = [json.loads(line)["type"] for line in imi("events", "--all", "--json").out.splitlines()]
    assert {"worktree.claimed", "worktree.released", "workspace.cleaned"} <= set(kinds)


def test_a_restore_that_a_crash_cuts_off_is_completed(place: Path) -> None:
    write("a.txt", "a")
    done = imi("workspace", "clean", "--json").data
    os.rename(done["trash"], place)
    assert imi("undo", done["id"]).code == 0
    assert (place / "a.txt").read_text() == "a"
    done = imi("workspace", "clean", "--json").data
    shutil.rmtree(done["trash"])
    assert "was deleted" in imi("undo", done["id"]).err
    assert "DELETED on disk" in imi("trash", "list").out


def test_a_new_workspace_is_not_lost_where_a_crash_cut_off_the_clean_up_of_the_one_before(place: Path) -> None:
    write("a.txt", "a")
    connection = db.connect(registry())
    [life] = contained_work.list_lives(connection, contained_work.ACTIVE)
    trash_path = workspace_trash.place_of(str(place), life.id)
    contained_work.begin_cleaning(connection, life.id, trash_path, "test")
    connection.commit()
    workspace_trash.move(str(place), trash_path)
    (place.parent / "default").mkdir(mode=0o700)
    (place / "b.txt").write_text("b")
    workspace_end.settle_all(connection)
    db.close(connection)
    assert (place / "b.txt").read_text() == "b"
    assert Path(trash_path, "a.txt").read_text() == "a"


def test_an_archive_holds_every_file(place: Path, tmp_path: Path) -> None:
    import tarfile

    write("a.txt", "a")
    assert imi("workspace", "archive", cwd=tmp_path).code == 0
    with tarfile.open(tmp_path / "default.tar.gz") as archive:
        assert archive.getnames() == ["a.txt"]
    assert imi("workspace", "archive", cwd=tmp_path).code == 1, "nothing is replaced"
    shown = imi("workspace", "show", "--json").data
    assert shown["path"] == str(place) and shown["files"][0]["name"] == "a.txt"


def test_older_folders_migrate_without_a_loss(place: Path) -> None:  # S1.15
    root = place.parent
    root.mkdir(parents=True)
    for folder, files in {
        "denker_100": {"report.md": "old", "a/b/c.txt": "deep", "same.txt": "same"},
        "denker_200": {"report.md": "new", "x/same.txt": "same", "workspace_metadata.json": "{}"},
    }.items():
        for number, (name, text) in enumerate(files.items()):
            path = root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            at = int(folder[7:]) * 1000 + number
            os.utime(path, (at, at))
    (root / "denker_x").mkdir()
    assert imi("workspace", "migrate", "--dry-run", "--json").data["folders"] == [
        str(root / "denker_100"),
        str(root / "denker_200"),
    ]
    assert imi("workspace", "migrate").code == 0
    found = {path.name: path.read_text() for path in place.iterdir() if path.name != "workspace_metadata.json"}
    assert found == {"report.md": "new", "report_100.md": "old", "c.txt": "deep", "same.txt": "same"}
    assert sorted(path.name for path in root.iterdir() if path.name.startswith("denker")) == ["denker_x"]
    trash = list((root / ".imi-trash").rglob("*.md"))
    assert len(trash) == 2, "the old folders are in the trash"
    listed = {one["worktree_name"]: one["id"] for one in imi("trash", "list", "--json").data["entries"]}
    assert set(listed) == {"denker_100", "denker_200"}
    assert imi("undo", "denker_100").code == 0
    assert (root / "denker_100/a/b/c.txt").read_text() == "deep"
    assert imi("trash", "purge", "--yes", "--wait", "denker_200").code == 0
    (root / "denker_100").rename(root / "denker_y")
    assert imi("workspace", "migrate").out == "no older folders\n"


def test_roles_are_enforced_by_the_door(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # S1.19
    write("a.md", "a")
    for role, may_create, may_edit, may_deliver in (
        ("creator", True, True, False),
        ("markdown-editor", True, True, False),
        ("editor", False, True, False),
        ("filesystem", False, False, True),
    ):
        env = {"IMI_ROLE": role}
        (place / "new.md").unlink(missing_ok=True)
        assert (imi("file", "write", "new.md", "--content", "x", env=env).code == 0) is may_create, role
        assert (imi("file", "edit", "a.md", "--old", "a", "--new", "a", env=env).code == 0) is may_edit, role
        refused = imi("file", "deliver", "a.md", "/nowhere/a.md", env=env)
        assert ("there is no folder" in refused.err) is may_deliver, role
        assert role.split("-")[-1] in roles.instructions(role) and "plain file names" in roles.instructions(role)
