"""Two homes with `imi serve` on a real Redis, as `imi hosts`, `list`, `status` and `agents` show them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from imi_monitor.links import redis_url
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.presence_publisher import PresencePublisher
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model import times
from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_rows import describe
from imi_monitor.store.duty_lock import DutyLock
from tests.helpers import imi, wait_for
from tests.limits import read_line
from tests.redis_server import RedisServer
from tests.team.home_kit import TeamHome


def states(one: TeamHome) -> dict[str, str]:
    return {home["label"]: home["state"] for home in one.imi("hosts", "--json").data["homes"]}


def test_each_home_sees_the_worktrees_and_claims_of_the_other(tmp_path: Path, redis_server: RedisServer) -> None:
    left, right = (TeamHome(tmp_path / "homes", name, redis_server.url) for name in ("left", "right"))
    assert "no home has published yet" in left.imi("hosts").out
    with left.process("serve"), right.process("serve") as served:
        wait_for(lambda: states(left) == {"left": "here", "right": "here"})
        wait_for(lambda: "agent-left" in right.imi("list", "--all-hosts").out)
        rows = right.imi("status", "--all-hosts", "--json").data["worktrees"]
        theirs = [(row["host"], row["repo"], row["worktree_name"], row["agent_id"]) for row in rows if row["host"]]
        assert sorted(theirs) == [
            ("left", "github.com/acme/app", "app", None),
            ("left", "github.com/acme/app", "feat-left", "agent-left"),
        ]
        assert right.imi("agents", "--all-hosts").code == 0
        with right.process("status", "--watch", "--all-hosts") as watched:
            assert watched.stdout is not None
            while "left" not in (line := read_line(watched.stdout)) or "agent-left" not in line:
                assert line, "it ended"
        assert left.imi("release", "feat-left", "--agent", "agent-left").code == 0
        wait_for(lambda: "agent-left" not in right.imi("list", "--all-hosts").out)

        second = right.imi("serve")
        assert (second.code, second.out) == (1, "")
        assert f"process {served.pid} (" in second.err and "has the duties of this home" in second.err
    assert states(left) == {"left": "offline", "right": "offline"}, "a home that ends takes its rows away"


def test_without_a_team_events_are_archived_all_the_same(tmp_path: Path) -> None:
    left = TeamHome(tmp_path / "homes", "left", "")
    with left.process("serve"):
        wait_for(lambda: left.imi("history", "agent-left", "--json").data["count"] == 1)
        assert left.imi("release", "feat-left", "--agent", "agent-left").code == 0
        wait_for(lambda: left.imi("history", "released", "--json").data["count"] == 1)
        assert left.imi("archive", "--json").data["sinks"][0]["delivered"] == 0


def test_homes_of_one_host_name_have_labels_of_their_own(tmp_path: Path, redis_server: RedisServer) -> None:
    left, right = (TeamHome(tmp_path / "homes", name, redis_server.url, host="ubuntu") for name in ("left", "right"))
    with left.process("serve"), right.process("serve"):
        wait_for(lambda: list(states(left).values()) == ["here", "here"])
        ids = {home["id"]: home["label"] for home in left.imi("hosts", "--json").data["homes"]}
        assert sorted(ids.values()) == sorted(f"ubuntu~{ident[:4]}" for ident in ids)


def test_what_a_newer_imi_publishes_is_unknown_and_not_zero(tmp_path: Path, redis_server: RedisServer) -> None:
    one = TeamHome(tmp_path, "one", redis_server.url)
    text = describe(HomeDescription("1f3a", "build", "ada", "9.0.0", PROTOCOL + 1, times.stamp(), times.stamp()))

    async def publish() -> None:
        link = RedisLink(redis_url.parse(redis_server.url))
        await PresencePublisher(link, TeamKeys("default"), "1f3a", "m", lambda: text).publish({"w:x": "{}"})
        await link.close()

    asyncio.run(publish())
    (home,) = one.imi("hosts", "--json").data["homes"]
    assert (home["state"], home["worktrees"], home["claims"], home["agents"]) == ("newer", None, None, None)
    shown = one.imi("hosts").out.splitlines()[-1]
    assert "newer imi" in shown and shown.count(" ? ") == 3
    refused = one.imi("claim", "build:feat-x")
    assert refused.code == 1 and "build runs a newer imi: upgrade this one" in refused.err


def test_another_process_takes_over_when_the_holder_is_killed(tmp_path: Path, redis_server: RedisServer) -> None:
    left = TeamHome(tmp_path / "homes", "left", redis_server.url)
    with left.process("serve") as first:
        wait_for(lambda: states(left) == {"left": "here"})
        with left.process("watch") as second:
            lock = DutyLock(str(left.home / ".config" / "iMi" / "iMi.db"))
            assert lock.holder() == first.pid
            first.kill()
            wait_for(lambda: lock.holder() == second.pid)
            redis_server.run("FLUSHALL")
            wait_for(lambda: states(left) == {"left": "here"})


def test_a_dashboard_of_one_repository_publishes_all_worktrees_of_the_home(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    left = TeamHome(tmp_path / "homes", "left", redis_server.url)
    with left.process("watch", str(tmp_path / "homes" / "left" / "app")):
        wait_for(lambda: states(left) == {"left": "here"})
        wait_for(lambda: left.imi("hosts", "--json").data["homes"][0]["worktrees"] == 2)


def test_a_lock_is_held_once_and_passes_to_no_program_that_is_started(tmp_path: Path) -> None:
    one, other = DutyLock(str(tmp_path / "iMi.db")), DutyLock(str(tmp_path / "iMi.db"))
    assert one.acquire() and one.acquire() and not other.acquire()
    assert one.holder() == os.getpid()
    handle = next(int(fd) for fd in os.listdir("/proc/self/fd") if _leads_to(fd, one.path))
    assert not os.get_inheritable(handle)
    one.release()
    assert other.acquire()
    other.release()


def _leads_to(fd: str, path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == path
    except OSError:
        return False


@pytest.mark.parametrize("words", [("hosts",), ("list", "--all-hosts")])
def test_without_a_team_each_says_what_to_set(words: tuple[str, ...], tmp_path: Path) -> None:
    done = imi(*words, cwd=_repository(tmp_path))
    assert (done.code, done.out) == (1, "") and "set servers.redis_url" in done.err


def test_a_redis_that_is_gone_is_one_sentence_and_the_rest_works(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    gone = imi("hosts", "--redis", "redis://127.0.0.1:1", cwd=repository)
    assert (gone.code, gone.out) == (1, "") and "127.0.0.1:1 cannot be reached" in gone.err
    assert imi("list", "--redis", "redis://127.0.0.1:1", cwd=repository).code == 0


def test_a_password_on_the_command_line_is_refused(tmp_path: Path) -> None:
    done = imi("list", "--redis", "redis://:hunter2@127.0.0.1:1", cwd=_repository(tmp_path))
    assert done.code == 2 and "--redis takes no password" in done.err and "hunter2" not in done.err


def test_a_cluster_cannot_choose_the_server(cluster: object, tmp_path: Path) -> None:
    folder = tmp_path / "coolcode"
    (folder / ".iMi").mkdir(exist_ok=True)
    for line in ("[team]\nshare = 'titles'\n", "[team]\ninsecure = true\n", "[servers]\nredis_url = 'redis://h'\n"):
        (folder / ".iMi" / "config.toml").write_text(line)
        done = imi("status", cwd=folder / "trunk-main")
        assert done.code == 2 and "is not allowed in" in done.err, line


def test_the_unit_is_printed_and_not_installed(tmp_path: Path) -> None:
    done = imi("serve", "--unit", cwd=tmp_path)
    assert done.code == 0 and "[Service]" in done.out and "serve" in done.out and "enable-linger" in done.err


def _repository(tmp_path: Path) -> Path:
    from tests.helpers import Repo

    return Repo.create(tmp_path / "app").path
