"""Remotes: which there are, which of them we let git talk to, and what it means when talking to one fails."""

from __future__ import annotations

from imi_monitor.git.refs import check_remote_name
from imi_monitor.git.urls import SCHEMES, url_problem
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.run import Git

# Holds in trusted repositories too, and behind any `insteadOf`: our own check sees only what git tells us beforehand.
ONLY_ALLOWED = {"GIT_ALLOW_PROTOCOL": ":".join(SCHEMES)}

# git's own words, in the order of asking: "could not read from remote" follows a refused key as well as a dead host.
_MEANINGS = (
    ("no-ref", ("couldn't find remote ref", "could not find remote ref", "remote ref does not exist")),
    (
        "auth",
        (
            "Permission denied",
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "Host key verification failed",
            "terminal prompts disabled",
            "returned error: 401",
            "returned error: 403",
        ),
    ),
    (
        "offline",
        (
            "Could not resolve host",
            "Could not resolve proxy",
            "unable to access",
            "unable to connect",
            "unable to look up",
            "Connection refused",
            "Connection timed out",
            "Connection reset",
            "Network is unreachable",
            "No route to host",
            "Could not read from remote repository",
            "does not appear to be a git repository",
            "does not exist",
            "remote end hung up",
            "early EOF",
            "Operation timed out",
            "Temporary failure in name resolution",
        ),
    ),
)


def remotes(git: Git) -> dict[str, str]:
    """The configured remotes and the (first) address written for each."""
    found: dict[str, str] = {}
    for item in git.lines0("config", "--null", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)):
        key, _, url = item.partition("\n")
        found.setdefault(key.removeprefix("remote.").removesuffix(".url"), url)
    return found


def check_remote(git: Git, remote: str, *, push: bool = False) -> list[str]:
    """The addresses git would really use for `remote`, all of a kind we allow; GitError "no-remote" without any."""
    check_remote_name(remote)
    side = ["--push"] if push else []
    try:
        text = git.text("remote", "get-url", *side, "--all", "--", remote)
    except GitError as problem:
        if problem.code != "git":
            raise
        raise GitError(f"there is no remote called {safe(remote)} here", code="no-remote") from problem
    addresses = text.split("\n")
    for address in addresses:
        wrong = url_problem(address)
        if wrong is not None:
            raise Refused(f"the address of the remote {safe(remote)} {wrong}: nothing was run", code="bad-url")
    return addresses


def explained(problem: GitError, remote: str) -> GitError:
    """A failure of fetch or push with what it means as its code: offline, auth or no-ref; others stay as they are."""
    if problem.code == "git-timeout":
        return _as(problem, "offline", f"{safe(remote)} did not answer in time")
    if problem.code != "git":
        return problem
    for code, marks in _MEANINGS:
        for line in problem.stderr.splitlines():
            if any(mark in line for mark in marks):
                return _as(problem, code, f"{safe(remote)}: {line.removeprefix('fatal: ').removeprefix('error: ')}")
    return problem


def _as(problem: GitError, code: str, sentence: str) -> GitError:
    return GitError(sentence, code=code, stderr=problem.stderr, returncode=problem.returncode)
