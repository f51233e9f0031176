"""Alerts: differences between two snapshots that a person should see at once.

An agent asks, has finished, failed or died, or works under another owner's claim; a claim is lost; two worktrees conflict.
They are found in the two snapshots and in the registry's events. How an alert is shown is decided in `ui/notifications.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.model import attention, state_words, usage_limit
from imi_monitor.model.agent import COMPLETED, GUESS, WAITING, WORKING, Agent
from imi_monitor.model.event_text import concerns, data_of, sentence
from imi_monitor.model.run import workspace_name
from imi_monitor.model.snapshot import Collision, Key, RegistryEvent, Snapshot
from imi_monitor.model.team_rows import home_of_agent
from imi_monitor.model.text import count, safe

KINDS = ("asking", "intruder", "failed", "dead", "finished", "claim_lost", "collision")


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Equal alerts are about the same thing."""

    kind: str
    about: tuple[str, ...]
    text: str


def find_alerts(before: Snapshot | None, after: Snapshot) -> list[Alert]:
    """Return the alerts for what is new in `after`.

    A first or incomplete snapshot gives none, nor does a source that had no reading before: its first reading is old news.
    """
    if before is None or not before.complete:
        return []
    found = [*_by_agents(before, after), *_by_events(before, after), *_died(before, after), *_collided(before, after)]
    return list(dict.fromkeys(found))


# -- agents -------------------------------------------------------------------------------------------------------------


def _by_agents(before: Snapshot, after: Snapshot) -> list[Alert]:
    """Return the alerts about agents, the most urgent first. A guessed state gives none."""
    if before.agents is after.agents or not before.has_read("agents"):
        return []
    known = {agent.id: agent for agent in before.agents}
    found = [
        alert
        for agent in after.agents
        if not _is_old_news(known.get(agent.id), agent, before, after)
        for alert in _of_agent(known.get(agent.id), agent, after)
    ]
    return sorted(found, key=lambda alert: KINDS.index(alert.kind))


def _is_old_news(then: Agent | None, now: Agent, before: Snapshot, after: Snapshot) -> bool:
    """Whether another home has just been read for the first time, or answers again with the same state."""
    home = home_of_agent(after.homes, now)
    if home is None:
        return False
    return home.id not in {one.id for one in before.homes} or (then is not None and then.truth.since == now.truth.since)


def _of_agent(then: Agent | None, now: Agent, after: Snapshot) -> list[Alert]:
    # an ended agent holds no claim any more and has lost the name it had from it
    named = then if then is not None and attention.has_ended(now) else now
    who, where = safe(named.name, 60), _place(now.key, after) if now.key else "an unknown worktree"
    about = (now.id, now.truth.since or "")
    found = []
    if _intrudes(now) and not (then is not None and _intrudes(then)):
        holder = safe(now.claimed_by or "another", 60)
        found.append(Alert("intruder", about, f"{who} works in {where}, which {holder} has claimed"))
    kind = _state_alert(then, now, after)
    words = {
        "asking": f"asks in {where}{_detail(now)}",
        "failed": f"{_failure(now)} in {where}{_detail(now)}",
        "dead": f"died while working in {where}",
        "finished": f"{'is done' if attention.has_ended(now) else 'has finished its turn'} in {where}",
    }
    return [*found, Alert(kind, about, f"{who} {words[kind]}")] if kind else found


def _state_alert(then: Agent | None, now: Agent, after: Snapshot) -> str | None:
    """Return the kind of alert for its new state, if any; an agent that was not seen before alerts only when it asks."""
    stands = attention.standing(now)
    if now.truth.confidence == GUESS or (then is not None and attention.standing(then) == stands):
        return None
    if stands == state_words.ASKS:
        return "asking"
    if then is None or then.state not in WORKING | {WAITING}:
        return None
    if stands in (state_words.FAILED, state_words.LIMITED):
        return "failed"
    if stands == state_words.DEAD:
        return None if _holder_died(now, after) else "dead"
    return "finished" if now.state == COMPLETED and not now.never_asked else None


def _failure(agent: Agent) -> str:
    reached = attention.usage_limit_of(agent)
    return "failed" if reached is None else f"is {usage_limit.words(reached)}"


def _detail(agent: Agent) -> str:
    return f": {safe(agent.truth.detail, 120)}" if agent.truth.detail else ""


def _intrudes(agent: Agent) -> bool:
    return agent.intruder and not attention.has_ended(agent)


def _holder_died(agent: Agent, snapshot: Snapshot) -> bool:
    """Return whether the agent is the claim's own process: then the lost claim is the alert."""
    tree = snapshot.worktree(agent.key) if agent.key is not None else None
    return tree is not None and tree.claim is not None and agent.pid is not None and tree.claim.pid == agent.pid


# -- the registry -------------------------------------------------------------------------------------------------------


def _by_events(before: Snapshot, after: Snapshot) -> list[Alert]:
    if not before.has_read("registry"):
        return []
    last = before.events[-1].seq if before.events else 0
    alerts = (
        _of_event(event, seen=after.sees_agents)
        for event in after.events
        if event.seq > last and concerns(event, after.repositories)
    )
    return [alert for alert in alerts if alert is not None]


def _of_event(event: RegistryEvent, *, seen: bool) -> Alert | None:
    """Return the alert for one event. `seen`: agents are observed here, so their session events would alert twice."""
    data, who = data_of(event), safe(event.agent or "an unnamed agent", 60)
    where = safe(event.worktree or event.repo or "", 60)
    about = (event.repo or "", event.worktree or "", str(event.seq))
    if event.type == "worktree.released" and data.get("by"):
        return Alert("claim_lost", about, str(sentence(event)))
    if event.type == "run.resumable":
        return Alert("asking", about, str(sentence(event)))
    if event.type in ("budget.used_up", "budget.warned", "run.used_up"):
        return Alert("failed", about, str(sentence(event)))
    if seen:
        return None
    if event.type == "session.ended":
        return Alert("finished", about, f"{who} is done in {where}")
    if event.type == "session.progress" and data.get("status") == WAITING:
        return Alert("asking", about, f"{who} asks in {where}")
    return None


def _died(before: Snapshot, after: Snapshot) -> list[Alert]:
    """Return an alert for each claim whose process was alive and is proven dead now."""
    alive = {tree.key: tree.claim for tree in before.worktrees if tree.claim and tree.claim.state != "dead"}
    return [
        Alert(
            "claim_lost",
            (*_key(tree.key), str(tree.claim.epoch)),
            f"{safe(tree.claim.agent, 60)} died holding {_place(tree.key, after)}",
        )
        for tree in after.worktrees
        if tree.claim
        and tree.claim.state == "dead"
        and (then := alive.get(tree.key)) is not None
        and then.epoch == tree.claim.epoch
    ]


def _collided(before: Snapshot, after: Snapshot) -> list[Alert]:
    """Return an alert for each pair of worktrees that conflicts now and did not before."""
    known = {_pair(one) for one in before.collisions if one.conflicts}
    return [
        Alert(
            "collision",
            _pair(one),
            f"{safe(one.left.worktree, 60)} and {safe(one.right.worktree, 60)} conflict in {_files(one)}",
        )
        for one in after.collisions
        if one.conflicts and one.right is not None and _pair(one) not in known
    ]


def _place(key: Key, snapshot: Snapshot) -> str:
    """The worktree's name, with the home in front of it if it is another one."""
    host = "" if key.host == snapshot.host else f"{safe(key.host, 40)}:"
    return host + safe(workspace_name(key.repo, key.worktree), 60)


def _files(one: Collision) -> str:
    names = one.conflicts or ()
    return safe(names[0], 60) if len(names) == 1 else count(len(names), "file")


def _pair(one: Collision) -> tuple[str, ...]:
    return (*_key(one.left), *(_key(one.right) if one.right else ()))


def _key(key: Key) -> tuple[str, ...]:
    return (key.host, key.repo, key.worktree)
