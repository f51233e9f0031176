"""The follower beside an upgrade: it goes on with the new code, in the same process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from imi_monitor.runs import follower_process
from imi_monitor.runs.code_files import RunningCode
from tests.helpers import ROOT, wait_for
from tests.runs.run_kit import RunWorld, followers, kill_followers, registry


def test_changed_code_counts_once_it_is_at_rest(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("one")
    code = RunningCode([str(file)], pause=0.0)
    assert not code.has_changed() and not code.has_changed()
    file.unlink()
    assert not code.has_changed() and not code.has_changed(), "half of an upgrade"
    file.write_text("another one")
    assert not code.has_changed() and code.has_changed()


def test_a_follower_goes_on_with_the_code_of_an_upgrade(
    world: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    shutil.copytree(ROOT / "imi_monitor", installed / "imi_monitor", copy_function=shutil.copy2)
    run = world.start("[[ask]]")
    world.wait(run, "asks")
    kill_followers()
    monkeypatch.setenv("PYTHONPATH", str(installed))
    wait_for(lambda: follower_process.ensure(registry()))  # once the killed one has let go of the lock
    wait_for(lambda: follower_process.watch_end(registry()) is not None)  # it has loaded the old code
    (before,) = followers()
    marker, follower = tmp_path / "new-code", installed / "imi_monitor" / "runs" / "follower.py"
    new = follower.read_text().replace("def main(", f"open({str(marker)!r}, 'w').close()\n\n\ndef main(", 1)
    follower.with_suffix(".new").write_text(new)
    os.replace(follower.with_suffix(".new"), follower)
    wait_for(marker.exists)
    wait_for(lambda: followers() == [before])  # the same process
    assert world.imi("answer", run, "yes").code == 0
    world.wait(run, "idle")
    assert world.messages(run) == ["allowed", "Hello."]
