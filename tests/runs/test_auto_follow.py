"""A dashboard starts the follower again that was killed, as soon as the system reports its end."""

from __future__ import annotations

import asyncio
import os

from imi_monitor.auto_follow import AutoFollow
from imi_monitor.runs import follower_process
from imi_monitor.store.async_registry import open_registry
from tests.helpers import wait_for
from tests.limits import LIMIT
from tests.runs.run_kit import RunWorld, followers, kill_followers, registry
from tests.sources.source_kit import RecordingReceiver, running, until


class HealthReceiver(RecordingReceiver):
    """Whether the source has had its first look."""

    looked = False

    def set_healthy(self, source: str) -> None:
        super().set_healthy(source)
        self.looked = True


def test_a_killed_follower_is_followed_by_another_before_the_next_look(world: RunWorld) -> None:
    run = world.start("[[ask]]")
    world.wait(run, "asks")
    wait_for(lambda: follower_process.watch_end(registry()) is not None)

    async def main() -> None:
        async with open_registry(registry()) as opened:
            source, receiver = AutoFollow(opened, registry(), pause=3600.0), HealthReceiver()
            open_before = len(os.listdir("/proc/self/fd"))
            async with running(source, receiver):
                await until(lambda: receiver.looked, LIMIT)
                before = set(followers())
                assert before
                kill_followers()
                await until(lambda: set(followers()) - before, LIMIT)
            assert len(os.listdir("/proc/self/fd")) == open_before

    asyncio.run(main())
    assert world.imi("answer", run, "yes").code == 0
    world.wait(run, "idle")


def test_the_end_of_a_follower_that_is_gone_or_never_began_cannot_be_watched(world: RunWorld) -> None:
    assert follower_process.watch_end(registry()) is None
    run = world.start("[[ask]]")
    world.wait(run, "asks")
    wait_for(lambda: follower_process.watch_end(registry()) is not None)
    kill_followers()
    wait_for(lambda: follower_process.watch_end(registry()) is None)
