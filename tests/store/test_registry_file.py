"""An unusable registry is refused before anything is changed; a missing feature is reported. # D6"""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file, registry_health, schema
from tests.audit_events import at_event
from tests.helpers import ROOT, become_another_user, imi, tree_hash
from tests.registry_faults import deny_access
from tests.store import imi_file

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A registry with a row in it, closed."""
    made = str(tmp_path / "place" / "iMi.db")
    with closing(db.connect(made)) as connection:
        db.transact(connection, events.append_row, "made")
    return made


def refused(path: str, code: str) -> str:
    """Opening it is refused with one sentence that names the file, and changes no byte of anything in its folder."""
    folder = Path(path).parent
    before = tree_hash(folder)
    with pytest.raises(RegistryError) as caught:
        db.connect(path, busy_seconds=0.1)
    assert tree_hash(folder) == before
    assert caught.value.code == code
    sentence = caught.value.sentence
    assert path in sentence and "\n" not in sentence and sentence.count(". ") == 0, sentence
    return sentence


# File systems -------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_filesystem(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes every folder lie on a file system of this type."""
    return lambda kind: monkeypatch.setattr(registry_file, "filesystem_type", lambda _: kind)


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse", "fuse.sshfs", "fuse.rclone", "ceph", "vboxsf"],
)
def test_a_remote_file_system_is_refused(path: str, kind: str, on_filesystem: Callable[[str], None]) -> None:
    on_filesystem(kind)
    assert kind in refused(path, "registry-remote")
    fresh = os.path.join(os.path.dirname(path), "new.db")
    assert kind in refused(fresh, "registry-remote")
    assert not os.path.exists(fresh)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuseblk", "f2fs", ""])
def test_a_local_file_system_is_accepted(path: str, kind: str, on_filesystem: Callable[[str], None]) -> None:
    on_filesystem(kind)
    db.connect(path).close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_file_system_is_the_one_of_the_innermost_mount(tmp_path: Path) -> None:
    assert registry_file.filesystem_type("/proc/self") == "proc"
    assert registry_file.filesystem_type(str(tmp_path)) == _kind_by_df(tmp_path)


def _kind_by_df(folder: Path) -> str:
    done = subprocess.run(["df", "--output=fstype", folder], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def test_mounts_are_read_with_their_escapes(tmp_path: Path) -> None:
    odd = tmp_path / "a b\\c"
    odd.mkdir()
    spelled = os.fsencode(odd).replace(b"\\", b"\\134").replace(b" ", b"\\040")
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"dev / ext4 rw 0 0\nnonsense\nserver:/x " + spelled + b" nfs4 rw 0 0\n")
    assert registry_file.filesystem_type(str(odd), str(mounts)) == "nfs4"
    assert registry_file.filesystem_type(str(tmp_path), str(mounts)) == "ext4"


# Rights -------------------------------------------------------------------------------------------------------------


def without_privilege(*args: str) -> subprocess.CompletedProcess[str]:
    """`imi …` as a user that file modes bind: the child gives up root's right to ignore them."""

    def drop() -> None:
        if os.geteuid() == 0:
            for right in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
                if libc.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0):
                    os._exit(99)

    libc = ctypes.CDLL(None)
    return subprocess.run(
        [sys.executable, "-m", "imi_monitor", *args],
        preexec_fn=drop,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="drops a right of Linux")
@pytest.mark.parametrize(
    ("what", "mode", "says"),
    [("file", 0o400, "is read-only"), ("folder", 0o500, "is read-only"), ("folder", 0o000, "cannot reach")],
)
def test_a_read_only_registry_is_refused(path: str, what: str, mode: int, says: str) -> None:
    target = path if what == "file" else os.path.dirname(path)
    before = Path(path).read_bytes()
    os.chmod(target, mode)
    try:
        done = without_privilege("types", "list", "--db", path)
        if done.returncode == 99:
            pytest.skip("this root may not give up its rights")
    finally:
        os.chmod(target, 0o700)
    assert done.returncode == 1, done
    assert done.stdout == "" and done.stderr.startswith("imi: ") and done.stderr.count("\n") == 1, done
    assert says in done.stderr and path in done.stderr
    assert Path(path).read_bytes() == before


def test_a_read_only_folder_is_refused_by_access_check(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deny_access(monkeypatch, [path])
    assert "make the file and its folder writable" in refused(path, "registry-readonly")


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root's files are shared: tests/store/test_registry_access.py gives one away"
)
def test_a_registry_of_another_user_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    become_another_user(monkeypatch)
    assert f"belongs to another user (uid {me})" in refused(path, "registry-foreign")


# Files that are no registry, or no longer one -----------------------------------------------------------------------


def damaged(change: Callable[[bytearray], None]) -> Callable[[str], None]:
    def damage(path: str) -> None:
        content = bytearray(Path(path).read_bytes())
        change(content)
        Path(path).write_bytes(bytes(content))

    return damage


def text_file(content: bytearray) -> None:
    content[:] = b"this is no database, and it is long enough to be looked at\n" * 200


def no_header(content: bytearray) -> None:
    content[:16] = b"\xff" * 16


def cut_short(content: bytearray) -> None:
    del content[300:]


@pytest.mark.parametrize("change", [text_file, no_header, cut_short])
def test_a_damaged_file_is_refused(path: str, change: Callable[[bytearray], None]) -> None:
    damaged(change)(path)
    assert "restore a copy" in refused(path, "registry-corrupt")


def test_damage_found_later_is_one_sentence(path: str, tmp_path: Path) -> None:
    size = os.stat(path).st_size
    assert size > 20 * 4096
    for page in range(2, size // 4096):
        damaged(lambda content, at=page * 4096: content.__setitem__(slice(at, at + 4096), b"\xa5" * 4096))(path)
    before = tree_hash(tmp_path / "place")
    for words in (("types", "list"), ("claims",), ("events",)):
        ran = imi(*words, "--db", path)
        assert ran.code == 1 and ran.out == "", (words, ran)
        assert ran.err.startswith(f"imi: the registry {path} is damaged"), (words, ran)
        assert ran.err.count("\n") == 1
    assert tree_hash(tmp_path / "place") == before
    ran = imi("doctor", "--db", path)
    assert ran.code == 1 and "fail" in ran.out and "damaged" in ran.out


def test_a_folder_a_pipe_and_a_missing_registry_are_refused(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder.db", tmp_path / "pipe.db"
    folder.mkdir()
    os.mkfifo(pipe)
    assert "is a folder" in refused(str(folder), "registry-open")
    assert "is not a regular file" in refused(str(pipe), "registry-open")
    with pytest.raises(RegistryError, match="there is no registry at"):
        db.connect(str(tmp_path / "none.db"), create=False)
    assert not (tmp_path / "none.db").exists()


def test_a_registry_that_vanishes_while_it_is_opened_is_not_made_anew(path: str) -> None:
    """An empty one would show every worktree as unclaimed."""
    with at_event("sqlite3.connect", lambda: os.unlink(path)) as met, pytest.raises(RegistryError):
        db.connect(path)
    assert met
    assert not os.path.exists(path)


@pytest.mark.parametrize("name", ["file/iMi.db", "file/deeper/iMi.db", "x" * 300, "nul\0byte"])
def test_an_impossible_registry_path_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryError) as caught:
        db.connect(str(tmp_path / name))
    assert "\n" not in caught.value.sentence
    assert (tmp_path / "file").read_text() == ""


def test_an_empty_file_is_a_new_registry_but_not_beside_a_log_or_its_ballast(path: str) -> None:
    with closing(db.connect(path)) as connection:
        db.transact(connection, events.append_row, "only in the log")
        log = Path(path + "-wal").read_bytes()  # read while open: this process closes it next anyway
    Path(path).write_bytes(b"")
    Path(path + "-wal").write_bytes(log)
    os.unlink(registry_file.ballast_path(path))
    assert f"is empty, but the log {path}-wal names it" in refused(path, "registry-lost")
    os.unlink(path)
    assert f"is gone, but the log {path}-wal names it" in refused(path, "registry-lost")
    os.unlink(path + "-wal")
    Path(path).write_bytes(b"")
    with closing(db.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_a_locked_registry_is_refused_after_the_timeout(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert "held by another program" in refused(path, "registry-busy")


def test_a_registry_of_iMi_that_iMi_is_writing(tmp_path: Path) -> None:
    path = tmp_path / "place" / "iMi.db"
    path.parent.mkdir()
    imi_file.make(path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "held by another program" in refused(str(path), "registry-busy")


# SQLite's version ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "state"), [((3, 40, 1), "warn"), ((3, 51, 2), "warn"), ((3, 51, 3), "ok")])
def test_an_old_sqlite_is_reported_and_worked_around(
    path: str, version: tuple[int, int, int], state: str, with_sqlite: Callable[[int, int, int], None]
) -> None:
    with_sqlite(*version)
    found = {check.name: check for check in registry_health.check_registry(path)}
    assert found["sqlite"].state == state
    assert ("allows only one at a time" in found["sqlite"].says) is (state == "warn")
    with closing(db.connect(path)) as connection:
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0 if state == "warn" else 1000,)


def test_registry_errors_are_in_the_json_answer(path: str) -> None:
    damaged(no_header)(path)
    ran = imi("types", "list", "--json", "--db", path)
    assert ran.code == 1 and ran.err == ""
    assert json.loads(ran.out)["code"] == "registry-corrupt"
