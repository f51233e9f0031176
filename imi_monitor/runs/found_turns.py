"""The last turn of an agent that imi did not start, found in what its program left: no imi has to have run during the turn."""

from __future__ import annotations

import os

from imi_monitor.git import turn_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from imi_monitor.git.runner import Git
    from imi_monitor.model.agent import Agent
    from imi_monitor.model.agent_names import GivenName
    from imi_monitor.model.snapshot import Key
    from imi_monitor.model.turn_files import TurnFiles


def keep_last(git: Git, key: Key, given_names: Callable[[Sequence[Agent]], Mapping[str, GivenName]]) -> bool:
    """Rebuild the files at the beginning of the last turn in git's worktree; False without one that is not kept already.

    Turns of sessions that ended more than a day ago are not found.
    """
    from imi_monitor.sources.agents import agent_poll, turn_records

    if git.work_tree is None:
        return False
    found = agent_poll.read_agents_at({os.path.realpath(git.work_tree): key}, given_names)
    turns = [(one.facts.turn_at, one) for one in found if one.key == key and one.facts.turn_at is not None]
    if not turns:
        return False
    began, agent = max(turns, key=lambda each: each[0])

    def recorded() -> TurnFiles:
        return turn_records.read_files(agent.cli, agent.session, agent.cwd, began)

    before = turn_start.read(git.admin_dir)
    earlier = before.began_at if before is not None and before.rebuilt else None  # by the same records: exact
    return turn_start.keep_turn(git, agent.id, agent.name, began, earlier, recorded)
