"""Turns of agents that imi started: the files of a worktree are kept as they are when a turn begins there.

The follower does it, which runs as long as such an agent; so the diff of its last turn needs no dashboard.
"""

from __future__ import annotations

import threading

from imi_monitor.git import layout, turn_start
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from imi_monitor.runs.run_ingest import FollowedRun
    from imi_monitor.store.runs import RunRow


class RunTurns:
    """Keeps the files in a thread, one worktree after the other: git must not hold up the following."""

    def __init__(self) -> None:
        self._turns: dict[int, str | None] = {}  # seq of the run -> when its present turn began; None: it is in none
        self._seen: dict[int, str] = {}  # when the last turn began whose files were to be kept
        self._positions: dict[int, int] = {}  # seq of the run -> the place in its output at the last call
        self._one_at_a_time = threading.Lock()

    def look(self, followed: Iterable[FollowedRun]) -> None:
        """Keep the files of each worktree in which a turn has begun since the last call."""
        for one in followed:
            if one.row.worktree_name is None or self._positions.get(one.row.seq) == one.position:
                continue
            self._positions[one.row.seq] = one.position
            before = self._turns.get(one.row.seq)
            began = _turn_of(one, before)
            self._turns[one.row.seq] = began
            if began is not None and began != before:
                session = one.reader.session or one.row.session or one.row.id
                words = (one.row, f"{one.row.program}:{session}", began, self._seen.get(one.row.seq))
                self._seen[one.row.seq] = began
                threading.Thread(target=self._keep, args=words, daemon=True, name="turn").start()

    def _keep(self, row: RunRow, agent: str, began: str, earlier: str | None) -> None:
        with self._one_at_a_time:
            try:
                place = layout.discover(row.cwd)
                if place is not None:
                    git = Git(place.repository.common_dir, place.admin_dir, row.cwd)
                    turn_start.keep_turn(git, agent, row.agent_id, began, earlier)
            except (ImiError, OSError):
                return  # `imi diff --turn` says that nothing is kept


def _turn_of(one: FollowedRun, before: str | None) -> str | None:
    """When the agent's present turn began: as its program reports it, else when it was seen."""
    if one.reader.turn_over or one.reader.state is None:
        return None
    return one.reader.facts.turn_at or before or times.stamp()
