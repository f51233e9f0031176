"""Which addresses we let git talk to. A URL can name a program (`ext::sh -c …`) or be an option: those never pass.

Remotes: which there are, which of them we let git talk to, and what it means when talking to one fails.

Fetching: the only time we go to the network on behalf of a repository.
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
    """What is wrong with an address, as the end of a sentence that starts with it; None for a good one."""
    if not url:
        return "is empty"
    if url.startswith("-"):
        return "starts with a dash, which git would read as an option"
    if not url.isprintable():
        return "holds control or invisible characters"
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


def classify_failure(problem: GitError, remote: str) -> GitError:
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
        raise classify_failure(problem, remote) from problem


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
