"""A1 K3: the next command completes or reverts a killed creation and touches no one else's work."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.actions.create_kit import (
    branches,
    created_events,
    files,
    next_imi,
    operations,
    picture,
    rows,
    shim,
    worktree_paths,
)
from tests.helpers import ROOT, Repo, git, imi, imi_argv
from tests.limits import LIMIT

TRIALS = 12
SOAK_TRIALS = int(os.environ.get("IMI_TRIALS", "400"))


def begin(repo: Repo, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        imi_argv(*words),
        cwd=repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )


def family(pid: int) -> list[int]:
    """The process and all below it, youngest last."""
    found = [pid]
    for parent in found:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        except OSError:
            continue
        found.extend(int(child) for child in children.split())
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def settle(seconds: float = LIMIT) -> list[str]:
    """Recover by the next commands; a git that outlived its imi may need a moment to end."""
    said: list[str] = []
    until = time.monotonic() + seconds
    while True:
        said += next_imi()  # K3
        if operations() == 0 or time.monotonic() > until:
            return said
        time.sleep(0.05)


def check(repo: Repo, name: str) -> bool:
    """Assert all or nothing; True if the worktree is complete."""
    path = repo.path.parent / "app.worktrees" / f"feat-{name}"
    there = os.path.lexists(path)
    seen = picture(repo)
    assert operations() == 0
    assert not [entry for entry in seen["common"] if str(entry).startswith("imi-")], seen["common"]  # type: ignore[attr-defined]
    assert not list((repo.path / ".git" / "worktrees").glob("*/locked"))
    assert not list((repo.path / ".git").rglob("*.lock"))
    assert (f"feat/{name}" in branches(repo)) == there
    assert (str(path) in worktree_paths(repo)) == there
    assert (f"feat-{name}" in [row[0] for row in rows()]) == there
    assert created_events().count(f"feat-{name}") == int(there)
    assert len(seen["worktrees"]) == len(worktree_paths(repo)) - 1  # type: ignore[arg-type]
    if there:
        assert git("status", "--porcelain", cwd=path) == ""
        assert git("symbolic-ref", "HEAD", cwd=path) == f"refs/heads/feat/{name}"
    return there


def trials(repo: Repo, number: int, seed: int) -> dict[str, int]:
    """Kill creations after their beginning. How much later follows the creations before: half of them end first."""
    chance, span = random.Random(seed), 0.1
    outcomes = {"whole": 0, "nothing": 0, "told": 0}
    for trial in range(number):
        running = begin(repo, "feat", f"t{trial}")
        wait_for_its_mark(repo, running)
        time.sleep(chance.uniform(0, span))
        span *= 0.9 if running.poll() is not None else 1.05
        kill(family(running.pid) if trial % 2 else [running.pid])
        running.communicate(timeout=LIMIT)
        said = settle()
        outcomes["whole" if check(repo, f"t{trial}") else "nothing"] += 1
        outcomes["told"] += bool(said)
    return outcomes


def wait_for_its_mark(repo: Repo, running: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + LIMIT
    while running.poll() is None and not any((repo.path / ".git").glob("imi-create-*.lock")):
        assert time.monotonic() < end
        time.sleep(0.001)


def test_killed_at_random_points_the_next_command_finds_or_makes_all_or_nothing(repo: Repo) -> None:
    files(repo, 300)
    trials(repo, TRIALS, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_four_hundred_kills_during_a_creation(repo: Repo) -> None:
    files(repo, 400)
    outcomes = trials(repo, SOAK_TRIALS, seed=int(time.time()))
    print(outcomes, file=sys.stderr)
    assert outcomes["told"] > SOAK_TRIALS // 10  # else the kills missed what they were to hit


# each moment between two steps: (what is called just before, whether the worktree is whole by then)
MOMENTS = {
    "the intent": ("creation_rollback.lock_creation", False),
    "the branch": ("heads.make_branch", False),
    "the checkout": ("add_worktree", True),
    "the links": ("finish_setup", True),
    "the unlocking": ("creation_rollback.unlock", True),
    "the row": ("worktrees.register", True),
    "the event": ("events.record", True),
}
KILLER = """
import os, signal, sys
from imi_monitor.actions.creation import worktree_creation
from imi_monitor.cli.command_runner import main
holder, _, name = "worktree_creation.{call}".rpartition(".")
holder = eval(holder)
act = getattr(holder, name)
def dies(*args, **kwargs):
    act(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(holder, name, dies)
main(["feat", "x"])
"""


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_creation_killed_between_any_two_steps(cluster: Repo, moment: str) -> None:
    (cluster.path.parent / "sync" / "repo" / ".env").write_text("SECRET=1\n")
    call, whole = MOMENTS[moment]
    done = subprocess.run(
        [sys.executable, "-c", KILLER.format(call=call)],
        cwd=cluster.path,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = next_imi()
    path = cluster.path.parent / "feat-x"
    assert len(said) == 1
    assert (
        "completed the interrupted creation of feat-x" if whole else "reverted the interrupted creation of feat-x"
    ) in said[0]
    assert (path.exists(), "feat/x" in branches(cluster), len(rows())) == (whole, whole, int(whole))
    assert created_events() == (["feat-x"] if whole else [])
    assert (path / ".env").is_symlink() == whole
    assert (operations(), next_imi()) == (0, [])
    assert not list((cluster.path / ".git").rglob("locked"))
    again = imi("feat", "x", cwd=cluster.path)
    assert (again.code, again.out.splitlines()[-1]) == (0, str(path))


HALF = """
case " $* " in *" worktree add "*)
    $GIT "$@" || exit
    for last; do path=$before; before=$last; done
    cd "$path" && {damage}
    kill -9 $PPID; exit 0;;
esac
"""


def half_made(repo: Repo, tmp_path: Path, damage: str, *options: str) -> Path:
    """A worktree whose git was killed; `damage` deletes some of its files."""
    running = begin(repo, "feat", "x", *options, env=shim(tmp_path / "bin", HALF.format(damage=damage)))
    running.communicate(timeout=LIMIT)
    assert running.returncode == -signal.SIGKILL
    wait_for_its_end(repo)
    return repo.path.parent / "app.worktrees" / "feat-x"


def wait_for_its_end(repo: Repo) -> None:
    """Wait until the processes that the killed imi had started have ended."""
    for mark in (repo.path / ".git").glob("imi-create-*.lock"):
        with mark.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)


ADMIN = '$(sed "s/gitdir: //" .git)'


@pytest.mark.parametrize(
    "damage",
    [
        f"rm {ADMIN}/index",
        f"rm -r {ADMIN}/index src",
        f"rm -r {ADMIN}/index src README.md .gitignore",
        f"rm {ADMIN}/index; printf hel > README.md",
        f"rm {ADMIN}/index; : > README.md",
        f"touch {ADMIN}/index.lock",
        f"A={ADMIN}; rm -r src .gitignore README.md .git $A/HEAD $A/commondir $A/gitdir $A/index",
        f"A={ADMIN}; rm -r src .gitignore README.md .git $A/*; printf '' > .git",
        f"A={ADMIN}; rm -r src $A",
        f"A={ADMIN}; cd ..; rm -r feat-x $A/*",
        f"A={ADMIN}; cd ..; rm -r feat-x $A/*; : > $A/locked",
        f"A={ADMIN}; cd ..; rm -r feat-x $A/H* $A/c* $A/g* $A/index $A/O* $A/logs",
        "rm README.md",
        f"touch {ADMIN}/HEAD.lock",
        f"A={ADMIN}; rm -r src $A/locked $A/index",
        f"A={ADMIN}; cd ..; rm -r feat-x $A/locked $A/index $A/logs $A/O* $A/HEAD",
        f"A={ADMIN}; cd ..; rm -r feat-x $A/locked $A/index $A/gitdir",
        f"touch {ADMIN}/../../refs/heads/feat/x.lock; rm {ADMIN}/index",
    ],
)
def test_leftovers_of_a_killed_git_are_reverted(repo: Repo, tmp_path: Path, damage: str) -> None:
    before = picture(repo)
    path = half_made(repo, tmp_path, damage)
    assert next_imi() == ["reverted the interrupted creation of feat-x"]
    assert not os.path.lexists(path)
    assert picture(repo) == before
    assert not list((repo.path / ".git").rglob("*.lock"))
    assert imi("feat", "x", cwd=repo.path).code == 0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("echo mine > notes.txt", "notes.txt"),
        ("echo SECRET > .env", ".env"),
        ("mkdir -p build/deep && echo x > build/deep/out", "build/deep/out"),
        ("echo more >> README.md", "README.md"),
        ("echo other > README.md", "README.md"),
        ("mkdir empty", "empty"),
        ("ln -s /etc/passwd link", "link"),
        ("rm README.md && ln -s src/api.py README.md", "README.md"),
        ("git init -q nested", "nested"),
    ],
)
def test_files_that_are_not_from_the_checkout_are_kept_and_reported(
    repo: Repo, tmp_path: Path, change: str, name: str
) -> None:
    path = half_made(repo, tmp_path, f"rm {ADMIN}/index src/db.py")
    subprocess.run(["sh", "-c", change], cwd=path, check=True)
    kept = {p: p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
    [said] = next_imi()
    assert f"kept {path}: it holds files that are not from the checkout" in said
    assert name in said
    assert {p: p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()} == kept
    assert "feat/x" in branches(repo)
    assert (operations(), str(path) in worktree_paths(repo)) == (0, True)
    assert not list((repo.path / ".git").rglob("locked"))
    assert imi("feat", "x", cwd=repo.path).out.splitlines()[-1] == str(path)


def test_a_branch_with_new_commits_survives_the_recovery_of_a_creation(repo: Repo, tmp_path: Path) -> None:
    half_made(repo, tmp_path, f"rm {ADMIN}/index")
    tip = repo.git("commit-tree", "-p", "main", "-m", "theirs", "main^{tree}")
    repo.git("update-ref", "refs/heads/feat/x", tip)
    next_imi()
    assert branches(repo)["feat/x"] == tip
    assert operations() == 0


def test_a_worktree_created_there_after_the_crash_is_left_alone(repo: Repo, tmp_path: Path) -> None:
    path = half_made(repo, tmp_path, f"A={ADMIN}; cd ..; rm -r feat-x $A")
    repo.git("worktree", "add", "-q", "-b", "theirs", str(path))
    next_imi()
    assert git("symbolic-ref", "HEAD", cwd=path) == "refs/heads/theirs"
    assert git("status", "--porcelain", cwd=path) == ""
    assert (operations(), "feat/x" in branches(repo)) == (0, False)


def test_git_files_that_existed_before_the_creation_are_left_alone(repo: Repo, tmp_path: Path) -> None:
    before = repo.path / ".git" / "worktrees" / "feat-x"
    before.mkdir(parents=True)
    (before / "HEAD").write_text("left by another git\n")
    lock = repo.path / ".git" / "refs" / "heads" / "feat" / "x.lock"
    lock.parent.mkdir()
    lock.write_text("")
    running = begin(repo, "feat", "x")
    _, err = running.communicate(timeout=LIMIT)
    assert (running.returncode, b"x.lock" in err) == (1, True)
    half_made(repo, tmp_path, f"A={ADMIN}; cd ..; rm -r feat-x $A/*", "--branch", "other")
    assert next_imi() == ["reverted the interrupted creation of feat-x"]
    assert [p.name for p in before.parent.iterdir()] == ["feat-x"]
    assert (before / "HEAD").exists() and lock.exists()


def test_a_git_that_outlives_its_imi_is_left_running(repo: Repo, tmp_path: Path) -> None:
    # its output must lead somewhere: git would die of the broken pipe
    slow = 'case " $* " in *" worktree add "*) kill -9 $PPID; sleep 1.5; exec $GIT "$@" >/dev/null 2>&1;; esac'
    running = begin(repo, "feat", "x", env=shim(tmp_path / "bin", slow))
    running.communicate(timeout=LIMIT)
    [said] = next_imi()
    assert "its git is still working on feat-x" in said
    assert settle()[-1:] == ["completed the interrupted creation of feat-x"]
    assert check(repo, "x")


def test_repeating_the_command_completes_an_interrupted_creation(repo: Repo, tmp_path: Path) -> None:
    path = half_made(repo, tmp_path, f"rm {ADMIN}/index")
    done = imi("--json", "feat", "x", cwd=repo.path).data
    assert (done["created"], done["took_over"], done["worktree_path"]) == (True, None, str(path))
    assert check(repo, "x")


def test_a_killed_recovery_of_a_creation_can_be_repeated(repo: Repo, tmp_path: Path) -> None:
    before = picture(repo)
    half_made(repo, tmp_path, f"rm {ADMIN}/index")
    script = (
        "import os, signal\nfrom imi_monitor.git import partial_checkout\nfrom imi_monitor.actions import recovery\n"
        "from imi_monitor.actions.context import Context\n"
        "partial_checkout.delete_admin_dir = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with Context() as context: recovery.recover(context)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert next_imi() == ["reverted the interrupted creation of feat-x"]
    assert picture(repo) == before


def test_an_interrupted_creation_in_a_deleted_repository_is_dropped(repo: Repo, tmp_path: Path) -> None:
    half_made(repo, tmp_path, f"rm {ADMIN}/index")
    repo.path.rename(tmp_path / "moved")
    [said] = next_imi()
    assert "its repository is gone" in said
    assert operations() == 0


def test_a_creation_killed_before_its_intent_is_recorded_leaves_nothing(repo: Repo) -> None:
    before = picture(repo)
    script = KILLER.format(call="operations.begin")
    subprocess.run(
        [sys.executable, "-c", script], cwd=repo.path, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (next_imi(), picture(repo)) == ([], before)
