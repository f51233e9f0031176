"""Fetching: the only time we go to the network on behalf of a repository."""

from __future__ import annotations

from imi_monitor.git.refs import check_ref, check_remote_name
from imi_monitor.git.remotes import ONLY_ALLOWED, check_remote, explained
from imi_monitor.model.errors import GitError, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.run import Git

# Nothing but the refs asked for may change: no tags, no pruning, and an empty --refmap, because the configured refspecs
# of a repository may say `+refs/heads/*:refs/heads/*`, which throws local commits away.
_ONLY_WHAT_WAS_ASKED = (
    "--refmap=",
    "--no-tags",
    "--no-prune",
    "--no-prune-tags",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--no-write-fetch-head",
    "--no-write-commit-graph",
    "--upload-pack=git-upload-pack",
    "--progress",
)


def fetch(
    git: Git,
    remote: str,
    refspecs: Sequence[str] = (),
    *,
    timeout: float = 120.0,
    on_progress: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Fetch `refspecs` (none: all branches). GitError codes: no-remote, offline, auth, no-ref, cancelled."""
    check_remote_name(remote)
    wanted = [check_refspec(spec) for spec in refspecs] or [f"+refs/heads/*:refs/remotes/{remote}/*"]
    check_remote(git, remote)
    try:
        git.run(
            "fetch",
            *_ONLY_WHAT_WAS_ASKED,
            "--",
            remote,
            *wanted,
            timeout=timeout,
            env=ONLY_ALLOWED,
            on_progress=on_progress,
            cancelled=cancelled,
        )
    except GitError as problem:
        raise explained(problem, remote) from problem


def check_refspec(spec: str) -> str:
    """`spec` itself if both its sides are full refs and it cannot overwrite a local branch."""
    forced, (source, colon, target) = spec.startswith("+"), spec.removeprefix("+").partition(":")
    if source.count("*") > 1 or (colon and source.count("*") != target.count("*")):
        raise UsageError(f"the refspec {safe(spec, 80)} must have one * on each side, or none", code="bad-name")
    for side in (source, target) if colon else (source,):
        check_ref(side.replace("*", "all"))
    if forced and not target.startswith(("refs/remotes/", "refs/imi/")):
        raise UsageError(f"the refspec {safe(spec, 80)} would overwrite local refs", code="bad-name")
    return spec
