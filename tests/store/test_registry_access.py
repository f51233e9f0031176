"""The registry among several users: what is ours is closed to others, what is theirs is not used, doctor names both."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, registry_file
from tests.helpers import imi, tree_hash
from tests.limits import LIMIT
from tests.second_user import ALICE, BOB, Users, users

__all__ = ["users"]


@pytest.fixture
def own() -> Path:
    """The user's own registry, made by a first command."""
    assert imi("types", "list").code == 0
    return Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def doctor(*words: str, name: str = "access") -> list[str]:
    return [check["says"] for check in imi("doctor", *words, "--json").data["checks"] if check["name"] == name]


# What is ours -------------------------------------------------------------------------------------------------------


def test_an_open_registry_in_an_open_folder_is_closed_and_the_user_is_told(own: Path) -> None:
    connection = db.connect(str(own))  # keeps the side files there
    own.parent.chmod(0o777)
    for file in (own, own.with_name("iMi.db-wal")):
        file.chmod(0o666)
    ran = imi("claims")
    assert ran.code == 0 and ran.err.splitlines() == [
        f"warning: {own.parent} was open to other users (mode 0777): its mode is 0755 now",
        f"warning: {own} was open to other users (mode 0666): its mode is 0600 now",
        f"warning: {own}-wal was open to other users (mode 0666): its mode is 0600 now",
    ]
    assert (mode(own.parent), mode(own), mode(own.with_name("iMi.db-wal"))) == (0o755, 0o600, 0o600)
    assert imi("claims").err == ""
    connection.close()


def test_hot_commands_close_it_too_and_say_so_in_json(own: Path) -> None:
    own.chmod(0o644)  # as iMi makes it
    ran = imi("claims", "--json")
    assert mode(own) == 0o600
    assert ran.data["warnings"] == [f"{own} was open to other users (mode 0644): its mode is 0600 now"]


def test_doctor_names_what_it_closed(own: Path) -> None:
    assert doctor() == ["only you can read and write the registry"]
    own.chmod(0o666)
    assert doctor() == [f"{own} was open to other users (mode 0666): its mode is 0600 now"]
    assert doctor() == ["only you can read and write the registry"]


def test_a_folder_that_the_user_chose_keeps_its_mode_and_doctor_names_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o777)
    assert imi("claims", "--db", str(place / "iMi.db")).err == ""
    assert mode(place) == 0o777 and mode(place / "iMi.db") == 0o600
    assert doctor("--db", str(place / "iMi.db")) == [
        f"{place} is writable by other users (mode 0777), who can exchange the registry"
    ]
    place.chmod(0o1777)  # sticky: others cannot replace files
    assert doctor("--db", str(place / "iMi.db")) == ["only you can read and write the registry"]


def test_doctor_names_open_folders_of_settings_and_hooks(own: Path) -> None:
    settings, state = own.with_name("config.toml"), Path(os.environ["HOME"]) / ".local" / "state" / "imi"
    assert doctor(name="folders") == ["only you can write configuration, state and hooks"]
    settings.write_text("")
    settings.chmod(0o666)
    (state / "hooks").mkdir(parents=True)
    (state / "hooks").chmod(0o777)
    assert doctor(name="folders") == [
        f"{settings} is writable by other users (mode 0666)",
        f"{state / 'hooks'} is writable by other users (mode 0777)",
    ]


def test_the_ballast_is_never_a_link_of_another(tmp_path: Path) -> None:
    """Random bytes must not be appended to a file that another user linked into its place."""
    path = str(tmp_path / "iMi.db")
    victim = tmp_path / "victim"
    for link in (os.link, os.symlink):
        victim.write_text("mine")
        link(victim, registry_file.ballast_path(path))
        registry_file.lay_ballast(path)
        assert not registry_file.cut_ballast(path, 0)
        assert victim.read_text() == "mine"
        os.unlink(registry_file.ballast_path(path))


# What is another user's ---------------------------------------------------------------------------------------------


def refused(path: Path, *, uid: int) -> None:
    before = tree_hash(path.parent)
    with pytest.raises(RegistryError) as caught:
        db.connect(str(path))
    assert caught.value.code == "registry-foreign" and f"(uid {uid})" in caught.value.sentence
    assert tree_hash(path.parent) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", [".", "iMi.db", "iMi.db-wal", "iMi.db-shm", "iMi.db-journal"])
def test_files_of_another_user_are_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "place" / "iMi.db"
    db.connect(str(path)).close()
    target = path.parent / what
    if not target.exists():
        target.write_bytes(b"\0" * 32)
    os.chown(target, ALICE, ALICE)
    refused(path, uid=ALICE)
    if what == "iMi.db":
        found = [
            check
            for check in imi("doctor", "--db", str(path), "--json").json["data"]["checks"]
            if check["state"] == "fail"
        ]
        assert any(f"(uid {ALICE})" in check["says"] for check in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_new_registry_is_not_made_beside_a_log_of_another(tmp_path: Path) -> None:
    path = tmp_path / "place" / "iMi.db"
    path.parent.mkdir()
    path.with_name("iMi.db-wal").write_bytes(b"\0" * 32)
    os.chown(path.with_name("iMi.db-wal"), ALICE, ALICE)
    refused(path, uid=ALICE)


def test_two_users_have_two_registries_and_one_cannot_read_the_others(users: Users) -> None:
    repo = users.repository(ALICE)
    users.git(BOB, "config", "--global", "safe.directory", "*", cwd=users.home(BOB))
    assert users.imi(ALICE, "claim", "feat-x", "--agent", "a", cwd=repo).code == 0
    theirs = users.registry(ALICE)
    assert mode(theirs) == 0o600
    for words in (("claims",), ("claim", "feat-x", "--agent", "b"), ("verify-lock", "feat-x", "--agent", "a")):
        ran = users.imi(BOB, *words, "--db", str(theirs), cwd=repo)
        assert ran.code == (2 if words[0] == "verify-lock" else 1), (words, ran)
        assert ran.err.count("\n") == 1 and "Permission denied" in ran.err, (words, ran)
    assert users.imi(BOB, "claims", "--json").data["claims"] == []
    assert users.imi(ALICE, "verify-lock", "feat-x", "--agent", "a", cwd=repo).code == 0


def test_a_place_of_root_is_shared_only_when_it_is_named(users: Users) -> None:
    place = users.folder / "shared"
    place.mkdir()
    place.chmod(0o1777)
    shared = str(place / "iMi.db")
    assert users.imi(ALICE, "types", "list", "--db", shared).code == 0
    assert mode(place / "iMi.db") == 0o600
    assert users.imi(BOB, "types", "list", "--db", shared).code == 1  # ALICE made it
    home = users.home(BOB) / ".config"
    (home / "iMi").mkdir(parents=True)
    (home / "iMi").chmod(0o777)  # of root
    ran = users.imi(BOB, "types", "list")
    assert ran.code == 1 and "its folder belongs to another user (uid 0)" in ran.err, ran


def test_a_log_that_another_user_planted_is_not_read(users: Users) -> None:
    """SQLite would apply it to the registry, and so grant trust or claims."""
    place = users.folder / "open"
    place.mkdir()
    place.chmod(0o777)
    os.chown(place, ALICE, ALICE)
    path = str(place / "iMi.db")
    assert users.imi(ALICE, "types", "list", "--db", path).code == 0
    assert users.run(BOB, "/bin/sh", "-c", f"echo forged > {path}-journal").code == 0
    ran = users.imi(ALICE, "types", "list", "--db", path)
    assert ran.code == 1 and f"iMi.db-journal belongs to another user (uid {BOB})" in ran.err, ran


def test_a_worktree_of_another_user_is_neither_claimed_nor_removed(users: Users) -> None:
    """Its owner's claims are in a registry of another user; in the trash of this one its owner could not reach it."""
    repo, tree = users.repository(ALICE), users.home(ALICE) / "feat-x"
    assert users.imi(ALICE, "claim", "feat-x", "--agent", "a", cwd=repo).code == 0
    for path in (repo, tree):
        assert users.run(ALICE, "/bin/chmod", "-R", "a+rwX", str(path)).code == 0
    assert users.run(ALICE, "/bin/chmod", "a+rwx", str(users.home(ALICE))).code == 0
    for words, says in (
        (("claim", "feat-x"), "belongs to another user, so git refuses to work in it"),
        (("claim", "feat-x", "--force", "--reason", "mine"), "belongs to another user, so git refuses to work in it"),
        (("remove", "feat-x"), f"belongs to another user (uid {ALICE})"),
        (("remove", "feat-x", "--force", "--yes-really", "feat-x"), f"belongs to another user (uid {ALICE})"),
    ):
        ran = users.imi(BOB, *words, "--agent", "b", cwd=repo)
        assert ran.code == 1 and says in ran.err, (words, ran)
    users.git(BOB, "config", "--global", "safe.directory", "*", cwd=users.home(BOB))
    ran = users.imi(BOB, "remove", "feat-x", "--force", "--yes-really", "feat-x", cwd=repo)
    assert ran.code == 1 and "this cannot be overridden" in ran.err, ran
    assert tree.is_dir() and tree.stat().st_uid == ALICE
    assert users.imi(ALICE, "remove", "feat-x", "--agent", "a", cwd=repo).code == 0
    assert users.imi(BOB, "trash", "list", cwd=repo).code == 0
    assert users.imi(BOB, "undo", cwd=repo).code == 1
    assert users.imi(ALICE, "undo", cwd=repo).code == 0


def test_nothing_that_imi_keeps_is_readable_for_another_user(users: Users) -> None:
    """Registry, ballast, trash, hooks and backups; the worktrees themselves have the modes that their owner gives."""
    repo = users.repository(ALICE)
    for words in (
        ("claim", "feat-x", "--agent", "a"),
        ("hooks", "install", "claude"),
        ("backup",),
        ("release", "feat-x", "--agent", "a"),
        ("remove", "feat-x", "--agent", "a"),
    ):
        ran = users.imi(ALICE, *words, cwd=repo)
        assert ran.code == 0, (words, ran)
    home = users.home(ALICE)
    kept = [repo / ".git" / "imi", home / ".config" / "iMi", home / ".local" / "state" / "imi"]
    assert all(path.is_dir() for path in kept)
    for path in kept:
        found = users.run(BOB, "/usr/bin/find", str(path), "-type", "f", "-readable").out
        assert found == "", found
        assert "written" not in users.run(BOB, "/bin/sh", "-c", f"echo x > {path}/x && echo written").out
    backups = users.run(ALICE, "/usr/bin/find", str(home), "-name", "*.tar.gz").out.split()
    assert len(backups) == 1 and mode(Path(backups[0])) == 0o600


@pytest.mark.parametrize(("user", "agents"), [(ALICE, 1), (BOB, 0)])
def test_a_program_of_another_user_is_no_agent(users: Users, user: int, agents: int) -> None:
    """Only what runs as you is shown; a process of BOB's stands in ALICE's worktree under an agent's name."""
    repo, tree = users.repository(ALICE), users.home(ALICE) / "feat-x"
    program = users.home(user) / "codex"
    start = f"ln -s /bin/sleep {program}; cd {tree} && {program} 600 >/dev/null 2>&1 & echo $!"
    pid = int(users.run(user, "/bin/sh", "-c", start).out)
    try:
        assert os.stat(f"/proc/{pid}").st_uid == user
        end = time.monotonic() + LIMIT
        while (ran := users.imi(ALICE, "agents", "--json", cwd=repo)).code == 0 and len(ran.data["agents"]) < agents:
            assert time.monotonic() < end, "a shell becomes the program after a moment"
        assert len(ran.data["agents"]) == agents
    finally:
        os.kill(pid, 9)
