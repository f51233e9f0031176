"""Commits what is staged in a worktree, and pushes its branch to its own upstream; never with force."""

from __future__ import annotations

from imi_monitor.git.commit_signature import read_signature
from imi_monitor.git.git_merge import committing_settings
from imi_monitor.git.refs import check_branch_name, check_remote_name, resolve
from imi_monitor.git.remotes import ONLY_ALLOWED, check_remote, classify_failure
from imi_monitor.git.update_ref import BARE_PUSH
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_TIMEOUT = 120.0


def commit_staged(git: Git, message: str) -> str:
    """Commit the index and return the commit's id. Hooks run only in a trusted repository."""
    signature = read_signature()
    words = ("commit", "--quiet", signature.option, "--no-status", "--cleanup=strip", "--file=-")
    settings = [*committing_settings(), *signature.settings]
    try:
        git.run(*words, stdin=message.encode("utf-8", "surrogateescape"), timeout=_TIMEOUT, settings=settings)
    except GitError as problem:
        if any(mark in problem.stderr for mark in ("tell me who you are", "auto-detection is disabled", "empty ident")):
            raise GitError(
                'git does not know who you are: run `git config --global user.name "…"` and `… user.email "…"`',
                code="no-identity",
                stderr=problem.stderr,
            ) from problem
        raise signature.failure(problem) from problem
    sha = resolve(git, "HEAD")
    assert sha is not None
    return sha


def upstream_of(git: Git, branch: str) -> tuple[str, str] | None:
    """Return the remote and the branch there that a branch follows; None without an upstream on a remote."""
    found = {}
    for key in ("remote", "merge"):
        done = git.run("config", "--get", f"branch.{branch}.{key}", ok=(0, 1))
        found[key] = done.stdout.decode("utf-8", "surrogateescape").strip()
    if not found["remote"] or found["remote"] == "." or not found["merge"].startswith("refs/heads/"):
        return None
    return check_remote_name(found["remote"]), check_branch_name(found["merge"].removeprefix("refs/heads/"))


def push_branch(git: Git, branch: str, remote: str, there: str, *, set_upstream: bool) -> None:
    """Push a branch; Refused "not-forward" when the remote has commits that it does not have."""
    check_remote(git, remote, push=True)
    spec = f"refs/heads/{check_branch_name(branch)}:refs/heads/{check_branch_name(there)}"
    more = ("--set-upstream",) if set_upstream else ()
    words = ("push", *BARE_PUSH, *more, "--", check_remote_name(remote), spec)
    try:
        done = git.run(*words, ok=(0, 1), timeout=_TIMEOUT, env=ONLY_ALLOWED)
    except GitError as problem:
        raise classify_failure(problem, remote) from problem
    if done.returncode:
        raise _rejected(done.stdout.decode("utf-8", "replace"), branch, f"{safe(remote)}/{safe(there)}")


def _rejected(listing: str, branch: str, where: str) -> Refused:
    """Return why the remote did not take the branch, from git's listing: `! SOURCE:TARGET [rejected] (fetch first)`."""
    line = next((line for line in listing.splitlines() if line.startswith("!")), "")
    reason = safe(line.rpartition("\t")[2] or "no reason given", 200)
    if "non-fast-forward" in reason or "fetch first" in reason:
        return Refused(
            f"{where} has commits that {safe(branch)} does not have: fetch and merge them first; imi never forces a push",
            code="not-forward",
        )
    return Refused(f"{where} did not take {safe(branch)}: {reason}", code="rejected")
