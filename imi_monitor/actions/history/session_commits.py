"""Number of commits of an agent in a worktree: those of its branch made while the agent held the claim.

None: unknown. Without a claim a commit has no known agent, and a branch that is deleted or merged has no commits of its
own.
"""

from __future__ import annotations

import os

from imi_monitor.git.gitpython_commits import recent_commits
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.store import claim_history, db, repositories, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.model.commit import Commit
    from imi_monitor.store.claim_history import ClaimGrant

_MOST = 500
_MOST_GRANTS = 1000


class CommitCounts:
    """Counts commits for one `imi stats`; each branch is read once."""

    def __init__(self, context: Context, since: str) -> None:
        self._context = context
        self._since = since
        self._dirs = repositories.list_common_dirs(context.connection)
        self._read: dict[tuple[str, str], list[Commit] | None] = {}

    def count(self, repo_name: str | None, worktree_name: str | None, agent: str) -> int | None:
        if repo_name is None or worktree_name is None or repo_name not in self._dirs:
            return None
        given = db.read(self._context.connection, claim_history.list_grants, repo_name, worktree_name, _MOST_GRANTS)
        held = [grant for grant in given if grant.agent_id == agent]
        if not held:
            return None
        row = worktrees.get(self._context.connection, repo_name, worktree_name)
        if row is None or not row.branch:
            return None
        own = self._own(repo_name, row.branch, min(grant.claimed_at for grant in held))
        if own is None:
            return None
        return sum(any(_covers(grant, commit.at) for grant in held) for commit in own)

    def _own(self, repo_name: str, branch: str, begun: str) -> list[Commit] | None:
        """The branch's own commits since `begun`; None when they cannot be distinguished from the trunk's."""
        trunk = next(
            (
                row.default_branch
                for row in repositories.list_repositories(self._context.connection)
                if row.name == repo_name
            ),
            "",
        )
        mine, theirs = self._log(repo_name, branch), self._log(repo_name, trunk)
        if mine is None or theirs is None:
            return None
        shared = {commit.sha for commit in theirs}
        own = [commit for commit in mine if commit.sha not in shared]
        since_then = [commit for commit in own if commit.at >= self._since[:19]]
        if len(mine) == _MOST and len(since_then) == len(own):
            return None  # the log is longer than what was read
        # no own commits: none yet if the last commit is older than the first claim, else the branch was merged
        merged = not own and bool(mine) and mine[0].at[:19] >= begun[:19]
        return None if merged else since_then

    def _log(self, repo_name: str, branch: str) -> list[Commit] | None:
        key = (repo_name, branch)
        if key not in self._read:
            self._read[key] = self._read_log(self._dirs[repo_name], branch)
        return self._read[key]

    def _read_log(self, common_dir: str, branch: str) -> list[Commit] | None:
        if not branch or not os.path.isdir(common_dir):
            return None
        try:
            return recent_commits(common_dir, f"refs/heads/{branch}", _MOST)
        except (ImiError, OSError):
            return None


def _covers(grant: ClaimGrant, when: str) -> bool:
    """True if the claim was held at `when`; git stores whole seconds."""
    at, begun, ended = times.parse(when), times.parse(grant.claimed_at), times.parse(grant.released_at)
    if at is None or begun is None:
        return False
    early = (begun - at).total_seconds() < 1
    return early and (grant.released_at is None or (ended is not None and at <= ended))
