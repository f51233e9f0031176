"""A lead's dashboard in a real tmux over 20 homes on a real Redis, of which one is cut off and comes back, at four widths."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from imi_monitor.links import redis_url
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.presence_publisher import PresencePublisher
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_rows import RowEncoder, describe
from imi_monitor.model.snapshot import Snapshot
from tests.helpers import ROOT, imi_argv, wait_for
from tests.limits import join
from tests.mux.multiplexer_kit import tmux_server
from tests.redis_server import RedisServer
from tests.team.home_kit import TeamHome
from tests.ui import sample_agents
from tests.ui.sample_snapshots import ago, claim, git, snapshot, tree

WIDTHS = (200, 140, 100, 60)


def world(number: int) -> Snapshot:
    names = [f"feat-cart-{number}", f"fix-login-{number}"]
    trees = [tree(name, git=git(name.replace("-", "/", 1)), claim=claim(name, f"claude-{number}")) for name in names]
    return sample_agents.with_agents(snapshot(trees))


def is_laid_out(width: int, text: str) -> bool:
    """Whether the list of hosts is painted for this width: two lines each, one that is cut, or one that is whole."""
    lines = text.splitlines()
    at = next((at for at, line in enumerate(lines) if "host-07" in line), None)
    if at is None or at + 1 == len(lines):
        return False
    if width < 80:
        return "worktrees" not in lines[at] and "worktrees" in lines[at + 1]
    return "worktrees" in lines[at] and ("…" in lines[at]) == (width < 120)


class PublishedTeam:
    """Twenty homes that publish in a thread; one of them can be silent."""

    def __init__(self, url: str) -> None:
        self.silent = False
        self._url, self._over = url, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._publish()))

    @contextmanager
    def publishing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            join(self._thread)

    async def _publish(self) -> None:
        link, keys = RedisLink(redis_url.parse(self._url)), TeamKeys("default")
        encoder = RowEncoder("names", lambda name: f"github.com/acme/{name}")
        homes = []
        for number in range(20):
            ident = f"{number:02}ff" * 8
            text = describe(HomeDescription(ident, f"host-{number:02}", "ada", "0.1.0", PROTOCOL, ago(7200), ago(0)))
            publisher = PresencePublisher(link, keys, ident, "m", lambda text=text: text)  # type: ignore[misc]
            homes.append((publisher, dict(encoder.rows(world(number)))))
        while not self._over.is_set():
            for number, (publisher, rows) in enumerate(homes):
                if number != 7 or not self.silent:
                    await publisher.publish(rows)
            await asyncio.sleep(0.5)
        await link.close()


def test_the_badges_of_a_server_that_was_away_go_when_it_is_back(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the one of waiting events, although no other process writes into the registry any more."""
    lead = TeamHome(tmp_path / "homes", "lead", redis_server.url)
    with tmux_server(tmp_path, monkeypatch) as tmux:
        env = [f"{name}={value}" for name, value in {**lead.env, "PYTHONPATH": str(ROOT)}.items()]
        line = shlex.join(["env", "-u", "TMUX", "-u", "TMUX_PANE", *env, *imi_argv("monitor")])
        tmux("new-window", "-n", "lead", "-c", str(lead.repo.path), line)
        tmux("resize-window", "-t", "lead", "-x", "140", "-y", "50")

        def shown(*words: str) -> bool:
            text = tmux("capture-pane", "-p", "-t", "lead")
            return "feat-lead" in text and all(word in text for word in words)

        def hidden(*words: str) -> bool:
            text = tmux("capture-pane", "-p", "-t", "lead")
            return "feat-lead" in text and not any(word in text for word in words)

        feed = TeamKeys("default").feed
        wait_for(lambda: shown("agent-lead claimed feat-lead") and redis_server.run("XLEN", feed) == ":1")
        redis_server.kill()
        assert lead.imi("release", "feat-lead", "--agent", "agent-lead").code == 0
        wait_for(lambda: shown("Redis ⇡1", "cannot be reached", "agent-lead released feat-lead"))
        redis_server.start()
        wait_for(lambda: hidden("Redis ⇡", "cannot be reached", "stale"))
        tmux("send-keys", "-t", "lead", "q")
    assert redis_server.run("XLEN", feed) == ":2", "each event once, the earlier one sent again"


@pytest.mark.soak  # a home is silent for ten seconds before it counts as such
def test_a_home_of_twenty_is_cut_off_and_comes_back(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead, team = TeamHome(tmp_path / "homes", "lead", redis_server.url), PublishedTeam(redis_server.url)
    pictures = Path(os.environ.get("LEAD_PICTURES", tmp_path))
    with team.publishing(), tmux_server(tmp_path, monkeypatch) as tmux:
        env = [f"{name}={value}" for name, value in {**lead.env, "PYTHONPATH": str(ROOT)}.items()]
        line = shlex.join(["env", "-u", "TMUX", "-u", "TMUX_PANE", *env, *imi_argv("monitor")])
        tmux("new-window", "-n", "lead", "-c", str(lead.repo.path), line)

        def shown(width: int, wanted: str, *, fits: Callable[[int, str], bool] = lambda *_: True) -> str:
            tmux("resize-window", "-t", "lead", "-x", str(width), "-y", "50")
            texts = ["", ""]

            def there() -> bool:
                time.sleep(0.3)  # it is painted anew for the width
                texts[:] = tmux("capture-pane", "-p", "-t", "lead"), texts[0]
                return wanted in texts[0] and texts[0] == texts[1] and fits(width, texts[0])

            with suppress(AssertionError):
                wait_for(there, 60)
            assert wanted in texts[0] and fits(width, texts[0]), texts[0]
            return texts[0]

        shown(140, "feat-cart-7")
        assert "21 hosts" in shown(140, "21 hosts")
        tmux("send-keys", "-t", "lead", "C")
        shown(140, "host-07")
        team.silent = True
        shown(140, "no answer")
        for width in WIDTHS:
            text = shown(width, "no answer", fits=is_laid_out)
            (pictures / f"cut-off-{width}.txt").write_text(tmux("capture-pane", "-pe", "-t", "lead"))
            assert text.count("no answer") == 1, "the others are online"
        team.silent = False
        wait_for(lambda: "no answer" not in tmux("capture-pane", "-p", "-t", "lead"))
        for width in WIDTHS:
            assert "no answer" not in shown(width, "host-07", fits=is_laid_out)
            (pictures / f"back-{width}.txt").write_text(tmux("capture-pane", "-pe", "-t", "lead"))
        tmux("send-keys", "-t", "lead", "q")
        tmux("send-keys", "-t", "lead", "q")
