"""Kills in all forms: what is killed x when, and a hundred streams whose follower and keepers are killed all the time."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers import imi_argv, wait_for
from tests.mux.multiplexer_kit import RunTmux, tmux_server
from tests.runs.run_kit import RunWorld, family, kill_followers
from tests.runs.test_limits import configure
from tests.runs.test_run_kills import PROMPTS, STATES, recorded, said

STREAMS = 100
VICTIMS = ("agent", "keeper", "follower", "imi")
ENDED = {"idle": "completed", "stream": "crashed", "tool": "crashed", "ask": "crashed"}


def watch(world: RunWorld) -> subprocess.Popen[bytes]:
    """`imi watch`, as a dashboard: it starts the follower again."""
    return subprocess.Popen(
        [*imi_argv(), "watch"], cwd=world.tree.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.fixture
def watching(world: RunWorld) -> Iterator[subprocess.Popen[bytes]]:
    process = watch(world)
    yield process
    with suppress(ProcessLookupError):
        process.kill()
    process.wait(60)


def kill(world: RunWorld, run: str, victim: str, watching: subprocess.Popen[bytes]) -> None:
    born = json.loads(Path(world.folder(run).file("born.json")).read_text())
    if victim == "follower":
        kill_followers()
    elif victim == "imi":
        watching.kill()
        watching.wait(60)
    else:
        os.kill(born["pid" if victim == "agent" else "keeper"], signal.SIGKILL)


def check_state(world: RunWorld, run: str, state: str, *, seconds: float = 1.0) -> None:
    """The state is right that long after a kill, as another process reads it."""
    time.sleep(seconds)
    row = world.run(run)
    assert row["shown_state"] == state, row
    named = {pid for pid, _ in row["left_behind"]} | ({row["pid"]} if state in STATES.values() else set())
    assert set(family(run)) - named == set(), "no orphan without a name"


@pytest.mark.soak
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("moment", PROMPTS)
def test_the_matrix_of_kills(world: RunWorld, watching: subprocess.Popen[bytes], moment: str, victim: str) -> None:
    run = world.start(PROMPTS[moment])
    world.wait(run, STATES[moment])
    if moment == "tool":
        wait_for(lambda: len(family(run)) == 2)
        check_tool = set(family(run))
    kill(world, run, victim, watching)
    if victim == "agent":
        check_state(world, run, ENDED[moment])
    elif moment != "tool":
        check_state(world, run, STATES[moment])
    else:
        time.sleep(1)
        assert world.run(run)["shown_state"] == "works" and set(family(run)) == check_tool
    if moment == "ask" and victim != "agent":
        assert world.imi("answer", run, "yes").code == 0
        world.wait(run, "idle")
    world.imi("stop", run)
    wait_for(lambda: not family(run))
    wait_for(lambda: world.run(run)["ended_at"])
    assert recorded(run) == said(world, run)


@pytest.mark.soak
@pytest.mark.parametrize("moment", PROMPTS)
def test_a_killed_server_of_tmux_ends_its_agents_and_is_seen_within_a_second(
    world: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watching: subprocess.Popen[bytes], moment: str
) -> None:
    with tmux_server(tmp_path, monkeypatch) as tmux:
        run = world.start(PROMPTS[moment])
        world.wait(run, STATES[moment])
        os.kill(int(server_of(tmux)), signal.SIGKILL)
        check_state(world, run, ENDED[moment])
        world.imi("stop", run)
        assert not family(run)
        tmux("new-session", "-d", "-s", "one", "-x", "80", "-y", "24")


def server_of(tmux: RunTmux) -> str:
    return tmux("display-message", "-p", "#{pid}")


def test_a_watching_imi_starts_a_killed_follower_again(world: RunWorld, watching: subprocess.Popen[bytes]) -> None:
    run = world.start("[[slow]]")
    world.wait(run, "works")
    before = len(recorded(run))
    kill_followers()
    wait_for(lambda: len(recorded(run)) > before + 5)  # no command of imi runs meanwhile


@pytest.mark.soak
def test_nothing_of_a_hundred_streams_is_lost_or_doubled(world: RunWorld, own_home: Path) -> None:
    configure(own_home, "[runs]\nat_once = 1000\n")
    draw = random.Random(20261119)
    streams = [world.start("[[pace]] [[pace]]", "claude", "--in", "app") for _ in range(STREAMS)]
    keepers = [json.loads(Path(world.folder(one).file("born.json")).read_text())["keeper"] for one in streams]
    for _ in range(30):
        time.sleep(draw.uniform(0.1, 1.0))
        kill_followers()
        world.imi("runs", "--json")  # starts the next one
        with suppress(ProcessLookupError):
            os.kill(draw.choice(keepers), signal.SIGKILL)
    for one in streams:
        world.wait(one, "idle")
        found = recorded(one)
        assert found == said(world, one) and len(found) == 401, one
