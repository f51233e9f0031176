"""A creation that fails, is interrupted or loses a race reverts what it created, and only that (A1, R5)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.creation import creation_rollback, worktree_creation
from imi_monitor.model.errors import ImiError, Refused, RegistryError
from tests.actions.create_kit import branches, created_events, files, operations, picture, query, rows, shim
from tests.helpers import ROOT, Ran, Repo, imi, imi_argv, tree_hash
from tests.limits import LIMIT


def feat(repo: Repo, name: str, **surroundings: object) -> Outcome:
    """`imi feat` in this process, so that a step can fail."""
    action = actions.find("feat")
    assert action is not None
    with Context(str(repo.path), **surroundings) as context:  # type: ignore[arg-type]
        return action.run(context, Request("feat", {"name": name}))


AFTER_ADD = 'case " $* " in *" worktree add "*) $GIT "$@" || exit; {then};; esac'


def test_a_creation_whose_git_fails_at_the_end_leaves_nothing(repo: Repo, tmp_path: Path) -> None:
    before = picture(repo)
    env = shim(tmp_path / "bin", AFTER_ADD.format(then='echo "fatal: it broke" >&2; exit 1'))
    done = imi("feat", "x", cwd=repo.path, env=env)
    assert (done.code, done.out, "it broke" in done.err) == (1, "", True)
    assert picture(repo) == before


@pytest.mark.parametrize("kind", ["folder with files", "empty folder", "file", "link to nothing", "link to a folder"])
def test_an_existing_folder_at_the_path_is_never_touched(repo: Repo, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "app.worktrees" / "feat-x"
    place.parent.mkdir()
    if "folder" in kind and "link" not in kind:
        place.mkdir()
    if kind == "folder with files":
        (place / "precious").write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    elif kind.startswith("link"):
        place.symlink_to(tmp_path if kind == "link to a folder" else tmp_path / "nowhere")
    before, around = picture(repo), tree_hash(place.parent)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert f"{place} exists and is not a worktree of this repository" in done.err
    assert (picture(repo), tree_hash(place.parent)) == (before, around)


# what another process does between imi's checks and git's changes
def test_a_branch_that_appears_meanwhile_is_neither_moved_nor_deleted(repo: Repo, tmp_path: Path) -> None:
    other = repo.git("rev-parse", "main~1")
    theirs = f'case " $* " in *" update-ref "*"--create-reflog"*) $GIT -C {repo.path} branch feat/x {other};; esac'
    done = imi("feat", "x", cwd=repo.path, env=shim(tmp_path / "bin", theirs))
    assert (done.code, "another process has just made" in done.err) == (1, True)
    assert branches(repo)["feat/x"] == other
    assert (rows(), operations(), (tmp_path / "app.worktrees").exists()) == ([], 0, False)


def test_a_branch_that_appears_meanwhile_at_the_same_commit_is_not_deleted_either(repo: Repo, tmp_path: Path) -> None:
    theirs = f'case " $* " in *" update-ref "*"--create-reflog"*) $GIT -C {repo.path} branch feat/x main;; esac'
    assert imi("feat", "x", cwd=repo.path, env=shim(tmp_path / "bin", theirs)).code == 1
    assert branches(repo)["feat/x"] == branches(repo)["main"]


@pytest.mark.parametrize("back", [False, True], ids=["elsewhere", "there and back"])
def test_a_branch_that_was_moved_before_the_rollback_is_kept(repo: Repo, tmp_path: Path, back: bool) -> None:
    other, trunk = repo.git("rev-parse", "main~1"), branches(repo)["main"]
    move = f"$GIT -C {repo.path} update-ref refs/heads/feat/x {other}; "
    move += f"$GIT -C {repo.path} update-ref refs/heads/feat/x {trunk}; " if back else ""
    env = shim(tmp_path / "bin", f'case " $* " in *" worktree add "*) {move} exit 1;; esac')
    assert imi("feat", "x", cwd=repo.path, env=env).code == 1
    assert branches(repo)["feat/x"] == (trunk if back else other)
    assert operations() == 0


def test_an_existing_branch_survives_a_failure(repo: Repo, tmp_path: Path) -> None:
    repo.git("branch", "feat/x", "main~1")
    before = picture(repo)
    env = shim(tmp_path / "bin", AFTER_ADD.format(then="exit 1"))
    assert imi("feat", "x", cwd=repo.path, env=env).code == 1
    assert picture(repo) == before


def test_a_rollback_deletes_a_branch_from_the_remote_with_its_upstream(
    cloned: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloned.git("push", "-q", "origin", "main:refs/heads/feat/x")
    cloned.git("fetch", "-q")
    before = picture(cloned)

    upstreams: list[str] = []
    fail_once(monkeypatch, "worktrees.register", lambda: upstreams.append(cloned.git("config", "branch.feat/x.remote")))
    with pytest.raises(RegistryError):
        feat(cloned, "x")
    assert upstreams == ["origin"]
    assert picture(cloned) == before


def test_a_rollback_keeps_files_written_into_the_worktree(repo: Repo, tmp_path: Path) -> None:
    then = f"echo mine > {tmp_path}/app.worktrees/feat-x/notes.txt; exit 1"
    done = imi("feat", "x", cwd=repo.path, env=shim(tmp_path / "bin", AFTER_ADD.format(then=then)))
    place = tmp_path / "app.worktrees" / "feat-x"
    assert done.code == 1
    assert f"kept {place}: it holds files that are not from the checkout (notes.txt)" in done.err
    assert (place / "notes.txt").read_text() == "mine\n"
    assert (place / "README.md").read_text() == "hello\n"
    assert operations() == 0


def fail_once(monkeypatch: pytest.MonkeyPatch, step: str, before: Callable[[], object] = lambda: None) -> None:
    """Let this step of a creation in the registry fail the first time, as on a full or broken disk."""
    room, _, name = step.partition(".")
    real, failures = getattr(getattr(worktree_creation, room), name), [sqlite3.OperationalError("disk I/O error")]

    def fails(*args: object, **options: object) -> object:
        if failures:
            before()
            raise failures.pop()
        return real(*args, **options)

    monkeypatch.setattr(getattr(worktree_creation, room), name, fails)


@pytest.mark.parametrize("step", ["worktrees.register", "events.record", "operations.finish"])
def test_a_creation_is_reverted_when_the_registry_fails(repo: Repo, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    assert feat(repo, "first").path
    before = picture(repo)
    fail_once(monkeypatch, step)
    with pytest.raises(RegistryError):
        feat(repo, "x")
    assert picture(repo) == before
    assert feat(repo, "x").path


def test_a_creation_that_another_imi_reverted_does_not_report_success(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture(repo)
    monkeypatch.setattr(worktree_creation.operations, "finish", lambda *_: False)
    with pytest.raises(ImiError, match="was reverted by another imi"):
        feat(repo, "x")
    assert (rows(), created_events(), branches(repo)) == ([], [], before["branches"])


@pytest.mark.parametrize("moment", ["worktree add", "update-ref --no-deref --create-reflog"])
def test_ctrl_c_reverts_a_creation(repo: Repo, tmp_path: Path, moment: str) -> None:
    before = picture(repo)
    script = f'case " $* " in *" {moment} "*) $GIT "$@"; touch {tmp_path}/bin/now; sleep 20;; esac'
    running = start(repo, "feat", "x", env=shim(tmp_path / "bin", script))
    wait_for(tmp_path / "bin" / "now")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=LIMIT)
    assert (running.returncode, out, "interrupted" in err) == (130, "", True)
    assert picture(repo) == before


def start(repo: Repo, *words: str, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        imi_argv(*words),
        cwd=repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )


def wait_for(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_creation_cancelled_during_the_checkout_leaves_nothing(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture(repo)
    script = f'case " $* " in *" worktree add "*) $GIT "$@"; touch {tmp_path}/bin/now; sleep 20;; esac'
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", script)["PATH"])
    with pytest.raises(ImiError) as stopped:
        feat(repo, "x", cancelled=(tmp_path / "bin" / "now").exists)
    assert stopped.value.code == "cancelled"
    assert picture(repo) == before


def test_a_creation_cancelled_after_the_checkout_leaves_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    before = picture(repo)
    real, made = worktree_creation.add_worktree, []

    def add(*args: object, **options: object) -> str:
        options["cancelled"] = lambda: False
        made.append(real(*args, **options))  # type: ignore[arg-type]
        return made[0]

    monkeypatch.setattr(worktree_creation, "add_worktree", add)
    with pytest.raises(ImiError) as stopped:
        feat(repo, "x", cancelled=lambda: bool(made))
    assert stopped.value.code == "cancelled"
    assert picture(repo) == before


def test_the_progress_of_a_checkout_is_shown_live(repo: Repo) -> None:
    files(repo, 150)
    seen: list[str] = []
    feat(repo, "x", progress=seen.append)
    assert "creating feat-x" in seen
    assert any("Updating files: " in line for line in seen), seen


@pytest.mark.parametrize("number", [2, 8])
def test_simultaneous_creations_of_one_name_create_it_once(repo: Repo, number: int) -> None:
    files(repo, 100)
    with ThreadPoolExecutor(number) as pool:
        done = list(pool.map(lambda _: imi("--json", "feat", "x", cwd=repo.path), range(number)))
    assert {ran.data["worktree_path"] for ran in done} == {str(repo.path.parent / "app.worktrees" / "feat-x")}
    assert sum(ran.data["created"] for ran in done) == 1
    assert (created_events(), operations()) == (["feat-x"], 0)


def test_eight_simultaneous_creations_of_eight_names_succeed(repo: Repo) -> None:
    with ThreadPoolExecutor(8) as pool:
        done: list[Ran] = list(pool.map(lambda n: imi("feat", f"n{n}", cwd=repo.path), range(8)))
    assert [ran.code for ran in done] == [0] * 8, [ran.err for ran in done]
    assert [name for name, *_ in rows()] == [f"feat-n{n}" for n in range(8)]
    assert len(created_events()) == 8


def test_a_creation_does_not_wait_for_another_kind_of_operation(repo: Repo) -> None:
    from imi_monitor.store import db
    from imi_monitor.store import operations as intents

    assert imi("feat", "first", cwd=repo.path).code == 0
    with Context(str(repo.path)) as context:
        db.transact(context.connection, intents.begin, "remove", "app", "feat-x", {})
        done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "working on feat-x (remove)" in done.err) == (1, True)
    assert query("SELECT count(*) FROM operations") == [(1,)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A small file system of this many kilobytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = []

    def mount(kilobytes: int) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("mounting is not allowed here")
        mounted.append(place)
        return place

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=True)


# D4: full disk
def test_a_creation_on_a_full_disk_leaves_nothing_and_names_the_reason(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(6000)
    repo = Repo.create(disk / "app")
    (repo.path / "big").write_bytes(os.urandom(2_500_000))
    repo.commit("big")
    before = picture(repo)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, done.out) == (1, "")
    assert "no space left" in done.err
    assert "unable to write file" in done.err
    assert {**picture(repo), "around": before["around"]} == before
    assert sorted(p.name for p in disk.iterdir()) == ["app"]


def test_a_creation_without_a_single_free_block_names_the_reason(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(3000)
    repo = Repo.create(disk / "app")
    before = picture(repo)
    with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space left"):
        while True:
            filler.write(b"x" * 4096)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "no space left (" in done.err and " free in" in done.err) == (1, True), done
    (disk / "filler").unlink()
    assert picture(repo) == before
    assert imi("feat", "x", cwd=repo.path).code == 0


def test_a_full_disk_under_registry_and_repository_alike(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(8000)
    repo = Repo.create(disk / "app")
    (repo.path / "big").write_bytes(os.urandom(2_500_000))
    repo.commit("big")
    registry = disk / "registry" / "iMi.db"
    assert imi("--db", registry, "types", cwd=repo.path).code == 0
    done = imi("--db", registry, "feat", "x", cwd=repo.path)
    assert (done.code, done.err.count("\n") >= 1) == (1, True)
    assert list(branches(repo)) == ["main"]
    assert not (disk / "app.worktrees").exists()
    connection = sqlite3.connect(registry)
    assert connection.execute("SELECT count(*) FROM operations").fetchone() == (0,)
    connection.close()


def test_a_creation_on_a_read_only_disk_is_one_error_line(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(4000)
    repo = Repo.create(disk / "app")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    done = imi("feat", "x", cwd=repo.path)
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "Read-only file system" in done.err
    assert (list(branches(repo)), operations()) == (["main"], 0)


def test_a_creation_in_an_unwritable_folder_is_one_error_line(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "app.worktrees").write_text("a file where the folder should be")
    before = picture(repo)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, done.out) == (1, "")
    assert picture(repo) == before


def test_the_lock_file_of_a_creation_follows_no_link(repo: Repo, tmp_path: Path) -> None:
    (repo.path / ".git" / "imi-create-x.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="cannot write in"):
        creation_rollback.lock_creation(str(repo.path / ".git"), "x")
    assert not (tmp_path / "elsewhere").exists()
