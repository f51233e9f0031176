"""Asking the remote before a branch starts: only for the refs in question, and never so that being offline is a failure."""

from __future__ import annotations

import os
import time

from imi_monitor.git import heads, layout
from imi_monitor.model import names, times
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.git.heads import Heads
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.run import Git


class News:
    """What is known after asking: `fresh` if the remote answered, else `why` not (None: it was not to be asked)."""

    __slots__ = ("fresh", "heads", "why")

    def __init__(self, known: Heads, fresh: bool, why: str | None = None) -> None:
        self.heads = known
        self.fresh = fresh
        self.why = why

    def warnings(self, git: Git, remote: str, branch: str) -> list[str]:
        """That, and how old what we have is."""
        if self.why is None:
            return []
        heard = _last_heard(git.common_dir, remote, branch)
        age = f", last fetched {times.age(max(0.0, time.time() - heard))} ago" if heard else ""
        return [f"could not fetch ({self.why}): used {safe(branch)} as it is here{age}"]


def remote_name(context: Context) -> str:
    """The remote that new branches start from, checked: the setting may come from a file of the cluster."""
    remote = context.settings.text("git_settings.remote_name")
    problem = names.branch_problem(remote)
    if problem:
        raise UsageError(f"git_settings.remote_name {safe(remote)!r} {problem}", code="bad-setting")
    return remote


def ask(
    context: Context,
    git: Git,
    repository: Repository,
    known: Heads,
    remote: str,
    branches: list[str],
    perhaps: str | None = None,
) -> News:
    """Bring the remote-tracking refs of `branches` up to date, and that of `perhaps` if the remote has such a branch."""
    url = layout.remote_url(repository, remote)
    if not url or not context.settings.flag("git_settings.auto_fetch"):
        return News(known, False)
    asked = [*branches, *([perhaps] if perhaps else [])]
    if _up_to_date(url, asked, known):
        return News(known, True)
    context.progress(f"fetching {', '.join(map(safe, asked))} from {safe(remote)}")
    specs = [f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}" for branch in branches]
    if perhaps:  # as a pattern it may be missing on the other side without being an error
        specs.append(f"+refs/heads/{perhaps}*:refs/remotes/{remote}/{perhaps}*")
    why = _fetch(context, git, remote, specs)
    return News(heads.read(git, remote), why is None, why)


def _fetch(context: Context, git: Git, remote: str, specs: list[str]) -> str | None:
    """None if it worked, else why not."""
    from imi_monitor.git import fetch

    seconds = max(1, context.settings.number("git_settings.fetch_timeout_seconds"))
    try:
        fetch.fetch(git, remote, specs, timeout=seconds, on_progress=context.progress, cancelled=context.cancelled)
    except (GitError, Refused) as problem:
        if problem.code == "cancelled":
            raise
        return problem.sentence
    return None


def _up_to_date(url: str, branches: list[str], known: Heads) -> bool:
    """Whether a remote on this disk has nothing new, told by a look at its refs: a fetch would cost more than the rest."""
    path = url.removeprefix("file://")
    if not os.path.isabs(path):
        return False
    inner = os.path.join(path, ".git")
    common_dir = inner if os.path.isdir(inner) else path
    if not os.path.isfile(os.path.join(common_dir, "HEAD")) or os.path.isdir(os.path.join(common_dir, "reftable")):
        return False
    return all(layout.read_ref(common_dir, f"refs/heads/{branch}") == known.remote.get(branch) for branch in branches)


def _last_heard(common_dir: str, remote: str, branch: str) -> float | None:
    found = []
    for name in ("FETCH_HEAD", f"refs/remotes/{remote}/{branch}", f"logs/refs/remotes/{remote}/{branch}"):
        try:
            found.append(os.stat(os.path.join(common_dir, name)).st_mtime)
        except OSError:
            continue  # packed, or never fetched: the others may tell
    return max(found, default=None)
