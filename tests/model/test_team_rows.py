"""The worktrees and agents of all homes in one snapshot."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.model import alert
from imi_monitor.model.snapshot import Key
from imi_monitor.model.team_rows import MOST_PAIRS, TeamRows, home_of_agent
from tests.ui import sample_agents, sample_snapshots, sample_team
from tests.ui.sample_snapshots import HOST, REPO


def test_without_another_home_the_snapshot_stays_the_same() -> None:
    world = sample_snapshots.busy()
    assert TeamRows(every_repository=True).merge(world) is world
    alone = sample_team.with_homes(world, [])
    assert TeamRows(every_repository=True).merge(alone) is alone


def test_rows_of_other_homes_have_the_repository_names_of_this_one() -> None:
    world = sample_team.team()
    merged = TeamRows(every_repository=True).merge(world)
    added = merged.worktrees[len(world.worktrees) :]
    assert {(tree.key.host, tree.key.worktree) for tree in added} == {
        *(("build-1", name) for name in ("feat-api", "fix-login")),
        *(("ci-runner", name) for name in ("devops-ci", "feat-search")),
        (f"cy@{HOST}", "fix-cache"),  # its host has this one's name
    }
    assert {tree.key.repo for tree in added} == {REPO}
    assert all(tree.claim.key == tree.key for tree in added if tree.claim)
    assert merged.repositories == world.repositories


def test_rows_that_did_not_change_stay_the_same_objects() -> None:
    rows, world = TeamRows(every_repository=True), sample_team.team()
    first, second = rows.merge(world), rows.merge(replace(world, seq=2))
    assert list(map(id, first.worktrees)) == list(map(id, second.worktrees))
    assert list(map(id, first.agents)) == list(map(id, second.agents))


def test_a_repository_that_is_not_known_here_is_shown_only_with_all_repositories() -> None:
    other = sample_snapshots.snapshot([sample_snapshots.tree("feat-x", key=Key(HOST, "web", "feat-x"))])
    world = sample_team.with_homes(sample_snapshots.busy(), [sample_team.published(other, "1f3a", "build-1", "bo")])
    assert TeamRows(every_repository=False).merge(world).repositories == (REPO,)
    merged = TeamRows(every_repository=True).merge(world)
    assert merged.repositories == (REPO, "web")
    assert merged.worktree(Key("build-1", "web", "feat-x")) is not None


def test_two_repositories_of_one_name_keep_their_addresses() -> None:
    other = sample_snapshots.snapshot([sample_snapshots.tree("feat-x")])
    world = sample_team.with_homes(sample_snapshots.busy(), [sample_team.published(other, "1f3a", "build-1", "bo")])
    elsewhere = replace(world, identities=((REPO, "gitlab.com/else/where"),))
    assert TeamRows(every_repository=True).merge(elsewhere).repositories == (REPO, sample_team.SHOP)


def test_the_same_branch_and_the_same_file_on_two_machines_collide() -> None:
    merged = TeamRows(every_repository=True).merge(sample_team.team())
    between = [one for one in merged.collisions if one.right is not None and one.left.host != one.right.host]
    pair = next(one for one in between if one.left.worktree == "feat-api" and one.branch)
    assert {pair.left.host, pair.right.host if pair.right else ""} == {HOST, "build-1"}
    assert (pair.branch, pair.files, pair.conflicts) == ("feat/api", ("src/api.ts",), None)


def test_a_file_that_every_worktree_has_changed_costs_little() -> None:
    """A lock file in 20 homes of 20 worktrees: 76,000 pairs, of which those of this home come first."""
    hot = sample_snapshots.files((".M", "poetry.lock"))
    trees = [
        sample_snapshots.tree(f"feat-{number}", git=sample_snapshots.git(f"feat/{number}", hot)) for number in range(20)
    ]
    homes = []
    for place in range(20):
        named = [replace(one, branch=f"feat/{place}-{one.key.worktree}") for one in trees]
        other = sample_snapshots.snapshot(named)
        homes.append(sample_team.published(other, f"{place:02}ff", f"host-{place:02}", "ada"))
    world = sample_team.with_homes(sample_snapshots.snapshot([replace(trees[0], branch="feat/own")]), homes)
    rows = TeamRows(every_repository=True)
    merged = rows.merge(world)
    assert len(merged.collisions) == MOST_PAIRS
    own = [one for one in merged.collisions if HOST in (one.left.host, one.right and one.right.host)]
    assert len(own) == 400, "each one that collides with a worktree of this home is named"
    again = rows.merge(replace(world, seq=2))
    assert all(one is other for one, other in zip(again.collisions, merged.collisions, strict=True)), "found once"
    home = next(one for one in world.homes if not one.own)
    without = replace(home, worktrees=home.worktrees[1:])
    homes_now = tuple(without if one is home else one for one in world.homes)
    gone = Key(home.label, REPO, home.worktrees[0].key.worktree)
    now = rows.merge(replace(world, homes=homes_now)).collisions
    assert gone not in {key for one in now for key in (one.left, one.right)}


def test_a_home_read_for_the_first_time_or_again_is_old_news() -> None:
    rows = TeamRows(every_repository=True)
    alone, world = rows.merge(sample_agents.at_work()), rows.merge(sample_team.team())
    assert alert.find_alerts(alone, world) == []
    remote = [agent for agent in world.agents if home_of_agent(world.homes, agent)]
    assert len(remote) == 2
    silent = rows.merge(sample_team.with_homes(sample_agents.at_work(), [], connected=False))
    assert alert.find_alerts(silent, world) == []
    cut = replace(
        world,
        agents=tuple(
            replace(one, truth=replace(one.truth, state="unknown")) if one in remote else one for one in world.agents
        ),
    )
    assert alert.find_alerts(cut, world) == []


def test_an_agent_that_begins_to_ask_in_another_home_is_told_with_its_host() -> None:
    world = TeamRows(every_repository=True).merge(sample_team.team())
    (asking,) = [one for one in world.agents if home_of_agent(world.homes, one) and one.state == "waiting_for_input"]
    before = replace(asking, truth=replace(asking.truth, state="running", since=sample_snapshots.ago(900)))
    earlier = replace(world, agents=tuple(before if one is asking else one for one in world.agents))
    (told,) = alert.find_alerts(earlier, world)
    assert told.kind == "asking"
    assert f"{asking.name} asks in build-1:fix-login" in told.text
