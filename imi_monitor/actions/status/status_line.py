"""`imi status --line`: one short line for the bar of a multiplexer or a prompt, from the registry and git's files alone.

A bar calls it every few seconds, so it runs no git process. A prompt may expand what it gets, so names keep their letters,
digits and a few signs only; `--json` has them as they are.
"""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.model import state_words, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from imi_monitor.actions.context import Context

_SIGNS = frozenset("-_./@+:, ")  # no shell, prompt or multiplexer expands these
_ORDER = ("asks", "failed", "dead", "works")
_BETWEEN = " · "


def status_line(context: Context) -> Outcome:
    """The worktree around the caller with its owner, the number of worktrees and claims, and agents by state.

    Outside of a repository it counts those of the registry; with none there it is empty. An unknown number is `?`.
    """
    from imi_monitor.actions import worktree_lookup
    from imi_monitor.store import claims

    here = context.find_repository()
    among = [here] if here is not None else worktree_lookup.known_repositories(context)
    targets = [target for repository in among for target in worktree_lookup.list_worktrees(context, repository)]
    place = context.place() if here is not None else None
    around = next((one.name for one in targets if place is not None and one.path == place.path), None)
    repo = context.repo_name(here) if here is not None else None
    known = context.registry_problem is None
    # an unregistered repository has no claims
    held = claims.list_held(context.connection, repo) if known and (here is None or repo is not None) else []
    agents = _count_agents(context, repo) if known else None
    owner = next((one.agent_id for one in held if one.worktree_name == around and here is not None), None)
    data: dict[str, object] = {
        "repo": repo,
        "worktree_name": around,
        "agent_id": owner,
        "worktrees": len(targets),
        "claimed": len(held) if known else None,
        "agents": agents,
    }
    line = _BETWEEN.join(_parts(data, agents)) if targets else ""
    return Outcome([line], {"line": line, **data})


def _count_agents(context: Context, repo: str | None) -> dict[str, int] | None:
    """How many agents are in each state, as recorded; None while no dashboard and no `imi watch` records them."""
    from imi_monitor import host
    from imi_monitor.store import db, live_sessions

    living, recording = db.read(context.connection, live_sessions.list_living, host.hostname(), times.now())
    found = [str(one["state"]) for (name, _), rows in living.items() if repo in (None, name) for one in rows]
    words = [word if (word := state_words.of_status(state)) in _ORDER else state for state in found]
    return {word: words.count(word) for word in dict.fromkeys(words)} if recording else None


def _parts(data: dict[str, object], agents: dict[str, int] | None) -> Iterable[str]:
    if data["worktree_name"] is not None:
        owner = f" {_plain(str(data['agent_id']))}" if data["agent_id"] is not None else ""
        yield _plain(str(data["worktree_name"])) + owner
    yield f"{data['worktrees']} worktree{'' if data['worktrees'] == 1 else 's'}"
    if data["claimed"] != 0:
        yield f"{'?' if data['claimed'] is None else data['claimed']} claimed"
    if agents is None:
        yield "agents ?"
        return
    yield from (state_words.counted(agents[word], word) for word in _ORDER if word in agents)


def _plain(name: str) -> str:
    """The name without what a prompt, a shell or a multiplexer could expand."""
    return "".join(sign if sign.isalnum() or sign in _SIGNS else "_" for sign in name[:60])
