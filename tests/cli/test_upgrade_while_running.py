"""Two versions of imi on one registry, and an upgrade below processes that go on: each says what to do. # H3"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from imi_monitor.store import schema
from tests import registry_faults
from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT
from tests.ui.tmux_kit import MISSING, Tmux

_LATER = f'\nMIGRATIONS += ("ALTER TABLE registry ADD COLUMN later TEXT;",)\nVERSION = {schema.VERSION + 1}\n'
_BROKEN = 'raise ImportError("made for another version")\n'


def copy_package(target: Path) -> Path:
    """An installed imi, by a link that another version can take over: its folder for PYTHONPATH."""
    shutil.copytree(ROOT / "imi_monitor", target / "old", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "styles", target / "old" / "styles")
    (target / "imi_monitor").symlink_to("old")
    return target


def make_later(installed: Path) -> None:
    """Another version takes the place of this one: other files, one more migration, modules that do not fit the old ones."""
    package, old, new = installed / "imi_monitor", installed / "old", installed / "new"
    shutil.copytree(old, new, ignore=shutil.ignore_patterns("__pycache__"))
    with (new / "store" / "schema.py").open("a") as file:
        file.write(_LATER)
    (installed / "link").symlink_to("new")
    (installed / "link").replace(package)  # at every moment one of the two is there
    shutil.rmtree(old)


def argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "imi_monitor", *words]


def environment(installed: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(installed), "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def ran(installed: Path, repo: Repo, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv(*words), cwd=repo.path, env=environment(installed), capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done


def wait_for(file: Path, text: str) -> None:
    until = time.monotonic() + 60
    while not file.exists() or text not in file.read_text():
        assert time.monotonic() < until, f"{text!r} is not in {file}"
        time.sleep(0.05)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    return copy_package(tmp_path / "site")


@pytest.fixture
def world(repo: Repo) -> Repo:
    return registry_faults.make_claimed_worktrees(repo)


def test_processes_of_the_former_version_say_what_to_do(world: Repo, installed: Path, tmp_path: Path) -> None:
    outputs: dict[str, Path] = {}
    running: list[subprocess.Popen[bytes]] = []
    followers: dict[str, tuple[str, ...]] = {
        "watch": ("watch",),
        "table": ("status", "--watch"),
        "waiter": ("claim", "feat-one", "--agent", "second", "--wait", "600"),
        "events": ("events", "--follow"),
    }
    try:
        for name, words in followers.items():
            outputs[name] = tmp_path / name
            with outputs[name].open("wb") as out:
                running.append(
                    subprocess.Popen(
                        argv(*words), cwd=world.path, env=environment(installed), stdout=out, stderr=subprocess.STDOUT
                    )
                )
        for name, sign in (("watch", '"keeper"'), ("table", "keeper"), ("events", "keeper")):
            wait_for(outputs[name], sign)
        until = time.monotonic() + 60
        while not imi("queue", "--json", cwd=world.path).data["count"]:
            assert time.monotonic() < until
        make_later(installed)
        assert ran(installed, world, "claims").returncode == 0  # the later version migrates the registry
        for name in outputs:
            wait_for(outputs[name], "was changed by a newer imi while this one was using it: restart imi")
        for name in ("watch", "table"):
            wait_for(outputs[name], "were replaced by those of another version while this process runs: restart imi")
        assert ran(installed, world, "release", "feat-one", "--agent", "keeper", "--dirty-ok").returncode == 0
        assert ran(installed, world, "claim", "feat-one", "--agent", "new").returncode == 0
        assert [process.poll() for process in running[:2]] == [None, None], "they go on with what git alone says"
        assert [process.wait(60) for process in running[2:]] == [1, 1], "a place in the line is left"
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
            process.wait(60)
    assert not [name for name, out in outputs.items() if "Traceback" in out.read_text()]


def test_an_older_imi_refuses_acts_and_views_work(world: Repo, tmp_path: Path) -> None:
    later = copy_package(tmp_path / "site")
    make_later(later)
    assert ran(later, world, "claims").returncode == 0
    refused = imi("claim", "feat-two", "--agent", "old", cwd=world.path)
    numbers = f"made by a newer imi (schema {schema.VERSION + 1}, this one knows {schema.VERSION}): update imi"
    assert refused.code == 1 and numbers in refused.err
    listed = imi("list", cwd=world.path)
    assert listed.code == 0 and "feat-two" in listed.out and numbers in listed.err
    assert ran(later, world, "verify-lock", "feat-one", "--agent", "keeper").returncode == 0, "nothing was changed"


def test_a_command_that_starts_while_files_are_missing_waits_for_them(
    world: Repo, installed: Path, tmp_path: Path
) -> None:
    package, starts = installed / "imi_monitor", tmp_path / "starts"
    with (package / "__init__.py").open("a") as file:
        file.write(f"\nwith open({str(starts)!r}, 'a') as starts:\n    starts.write('one\\n')\n")
    (package / "cli").rename(installed / "cli")
    ample = {**environment(installed), "IMI_START_GIVES_UP": str(time.monotonic() + 300)}
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    listing = subprocess.Popen(argv("list"), cwd=world.path, env=ample, **outputs)  # type: ignore[call-overload]
    try:
        wait_for(starts, "one\none\n")
        (installed / "cli").rename(package / "cli")
        out, err = listing.communicate(timeout=LIMIT)
    finally:
        listing.kill()
    assert (listing.returncode, err) == (0, "")
    assert "feat-one" in out


def test_a_command_whose_files_stay_away_says_so(world: Repo, installed: Path) -> None:
    (installed / "imi_monitor" / "cli" / "output.py").unlink()
    late = {**environment(installed), "IMI_START_GIVES_UP": "0"}
    done = subprocess.run(argv("list"), cwd=world.path, env=late, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("imi: imi cannot start (") and done.stderr.endswith("): install it again\n")


def test_files_that_go_while_a_command_runs_never_repeat_it(world: Repo, installed: Path) -> None:
    package, acts = installed / "imi_monitor", installed / "acts"
    runner = package / "cli" / "command_runner.py"
    fails = f"""
def main():
    with open({str(acts)!r}, "a") as file:
        file.write("act\\n")
    from imi_monitor.cli import gone
"""
    runner.write_text(fails)
    done = ran(installed, world, "claim", "feat-two", "--agent", "new")
    assert (done.returncode, acts.read_text()) == (1, "act\n")
    assert "look at what was done, then start it again" in done.stderr


@pytest.mark.skipif(MISSING, reason="tmux is not installed here")
def test_a_dashboard_upgraded_during_its_start_reads_nothing_with_modules_of_two_versions(
    world: Repo, installed: Path
) -> None:
    package = installed / "imi_monitor"
    upgrade = f"open({str(package / 'store' / 'schema.py')!r}, 'a').write({_LATER!r})\n"
    with (package / "engine.py").open("a") as file:  # the last module of the start, after the first paint
        file.write(upgrade)
    command = ["env", f"PYTHONPATH={installed}", "PYTHONDONTWRITEBYTECODE=1", *argv("monitor")]
    with Tmux(world.path, (140, 40), command) as tmux:
        now = tmux.until(lambda now: "nothing is read any more" in now)
        assert "were replaced by those of another version while this process runs: restart imi" in now
        assert "feat-one" in now and "Traceback" not in now
        tmux.keys("q")
        tmux.until(lambda now: "ended with 0" in now)


@pytest.mark.skipif(MISSING, reason="tmux is not installed here")
@pytest.mark.timeout(180)
def test_a_dashboard_that_is_upgraded_stays_open_and_says_so(world: Repo, installed: Path) -> None:
    command = ["env", f"PYTHONPATH={installed}", "PYTHONDONTWRITEBYTECODE=1", *argv("monitor")]
    with Tmux(world.path, (140, 40), command) as tmux:
        tmux.until(lambda now: "keeper" in now and "3 worktrees" in now and "looking" not in now)
        make_later(installed)
        for module in (installed / "imi_monitor" / "ui" / "views").glob("*_view.py"):
            module.write_text(_BROKEN)
        tmux.until(lambda now: "restart imi" in now)
        assert ran(installed, world, "claims").returncode == 0
        tmux.until(lambda now: "claims unknown" in now)
        for key in ("d", "t", "A", "L"):  # views whose modules do not fit
            tmux.keys(key)
            tmux.until(lambda now: "restart imi" in now and "Traceback" not in now)
            tmux.keys("Escape")
            tmux.until(lambda now: "feat-one" in now and "feat-two" in now and "3 Agents" in now)
        tmux.until(lambda now: "restart imi" in now)
        time.sleep(0.5)  # a key right behind escape would be one with alt
        tmux.keys("q")
        now = tmux.until(lambda now: "ended with 0" in now)
        assert "Traceback" not in now
