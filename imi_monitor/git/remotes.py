"""Remotes: which addresses are allowed, fetching from them, and what a failure means.

An address can name a program (`ext::sh -c …`) or be read as an option; such addresses are refused.
"""

from __future__ import annotations

from imi_monitor.git.refs import check_ref, check_remote_name
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.runner import Git


SCHEMES = ("https", "ssh", "git", "file")


def url_problem(url: str) -> str | None:
    """Return what is wrong with an address, as the end of a sentence that starts with it; None for a valid one."""
    if not url:
        return "is empty"
    if url.startswith("-"):
        return "starts with a dash, which git would read as an option"
    if not url.isprintable():
        return "contains control or invisible characters"
    helper, double, _ = url.partition("::")
    if double and all(char.isalnum() or char in "+-." for char in helper):
        return f"would start the program git-remote-{helper}"
    scheme, mark, rest = url.partition("://")
    if mark:
        return _scheme_problem(scheme.lower(), rest)
    head, colon, _ = url.partition(":")
    if colon and "/" not in head and _host(head).startswith("-"):
        return "names a host that ssh would read as an option"
    return None


def _scheme_problem(scheme: str, rest: str) -> str | None:
    if scheme not in SCHEMES:
        return f"uses {scheme}://, and only https, ssh, git and file are allowed"
    authority = rest.partition("/")[0]
    if scheme != "file" and (not authority or _host(authority).startswith("-")):
        return "names no proper host"
    return None


def _host(authority: str) -> str:
    return authority.rpartition("@")[2]


# Also for trusted repositories and behind any `insteadOf`: our own check sees only the address git reports beforehand.
ONLY_ALLOWED = {"GIT_ALLOW_PROTOCOL": ":".join(SCHEMES)}

# Parts of git's messages, in the order of the checks: "could not read from remote" also follows a refused key.
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
    """Return the configured remotes and the first address of each."""
    found: dict[str, str] = {}
    for item in git.lines0("config", "--null", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)):
        key, _, url = item.partition("\n")
        found.setdefault(key.removeprefix("remote.").removesuffix(".url"), url)
    return found


def check_remote(git: Git, remote: str, *, push: bool = False) -> list[str]:
    """Return the addresses git uses for `remote`; Refused if one is not allowed, GitError "no-remote" without any."""
    check_remote_name(remote)
    side = ["--push"] if push else []
    try:
        text = git.text("remote", "get-url", *side, "--all", "--", remote)
    except GitError as problem:
        if problem.code != "git":
            raise
        raise GitError(f"there is no remote {safe(remote)} here", code="no-remote") from problem
    addresses = text.split("\n")
    for address in addresses:
        wrong = url_problem(address)
        if wrong is not None:
            raise Refused(f"the address of the remote {safe(remote)} {wrong}: nothing was run", code="bad-url")
    return addresses


def classify_failure(problem: GitError, remote: str) -> GitError:
    """Return a failure of fetch or push with its meaning as its code: offline, auth or no-ref; others unchanged."""
    if problem.code == "git-timeout":
        return _with_code(problem, "offline", f"{safe(remote)} did not answer in time")
    if problem.code != "git":
        return problem
    for code, marks in _MEANINGS:
        for line in problem.stderr.splitlines():
            if any(mark in line for mark in marks):
                reason = line.removeprefix("fatal: ").removeprefix("error: ")
                return _with_code(problem, code, f"{safe(remote)}: {reason}")
    return problem


def _with_code(problem: GitError, code: str, sentence: str) -> GitError:
    return GitError(sentence, code=code, stderr=problem.stderr, returncode=problem.returncode)


# Only the requested refs may change: no tags, no pruning, and an empty --refmap, because the configured refspecs of a
# repository may be `+refs/heads/*:refs/heads/*`, which discards local commits.
_ONLY_REQUESTED_REFS = (
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
    run_fetch(git, remote, wanted, timeout=timeout, on_progress=on_progress, cancelled=cancelled)


def run_fetch(
    git: Git,
    where: str,
    refspecs: Sequence[str],
    *,
    timeout: float,
    on_progress: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Fetch checked `refspecs` from a checked remote or address."""
    from imi_monitor.model.redact import redact

    words = ("fetch", *_ONLY_REQUESTED_REFS, "--", where, *refspecs)
    try:
        git.run(*words, timeout=timeout, env=ONLY_ALLOWED, on_progress=on_progress, cancelled=cancelled)
    except GitError as problem:
        raise classify_failure(problem, redact(where)) from problem


def check_refspec(spec: str) -> str:
    """Return `spec`; UsageError unless both sides are full refs and it cannot overwrite a local branch."""
    forced, (source, colon, target) = spec.startswith("+"), spec.removeprefix("+").partition(":")
    if source.count("*") > 1 or (colon and source.count("*") != target.count("*")):
        raise UsageError(f"the refspec {safe(spec, 80)} must have one * on each side, or none", code="bad-name")
    for side in (source, target) if colon else (source,):
        check_ref(side.replace("*", "all"))
    if forced and not target.startswith(("refs/remotes/", "refs/imi/")):
        raise UsageError(f"the refspec {safe(spec, 80)} would overwrite local refs", code="bad-name")
    return spec
