"""Getting at pull requests by git alone: what a remote (or a fork) offers, fetching it, and where a branch pushes to.

What is fetched goes below `refs/remotes/`, where git and we count it as somebody else's, already published work; not
below a real remote's own name, where the next `fetch --prune` would take it away.
"""

from __future__ import annotations

import os
import time

from imi_monitor.git.refs import check_branch_name, check_ref, check_remote_name
from imi_monitor.git.remotes import ONLY_ALLOWED, check_refspec, check_remote, classify_failure, fetch, url_problem
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.runner import Git

_UPLOAD_PACK = "--upload-pack=git-upload-pack"
_TRIES = 20  # for the lock of the repository's configuration, which others take for a moment too


def local_ref(remote: str, ref: str) -> str:
    """Where we keep a ref of the remote: `refs/pull/12/head` of origin as `refs/remotes/imi/origin/pull/12`."""
    return f"refs/remotes/imi/{remote}/{ref.removeprefix('refs/').removesuffix('/head')}"


def list_remote_refs(
    git: Git, where: str, patterns: Sequence[str], *, timeout: float, cancelled: Callable[[], bool] | None = None
) -> dict[str, str]:
    """The refs that a remote, or what lies at an address, offers now. `patterns` are refs, or `refs/heads/*`."""
    _check_where(git, where)
    for pattern in patterns:
        check_ref(pattern.replace("*", "all"))
    try:
        text = git.text(
            "ls-remote", _UPLOAD_PACK, "--", where, *patterns, timeout=timeout, env=ONLY_ALLOWED, cancelled=cancelled
        )
    except GitError as problem:
        raise classify_failure(problem, redact(where)) from problem
    found = (line.partition("\t") for line in text.split("\n") if "\t" in line)
    return {ref: sha for sha, _, ref in found if is_commit_id(sha)}


def fetch_from(
    git: Git,
    where: str,
    refspecs: Sequence[str],
    *,
    timeout: float,
    on_progress: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """`fetch` from a remote, or from an address that no remote is configured for."""
    if not _is_address(where):
        return fetch(git, where, refspecs, timeout=timeout, on_progress=on_progress, cancelled=cancelled)
    check_url(git, where)
    try:
        git.run(
            "fetch",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--no-write-fetch-head",
            "--no-write-commit-graph",
            _UPLOAD_PACK,
            "--progress",
            "--",
            where,
            *map(check_refspec, refspecs),
            timeout=timeout,
            env=ONLY_ALLOWED,
            on_progress=on_progress,
            cancelled=cancelled,
        )
    except GitError as problem:
        raise classify_failure(problem, redact(where)) from problem
    return None


def check_url(git: Git, url: str) -> str:
    """`url` itself if it, and what the user's `insteadOf` makes of it, is of a kind we let git talk to."""
    for address in (url, git.text("ls-remote", "--get-url", "--", url) if url_problem(url) is None else url):
        wrong = url_problem(address)
        if wrong is not None:
            raise Refused(f"the address {safe(redact(address))} {wrong}: nothing was run", code="bad-url")
    return url


def configure_upstream(git: Git, branch: str, remote: str, merge: str, *, push: bool) -> None:
    """Let `git pull` in `branch` take from `merge` of `remote` and, with `push`, `git push` send there.

    `remote` is a remote's name or an address; these are settings of a branch of our own making.
    """
    section = f"branch.{check_branch_name(branch)}"
    if _is_address(remote):
        check_url(git, remote)
    else:
        check_remote_name(remote)
    _configure(git, f"{section}.remote", remote)
    _configure(git, f"{section}.merge", check_ref(merge))
    # the section may be that of an earlier branch of this name: what it said about pushing must not survive
    _configure(git, f"{section}.pushRemote", remote if push else None)


def configured_upstream(git: Git, branch: str) -> tuple[str | None, str | None]:
    """(remote, merge) as they are configured for a branch."""
    section = f"branch.{check_branch_name(branch)}"
    found = (git.text("config", "--get", f"{section}.{key}", ok=(0, 1)) for key in ("remote", "merge"))
    remote, merge = (value or None for value in found)
    return remote, merge


def _configure(git: Git, key: str, value: str | None) -> None:
    """Set a key of the repository's own configuration to this one value, or take it out."""
    words = ["--unset-all", "--", key] if value is None else ["--replace-all", "--", key, value]
    for attempt in range(_TRIES):
        try:
            git.run("config", "--local", *words, ok=(0, 5) if value is None else (0,))
            return
        except GitError as problem:
            if "could not lock config file" not in problem.stderr or attempt == _TRIES - 1:
                raise
            time.sleep(0.05)


def _check_where(git: Git, where: str) -> None:
    if _is_address(where):
        check_url(git, where)
    else:
        check_remote(git, check_remote_name(where))


def _is_address(where: str) -> bool:
    """A remote's name never holds a colon, nor starts at the root."""
    return ":" in where or os.path.isabs(where)
