"""The dashboard of a team: rows of other homes, what can be done with them, and the list of hosts."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import config
from imi_monitor.model import times
from imi_monitor.model.errors import UsageError
from imi_monitor.model.home import PROTOCOL
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.team_rows import TeamRows
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.filters import WorktreeFilter
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from tests.helpers import Repo, imi, imi_argv, set_clock, wait_for
from tests.redis_server import RedisServer
from tests.team.home_kit import TeamHome
from tests.ui import sample_agents, sample_snapshots, sample_team
from tests.ui.payloads import PAYLOADS, bad_characters
from tests.ui.pilot_kit import screen_text, wait_until
from tests.ui.pty_kit import Terminal
from tests.ui.sample_snapshots import REPO
from tests.ui.snapshot_kit import no_context

Play = Callable[[ImiApp, Pilot[Any]], Awaitable[None]]
REMOTE = Key("build-1", REPO, "fix-login")


def show(play: Play, world: Snapshot, preferences: Preferences | None = None) -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(world), no_context, preferences=preferences)
        async with app.run_test(size=(140, 40), notifications=True) as pilot:
            await wait_until(pilot, lambda: app.home.facts is not None)
            await play(app, pilot)

    asyncio.run(main())


async def select(app: ImiApp, pilot: Pilot[Any], key: Key) -> None:
    app.home.select(key)
    await wait_until(pilot, lambda: app.home.selected == key)


def test_what_another_home_alone_can_do_is_refused_with_its_name() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await select(app, pilot, REMOTE)
        for word in ("remove", "rename", "merge", "diff", "copy", "mark", "shell"):
            command = app.command(word)
            assert command is not None
            assert app.why_not(command) == "fix-login is on build-1: this can only be done there", word
        asked = [one.word for one in app.commands if one.for_other_homes]
        assert asked == ["claim", "release"], "by a question a home may be asked for its claims alone"
        peek = app.command("peek")
        assert peek is not None
        assert "works on build-1: this can only be done there" in app.why_not(peek)
        await pilot.press("M")
        assert app.home.marks and all(key.host == sample_snapshots.HOST for key in app.home.marks)

    show(play, sample_team.team())


def test_enter_opens_a_shell_over_ssh_where_a_destination_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/ran\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        app.suspend = nullcontext  # type: ignore[method-assign]
        await select(app, pilot, REMOTE)
        await pilot.press("enter")
        await wait_until(pilot, lambda: (tmp_path / "ran").exists() and (tmp_path / "ran").read_text().count("\n") == 4)
        words = (tmp_path / "ran").read_text().splitlines()
        assert words == ["-t", "--", "bo@build-1.lan", 'cd -- "$(imi go -- fix-login)"; exec "${SHELL:-/bin/sh}" -l']
        await select(app, pilot, Key("ci-runner", REPO, "devops-ci"))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "set ssh in [hosts.ci-runner]" in screen_text(app))

    destinations = {"build-1": "bo@build-1.lan"}
    show(play, sample_team.team(), Preferences(ssh_destination=lambda label: destinations.get(label, "")))


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ('[hosts.build-1]\nssh = "bo@build-1.lan"', "bo@build-1.lan"),
        ('[hosts."Bo@Build-1"]\nssh = "b"', ""),
        ('[hosts.build-1]\nssh = "-oProxyCommand=x"', None),
        ("[hosts.build-1]\nssh = 3", None),
        ("[hosts.build-1]\nport = 3", None),
        ('[hosts]\nbuild-1 = "x"', None),
    ],
)
def test_destinations_of_ssh_are_read_from_the_config_file(text: str, destination: str | None) -> None:
    from imi_monitor import paths

    file = Path(paths.config_file())
    file.parent.mkdir(parents=True)
    file.write_text(text)
    if destination is None:
        with pytest.raises(UsageError, match="hosts"):
            config.load()
    else:
        settings = config.load()
        assert settings.ssh_destination("BUILD-1") == destination
        assert settings.ssh_destination("bo@build-1") == ("" if destination else "b")


def test_the_list_of_hosts_shows_each_home_and_narrows_the_list_to_one() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("C")
        await wait_until(pilot, lambda: "2 of 4 online" in screen_text(app))
        text = screen_text(app)
        for words in ("this one", "no answer for", "offline for", "2 worktrees  2 claims  2 agents  1 asks"):
            assert words in text
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: app.screen is app.home and len(app.home.worktrees.listed) == 2)
        assert {tree.key.host for tree in app.home.worktrees.listed} == {"build-1"}

    show(play, sample_team.team())


@pytest.mark.parametrize(("newer", "badge"), [(1, "newer imi: build-0"), (2, "newer imi: 2 hosts")])
def test_a_host_with_a_newer_imi_is_named_in_the_header(newer: int, badge: str) -> None:
    """Its rows are not shown, so the header says why; a click on that shows the list of hosts."""
    other = sample_snapshots.snapshot([sample_snapshots.tree("feat-unread")])
    homes = [
        sample_team.published(other, f"{number}f3a", f"build-{number}", "bo", protocol=PROTOCOL + (number < newer))
        for number in range(3)
    ]

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        first = screen_text(app).splitlines()[0]
        assert badge in first
        assert {tree.key.host for tree in app.home.worktrees.listed if tree.key.worktree == "feat-unread"} == {
            f"build-{number}" for number in range(newer, 3)
        }
        await pilot.click(offset=(first.index(badge), 0))
        await wait_until(pilot, lambda: "upgrade this one to see its rows" in screen_text(app))

    show(play, sample_team.with_homes(sample_snapshots.busy(), homes))


def test_the_list_of_hosts_without_a_team_says_what_to_set() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("C")
        await wait_until(pilot, lambda: "set servers.redis_url" in screen_text(app))

    show(play, sample_snapshots.busy())


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("is:remote", {"build-1", "ci-runner", f"cy@{sample_snapshots.HOST}"}),
        ("host:build", {"build-1"}),
        ("host:ada", {sample_snapshots.HOST}),
        ("!is:remote", {sample_snapshots.HOST}),
    ],
)
def test_the_filter_finds_worktrees_by_host(text: str, hosts: set[str]) -> None:
    world = TeamRows(every_repository=True).merge(sample_team.team())
    facts = SnapshotFacts(world, sample_snapshots.NOW)
    assert {tree.key.host for tree in WorktreeFilter(text).apply(facts, world.worktrees)} == hosts


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_rows_of_another_home_reach_no_cell(payload: str) -> None:
    text = PAYLOADS[payload]
    tree = sample_snapshots.tree(
        text, branch=text, git=sample_snapshots.git(text, sample_snapshots.files((".M", text)))
    )
    other = sample_snapshots.snapshot([tree])
    world = sample_team.with_homes(sample_snapshots.busy(), [sample_team.published(other, "1f3a", text, text)])
    rows = sum(len(home.worktrees) for home in world.homes)  # without a name, or too long, it is not read
    assert rows or not text or len(text) > 1000

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(app.home.worktrees.listed) == 6 + rows)
        if rows:
            hosts = {one.key.host: one.key for one in app.home.worktrees.listed}
            await select(app, pilot, next(key for host, key in hosts.items() if host != sample_snapshots.HOST))
        shown = screen_text(app)
        await pilot.press("C")
        await wait_until(pilot, lambda: "Hosts" in screen_text(app))
        assert not bad_characters((shown + screen_text(app)).replace("\n", ""))

    show(play, world)


def plain(output: bytes | bytearray) -> str:
    """What was written, without styles."""
    return re.sub(r"\x1b\[[\d;]*m", "", bytes(output).decode(errors="replace"))


def test_a_dashboard_shows_what_another_home_publishes_and_that_it_left(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    left, right = (TeamHome(tmp_path / "homes", name, redis_server.url) for name in ("left", "right"))
    assert left.imi("hosts").code == 0
    with left.process("serve") as served, right.dashboard() as terminal:
        terminal.until(b"feat-left")
        terminal.until(b"agent-left")
        terminal.until(lambda: "agent-left claimed left:feat-left" in plain(terminal.output))  # in the panel of events
        served.kill()
        terminal.until(b"2 hosts")
        terminal.send(b"C")
        terminal.until(lambda: b"no answer for" in terminal.output or b"offline for" in terminal.output)
        terminal.send(b"qq")
        assert terminal.ended() == 0


def test_a_repository_that_is_not_registered_yet_has_the_rows_of_the_others(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """A lead who has claimed nothing there sees the team, and the team sees the lead's worktrees under the same address."""
    left, right = (TeamHome(tmp_path / "homes", name, redis_server.url) for name in ("left", "right"))
    clones = [Repo.create(one.home / "web") for one in (left, right)]
    for clone in clones:
        clone.git("remote", "add", "origin", "https://github.com/acme/Web.git")
    clones[0].worktree("feat-shop")
    assert imi("claim", "feat-shop", "--agent", "a", cwd=clones[0].path, env=left.env).code == 0
    with (
        left.process("serve"),
        Terminal(imi_argv("monitor"), cwd=clones[1].path, size=(140, 40), env=right.env) as terminal,
    ):
        terminal.until(b"feat-shop")

        def seen() -> set[str]:
            rows = left.imi("status", "--all-hosts", "--json").data["worktrees"]
            return {row["repo"] for row in rows if row["host"] == "right"}

        wait_for(lambda: "github.com/acme/web" in seen())
        terminal.send(b"q")


def test_the_leads_view_sums_up_the_day_of_all_homes(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = (TeamHome(tmp_path / "homes", name, redis_server.url) for name in ("left", "right"))
    agents = [replace(one, key=one.key and replace(one.key, repo="App")) for one in sample_agents.at_work().agents]
    with monkeypatch.context() as later:  # so that the sessions are of today after a midnight in this test as well
        set_clock(later, times.now() + timedelta(hours=2))
        for one in (left, right):
            world = replace(sample_agents.at_work(), agents=tuple(agents))
            sample_agents.keep(str(one.home / ".config" / "iMi" / "iMi.db"), world)

    def today() -> dict[str, Any]:
        return {home["label"]: home["today"] for home in right.imi("hosts", "--json").data["homes"]}

    with left.process("serve"), right.dashboard() as terminal:
        wait_for(lambda: len(found := today()) == 2 and all(found.values()))
        assert {label: day["sessions"] for label, day in today().items()} == {"left": 5, "right": 5}
        assert "Worked today" in right.imi("hosts").out
        terminal.until(b"feat-left")
        terminal.send(b"A")
        terminal.until(lambda: "today on 2 hosts  10 sessions" in plain(terminal.output))
        terminal.send(b"q")
