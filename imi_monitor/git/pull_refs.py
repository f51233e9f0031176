"""Pull requests read with git alone: lists and fetches the refs of a remote or fork, and sets where a branch pushes to.

Fetched refs are stored below `refs/remotes/`, where git and imi treat them as published work; not below the remote's own name,
where the next `fetch --prune` would delete them.
"""

from __future__ import annotations

import os
import re
import time

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.refs import check_branch_name, check_ref, check_remote_name
from imi_monitor.git.remotes import (
    ONLY_ALLOWED,
    check_refspec,
    check_remote,
    classify_failure,
    fetch,
    run_fetch,
    url_problem,
)
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.runner import Git

# `refs/remotes/imi/origin/pull/12` is ours; the others come from refspecs that forges' manuals give
_PULL_REF = re.compile(r"/(?:pull|pr|merge-requests|mr)/([1-9][0-9]{0,8})(?:/head)?$")
_FETCHED_FORMAT = "%(refname)%00%(objectname)%00%(contents:subject)%00%(authorname)"
_UPLOAD_PACK = "--upload-pack=git-upload-pack"
_TRIES = 20  # attempts to lock the repository's configuration, which other processes lock briefly too


def local_ref(remote: str, ref: str) -> str:
    """Return the local ref for a ref of the remote: `refs/remotes/imi/origin/pull/12` for origin's `refs/pull/12/head`."""
    return f"refs/remotes/imi/{remote}/{ref.removeprefix('refs/').removesuffix('/head')}"


def list_remote_refs(
    git: Git, where: str, patterns: Sequence[str], *, timeout: float, cancelled: Callable[[], bool] | None = None
) -> dict[str, str]:
    """Return the refs that a remote or address has now, with their ids. `patterns` are refs, or `refs/heads/*`."""
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


@dataclass(frozen=True, slots=True)
class FetchedRef:
    """A pull request whose commits are here, with its last commit."""

    number: int
    sha: str
    subject: str
    author: str


def list_fetched(git: Git) -> list[FetchedRef]:
    """Return the pull requests that imi or the user's refspecs have fetched, the highest number first."""
    text = git.text("for-each-ref", f"--format={_FETCHED_FORMAT}", "--count=1000", "--", "refs/remotes", "refs/pull")
    found: dict[int, FetchedRef] = {}
    for line in text.split("\n"):
        name, sha, subject, author = [*line.split("\0"), "", "", ""][:4]
        match = _PULL_REF.search(name)
        if match is not None:
            number = int(match[1])
            found[number] = FetchedRef(number, sha, redact(subject)[:300], redact(author)[:100])
    return [found[number] for number in sorted(found, reverse=True)]


def fetch_from(
    git: Git,
    where: str,
    refspecs: Sequence[str],
    *,
    timeout: float,
    on_progress: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Fetch from a remote, or from an address without a configured remote."""
    if not _is_address(where):
        return fetch(git, where, refspecs, timeout=timeout, on_progress=on_progress, cancelled=cancelled)
    check_url(git, where)
    wanted = [check_refspec(spec) for spec in refspecs]
    return run_fetch(git, where, wanted, timeout=timeout, on_progress=on_progress, cancelled=cancelled)


def check_url(git: Git, url: str) -> str:
    """Return `url`; Refused unless it, and its form after the user's `insteadOf`, are allowed."""
    for address in (url, git.text("ls-remote", "--get-url", "--", url) if url_problem(url) is None else url):
        wrong = url_problem(address)
        if wrong is not None:
            raise Refused(f"the address {safe(redact(address))} {wrong}: nothing was run", code="bad-url")
    return url


def configure_upstream(git: Git, branch: str, remote: str, merge: str, *, push: bool) -> None:
    """Set the upstream of a branch that we made to `merge` of `remote`; with `push`, `git push` sends there too.

    `remote` is a remote's name or an address.
    """
    section = f"branch.{check_branch_name(branch)}"
    if _is_address(remote):
        check_url(git, remote)
    else:
        check_remote_name(remote)
    _configure(git, f"{section}.remote", remote)
    _configure(git, f"{section}.merge", check_ref(merge))
    # the section may be left from an earlier branch of this name, so its push remote is replaced or deleted
    _configure(git, f"{section}.pushRemote", remote if push else None)


def configured_upstream(git: Git, branch: str) -> tuple[str | None, str | None]:
    """Return the configured (remote, merge) of a branch."""
    section = f"branch.{check_branch_name(branch)}"
    found = (git.text("config", "--get", f"{section}.{key}", ok=(0, 1)) for key in ("remote", "merge"))
    remote, merge = (value or None for value in found)
    return remote, merge


def _configure(git: Git, key: str, value: str | None) -> None:
    """Set a key of the repository's own configuration to one value, or delete it (None)."""
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
    """Return whether this is an address: a remote's name has no colon and is no absolute path."""
    return ":" in where or os.path.isabs(where)
