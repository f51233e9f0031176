"""Snapshots as JSON for `imi watch`, with a version; unknown values are null, never 0 and never left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from imi_monitor.model import attention, state_words
from imi_monitor.model.agent import Agent, Evidence
from imi_monitor.model.pull_request_list import pull_request_data
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import Collision, HomeState, Key, Snapshot, Worktree

SCHEMA = 1


def snapshot_data(snapshot: Snapshot) -> dict[str, object]:
    """Return the whole snapshot as one object."""
    return {
        "schema": SCHEMA,
        "type": "snapshot",
        "seq": snapshot.seq,
        "at": snapshot.taken_at,
        "host": snapshot.host,
        "complete": snapshot.complete,
        "repositories": list(snapshot.repositories),
        "worktrees": [worktree_data(one) for one in snapshot.worktrees],
        "waiting": [
            {**_named(one.key), "agent": one.agent, "since": one.since, "place": one.place} for one in snapshot.waiting
        ],
        "changes": [asdict(change) for change in snapshot.changes],
        "events": [asdict(event) for event in snapshot.events],
        "collisions": [collision_data(one) for one in snapshot.collisions],
        "agents": [agent_data(one) for one in snapshot.agents],
        "runs": [run_data(one) for one in snapshot.runs],
        "watched": [run_data(one) for one in snapshot.watched],
        "health": [asdict(one) for one in snapshot.health],
        "registry": asdict(snapshot.registry),
        "forges": [asdict(one) for one in snapshot.forges],
        "homes": [home_data(one) for one in snapshot.homes],
        "team_events": [asdict(event) for event in snapshot.team_events],
        "sinks": [asdict(one) for one in snapshot.sinks],
    }


def change_data(before: Snapshot, now: Snapshot) -> Iterator[dict[str, object]]:
    """Yield one object for each difference between two snapshots."""
    head: dict[str, object] = {"schema": SCHEMA, "seq": now.seq, "at": now.taken_at}
    if now.registry != before.registry:
        yield {**head, "type": "registry", "registry": asdict(now.registry)}
    old = {one.key: one for one in before.worktrees}
    for one in now.worktrees:
        if old.pop(one.key, None) != one:
            yield {**head, "type": "worktree", "worktree": worktree_data(one)}
    for key in old:
        yield {**head, "type": "gone", "worktree": _named(key)}
    seen = {id(change) for change in before.changes}
    for change in now.changes:
        if id(change) not in seen:
            yield {**head, "type": "change", "change": asdict(change)}
    last = before.events[-1].seq if before.events else 0
    for event in now.events:
        if event.seq > last:
            yield {**head, "type": "event", "event": asdict(event)}
    if now.collisions != before.collisions:
        yield {**head, "type": "collisions", "collisions": [collision_data(one) for one in now.collisions]}
    if now.waiting != before.waiting:
        waiting = [{**_named(one.key), "agent": one.agent, "place": one.place} for one in now.waiting]
        yield {**head, "type": "waiting", "waiting": waiting}
    known = {one.id: one for one in before.agents}
    for agent in now.agents:
        if known.pop(agent.id, None) != agent:
            yield {**head, "type": "agent", "agent": agent_data(agent)}
    for ident in known:
        yield {**head, "type": "agent_gone", "id": ident}
    for word, old_runs, runs in (("run", before.runs, now.runs), ("watched", before.watched, now.watched)):
        known_runs = {one.id: one for one in old_runs}
        for run in runs:
            if known_runs.pop(run.id, None) != run:
                yield {**head, "type": word, word: run_data(run)}
        for ident in known_runs:
            yield {**head, "type": f"{word}_gone", "id": ident}
    if now.health != before.health:
        yield {**head, "type": "health", "health": [asdict(one) for one in now.health]}
    if now.forges != before.forges:
        yield {**head, "type": "forges", "forges": [asdict(one) for one in now.forges]}
    if now.homes != before.homes:
        yield {**head, "type": "homes", "homes": [home_data(one) for one in now.homes]}
    if now.sinks != before.sinks:
        yield {**head, "type": "sinks", "sinks": [asdict(one) for one in now.sinks]}
    if now.complete and not before.complete:
        yield {**head, "type": "complete"}


def worktree_data(one: Worktree) -> dict[str, object]:
    """Return one worktree; its key and owner are fields of the object itself."""
    fields = asdict(one)
    fields.pop("key")
    fields.pop("pull")
    fields.pop("run")
    claim = fields.pop("claim")
    if claim is not None:
        claim.pop("key")
    activity = [{"minute": minute, "changes": count} for minute, count in one.activity]
    pull = pull_request_data(one.pull) if one.pull is not None else None
    return {**_named(one.key), **fields, "claim": claim, "activity": activity, "owner": one.owner, "pull_request": pull}


def run_data(one: Run) -> dict[str, object]:
    """Return one run; its worktree's key is fields of the object itself, null for a run that has none."""
    fields = asdict(one)
    fields.pop("key")
    claim = fields.pop("claim")
    if claim is not None:
        claim.pop("key")
    fields["claim"] = claim
    named = {"repo": one.key.repo if one.key else None, "worktree": one.key.worktree if one.key else None}
    return {**fields, **named, "files": [asdict(each) for each in one.files]}


def home_data(one: HomeState) -> dict[str, object]:
    """Return one home of the team with what it publishes; the own home's worktrees and agents are the snapshot's."""
    plain = {name: getattr(one, name) for name in ("id", "label", "host", "user", "version", "since", "state", "seen")}
    return {
        **plain,
        "own": one.own,
        "worktrees": [worktree_data(tree) for tree in one.worktrees],
        "agents": [agent_data(agent) for agent in one.agents],
        "rejected": one.rejected,
        "day": [asdict(work) for work in one.day],
    }


def collision_data(one: Collision) -> dict[str, object]:
    return {
        "left": _named(one.left),
        "right": None if one.right is None else _named(one.right),
        "files": list(one.files),
        "conflicts": None if one.conflicts is None else list(one.conflicts),
        "checked_at": one.checked_at,
    }


def _named(key: Key) -> dict[str, object]:
    return {"host": key.host, "repo": key.repo, "worktree": key.worktree}


def agent_data(agent: Agent) -> dict[str, object]:
    """Return one agent; its key and state are fields of the object itself."""
    truth = agent.truth
    return {
        "id": agent.id,
        "cli": agent.cli,
        "name": agent.name,
        "label": agent.label,
        "host": agent.key.host if agent.key else None,
        "repo": agent.key.repo if agent.key else None,
        "worktree": agent.key.worktree if agent.key else None,
        "state": agent.state,
        "suspended": agent.suspended,
        "since": truth.since,
        "detail": truth.detail,
        "tool": asdict(truth.tool) if truth.tool else None,
        "source": truth.source,
        "confidence": truth.confidence,
        "seen_at": agent.seen_at,
        "ended": truth.ended,
        "group": _group(agent),
        "session": agent.session,
        "run": agent.run,
        "wall": agent.wall,
        "pid": agent.pid,
        "cwd": agent.cwd,
        "claim": agent.claim,
        "claimed_by": agent.claimed_by,
        "facts": {**asdict(agent.facts), "files": list(agent.facts.files)},
        "used": [_evidence_data(one) for one in truth.used],
        "rejected": [{**_evidence_data(one.evidence), "why": one.why} for one in truth.rejected],
    }


# The groups of the lead's view in its first version: `group` in JSON has kept its values.
_GROUPS = {
    state_words.ASKS: "Needs you",
    state_words.INTRUDES: "Needs you",
    state_words.FAILED: "Needs you",
    state_words.LIMITED: "Needs you",
    state_words.DEAD: "Dead",
    state_words.WORKS: "Working",
    state_words.UNKNOWN: "Unknown",
    state_words.DONE: "Done",
}


def _group(agent: Agent) -> str:
    standing = attention.standing(agent)
    if standing in (state_words.FAILED, state_words.LIMITED) and attention.has_ended(agent):
        return "Done"
    return _GROUPS.get(standing, "Idle")


def _evidence_data(one: Evidence) -> dict[str, object]:
    return {**asdict(one), "or_else": sorted(one.or_else)}
