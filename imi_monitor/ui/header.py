"""The header: the repository, counts of what needs attention, and badges (paused, read-only, stale …) with the clock.

A click on a count filters the list; a click on a badge runs its command. All of it is also on keys.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from textual.content import Content
from textual.style import Style

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.installation import RESTART
from imi_monitor.model import amounts, sink_words, times
from imi_monitor.model.agent import WORKING
from imi_monitor.model.snapshot import NEWER, UNKNOWN_CLAIM, Worktree
from imi_monitor.model.state_words import ASKS, DEAD, FAILED, INTRUDES, SUSPENDED, WORKS, counted
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, key_hints
from imi_monitor.ui.snapshot_facts import SnapshotFacts, parse_time

_LABEL = 20  # cells of a host in a badge


@dataclass(frozen=True, slots=True)
class HeaderBadges:
    """The dashboard's own state, as shown at the right end of the header."""

    paused: bool = False
    read_only: bool = False
    interval: float = 1.0
    marked: int = 0
    default_interval: float = 1.0  # the badge is shown for another one


def line(facts: SnapshotFacts | None, badges: HeaderBadges, width: int, now: datetime) -> Content:
    """Return exactly `width` cells: counts on the left, badges and the clock on the right."""
    right = Content("").join(_right(facts, badges, width, now))
    left = _left(facts, max(6, width - right.cell_length - 1))
    return left.pad_right(max(0, width - left.cell_length - right.cell_length)).append(right)


def lasts_until(facts: SnapshotFacts | None, now: datetime) -> datetime:
    """Return when the header or the trouble line changes by the passing of time alone."""
    ends = [now.replace(second=0, microsecond=0) + timedelta(minutes=1)]  # the clock
    if facts is not None:
        troubled = (parse_time(since) for since, _, _ in troubles(facts))
        ends += [
            now + timedelta(seconds=times.seconds_until_age_changes((now - at).total_seconds()))
            for at in troubled
            if at
        ]
        ends += [facts.now + timedelta(seconds=min(facts.busy_ends))] if facts.busy_ends else []
    return min(ends)


def _left(facts: SnapshotFacts | None, room: int) -> Content:
    head = Content.styled(" imi ", "bold $primary")
    if facts is None or not facts.snapshot.repositories:
        return head.append(Content.styled(f" {_why_nothing(facts)}", cells.MUTED))
    parts = [head, Content.styled(f" {_where(facts)}", "bold")]
    for text, style, click in _counts(facts):
        part = Content.styled(" · ", cells.MUTED).append(_clickable(text, style, click))
        if sum(one.cell_length for one in parts) + part.cell_length > room:
            break
        parts.append(part)
    return Content("").join(parts).truncate(room, ellipsis=True)


def _why_nothing(facts: SnapshotFacts | None) -> str:
    """Return why no repository is shown: not read yet, not readable, or without a worktree."""
    if facts is not None and facts.snapshot.has_read("worktrees"):
        return "no worktree yet"
    return "looking…" if facts is None or not troubles(facts) else "nothing can be read"


def _where(facts: SnapshotFacts) -> str:
    repos = facts.snapshot.repositories
    return safe(facts.names.shown(repos[0])) if len(repos) == 1 else count(len(repos), "repository", "repositories")


def _counts(facts: SnapshotFacts) -> list[tuple[str, str, str]]:
    """Return (text, colour, filter set by a click): the number of worktrees, then the most urgent first."""
    trees, agents = [tree for tree in facts.snapshot.worktrees if tree.run is None], facts.standings
    alone = [tree.run for tree in facts.snapshot.worktrees if tree.run is not None]
    watched = sum(one.origin is not None for one in alone)
    started = sum(one.key is None for one in facts.snapshot.runs)  # several can share a row
    states = [facts.claim_state(tree) for tree in trees]
    collisions = sum(bool(one.conflicts) for one in facts.snapshot.collisions)
    dead = agents[DEAD] + sum(
        state == "dead" and not _death_seen(facts, tree) for state, tree in zip(states, trees, strict=True)
    )
    homes = len(facts.other_homes) + 1 if facts.other_homes else 0
    working = sum(one.state in WORKING and not one.suspended for found in facts.agents.values() for one in found)
    suspended = agents[SUSPENDED]
    missing = sum(tree.missing for tree in trees)
    busy = 0 if working else len(facts.busy_ends)
    unknown = sum(facts.claim_state(tree) == UNKNOWN_CLAIM and facts.home_of(tree) is None for tree in trees)
    claimed = len(trees) - states.count("free") - states.count(UNKNOWN_CLAIM)
    told = [
        (len(trees), count(len(trees), "worktree"), "", ""),
        (homes, f"{homes} hosts", "", ""),
        (started, count(started, "run"), "", "type:run"),
        (watched, f"{watched} watched", "", "type:watched"),
        (agents[ASKS], counted(agents[ASKS], ASKS), "$agent-asks bold", "is:asks"),
        (agents[INTRUDES], counted(agents[INTRUDES], INTRUDES), "$agent-intrudes bold", "is:intrudes"),
        (collisions, count(collisions, "collision"), "$collision bold", "is:collides"),
        (agents[FAILED], counted(agents[FAILED], FAILED), "$agent-failed", "is:failed"),
        (dead, counted(dead, DEAD), "$agent-dead", "is:dead"),
        (unknown, "claims unknown", "$warning", "is:claimed"),
        (states.count("stale"), f"{states.count('stale')} stale", "$claim-stale", "is:stale"),
        (suspended, counted(suspended, SUSPENDED), "$agent-suspended", "is:suspended"),
        (missing, f"{missing} missing", "$missing", "is:missing"),
        (working, counted(working, WORKS), "$agent-works", "is:works"),
        (busy, f"{busy} changing", "$accent", "is:changing"),
        (claimed, f"{claimed} claimed", "", "is:claimed"),
        (len(facts.snapshot.waiting), f"{len(facts.snapshot.waiting)} in line", "", ""),
    ]
    lines = [(text, style, click) for number, text, style, click in told if number]
    if not facts.snapshot.complete:
        lines.insert(1, ("waiting for git…", cells.MUTED, ""))
    return lines


def _death_seen(facts: SnapshotFacts, tree: Worktree) -> bool:
    """Whether the dead holder is already counted as a dead agent."""
    return facts.has_agent(tree, DEAD)


def _right(facts: SnapshotFacts | None, badges: HeaderBadges, width: int, now: datetime) -> list[Content]:
    parts: list[Content] = []
    if badges.marked:
        parts.append(_badge(f"▌{badges.marked} marked", "bold $accent", "app.do('mark_all')"))
    if badges.read_only:
        parts.append(_badge("read-only", "bold $warning", "app.do('help')"))
    if badges.paused:
        parts.append(_badge("⏸ paused", "reverse bold", "app.do('pause')"))
    if facts is not None and any(why.endswith(RESTART) for _, _, why in troubles(facts)):
        parts.append(_badge(RESTART, "reverse bold $warning", "app.do('trouble')"))
    stale = stale_age(facts) if facts else ""
    if stale:
        parts.append(_badge(f"stale {stale}", "bold $error", "app.do('trouble')"))
    if facts is not None and (waiting := sink_badge(facts, now)):
        parts.append(_badge(waiting, "bold $warning", "app.do('trouble')"))
    if facts is not None and (newer := newer_badge(facts)):
        parts.append(_badge(newer, "bold $warning", "app.do('hosts')"))
    if badges.interval != badges.default_interval:
        parts.append(_badge(f"every {badges.interval:g}s", cells.MUTED, "app.do('refresh')"))
    if width >= 50:
        parts.append(_badge(now.astimezone().strftime("%H:%M"), cells.MUTED, "app.do('palette')"))
    return parts


def _badge(text: str, style: str, action: str) -> Content:
    return Content.styled(f" {text} ", style).stylize(Style.from_meta({"@click": action}))


def _clickable(text: str, style: str, filter_: str) -> Content:
    shown = Content.styled(text, style) if style else Content(text)
    return shown.stylize(Style.from_meta({"@click": f"screen.narrow('{filter_}')"})) if filter_ else shown


def troubles(facts: SnapshotFacts) -> list[tuple[str, str, str]]:
    """Return (since, what, why) of everything that cannot be read, oldest first."""
    found = [one.failure for one in facts.snapshot.health if one.failure is not None]
    lines = [(one.since, safe(one.what), safe(key_hints.in_keys(one.why), 300)) for one in found]
    lines += [
        (
            tree.failure.since,
            f"{safe(tree.failure.what)} of {safe(tree.key.worktree)}",
            safe(key_hints.in_keys(tree.failure.why), 300),
        )
        for tree in facts.snapshot.worktrees
        if tree.failure is not None and not tree.missing
    ]
    return sorted(lines)


def sink_badge(facts: SnapshotFacts, now: datetime) -> str:
    """Return `RabbitMQ ⇡3,204` for the sink that is farthest behind; empty while none needs attention."""
    found = [one for one in facts.snapshot.sinks if sink_words.needs_attention(one, now)]
    if not found:
        return ""
    worst = max(found, key=lambda one: (one.backlog, one.parked + one.dropped))
    what = f"⇡{amounts.count(worst.backlog)}" if worst.backlog else "!"
    return f"{sink_words.name(worst.name)} {what}" + (f" +{len(found) - 1}" if len(found) > 1 else "")


def newer_badge(facts: SnapshotFacts) -> str:
    """Return `newer imi: build-1` for the homes whose rows this version cannot read; empty if there are none."""
    newer = [one.label for one in facts.snapshot.homes if one.state == NEWER]
    return f"newer imi: {safe(newer[0], _LABEL) if len(newer) == 1 else count(len(newer), 'host')}" if newer else ""


def stale_age(facts: SnapshotFacts) -> str:
    """Return how long the oldest failure has lasted; empty if there is none."""
    since = troubles(facts)
    return times.age_of(since[0][0], facts.now) if since else ""


def trouble_line(facts: SnapshotFacts, width: int) -> Content:
    """Return the line below the header about the oldest failure; empty if there is none."""
    found = troubles(facts)
    if not found:
        return Content("")
    since, what, why = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    text = f" ? {what} for {times.age_of(since, facts.now)}: {why}{more}"
    return Content.styled(cells.fit(text, width), "$error").stylize(Style.from_meta({"@click": "app.do('trouble')"}))
