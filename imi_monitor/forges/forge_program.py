"""Runs `gh` or `glab`: outside of every repository, without prompts, within ten seconds; and what a failure means."""

from __future__ import annotations

import json

from imi_monitor import programs
from imi_monitor.git.environment import git_environment
from imi_monitor.git.spawn import spawn
from imi_monitor.model.errors import GitError
from imi_monitor.model.redact import printable_lines, redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.spawn import FinishedProcess

TIMEOUT = 10.0
_CAP = 4 << 20
_NOT_LOGGED_IN = 4  # exit status of gh
_MOST_TEXT = 300
# no prompts and no decoration; the project is passed as an option, not found by the directory
_QUIET = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_PAGER": "cat",
    "GLAB_CHECK_UPDATE": "false",
    "GLAB_NO_PROMPT": "1",
    "GLAB_SEND_TELEMETRY": "false",
    "NO_COLOR": "1",
}
# other targets, debugging, and former names, because of which glab writes a warning in front of its answer
_DROPPED = (
    "GH_REPO",
    "GH_HOST",
    "GH_FORCE_TTY",
    "GH_DEBUG",
    "GITLAB_REPO",
    "DEBUG",
    "GLAB_DEBUG",
    "GLAB_DEBUG_HTTP",
    "CLICOLOR_FORCE",
    "NO_PROMPT",
    "PROMPT_DISABLED",
    "GLAMOUR_STYLE",
)
# codes of ForgeUnavailable
MISSING, LOGIN, OFFLINE, LIMITED, FAILED = "missing", "login", "offline", "limited", "failed"
# parts of messages of gh, glab and Go's network library, in the order of the checks
_MEANINGS = (
    (LIMITED, ("rate limit", "http 429", "429 too many requests", "abuse detection")),
    (LOGIN, ("http 401", "401 unauthorized", "401 {", "bad credentials", "auth login", "token was revoked")),
    (
        OFFLINE,
        (
            "error connecting to",
            "could not resolve host",
            "no such host",
            "dial tcp",
            "dial unix",
            "i/o timeout",
            "connection refused",
            "connection reset",
            "network is unreachable",
            "tls handshake timeout",
        ),
    ),
)


class ForgeUnavailable(Exception):
    """A forge gave no answer; the text is the rest of a sentence that says why. Without a program the text is empty."""

    def __init__(self, why: str, code: str = FAILED) -> None:
        super().__init__(why)
        self.code = code


def call(
    program: str,
    words: Sequence[str],
    host: str,
    cancelled: Callable[[], bool] | None = None,
    *,
    timeout: float = TIMEOUT,
    keep_answer: bool = False,
) -> bytes:
    """The output of `gh` or `glab`; ForgeUnavailable if it fails.

    With `keep_answer`, `data` that it printed counts although it failed, because part of a query may have no result; without
    `data` an error that it printed counts, because glab ends with status 0 all the same.
    """
    path = programs.find(program)
    if path is None:
        raise ForgeUnavailable("", MISSING)
    env = {key: value for key, value in git_environment([]).items() if key not in _DROPPED} | _QUIET
    try:
        done = spawn([path, *words], env=env, cwd="/", timeout=timeout, cap=_CAP, cancelled=cancelled)
    except OSError as error:
        raise ForgeUnavailable(f"{program} cannot be started ({error.strerror})") from error
    if done.cancelled:
        raise GitError("cancelled", code="cancelled")
    if done.timed_out:
        raise ForgeUnavailable(f"{program} did not answer within {timeout:g} s", OFFLINE)
    has_data = keep_answer and b'"data"' in done.stdout
    if done.capped or (not has_data and (done.returncode or (keep_answer and done.stderr))):
        raise _failure(program, host, done)
    return done.stdout


def _failure(program: str, host: str, done: FinishedProcess) -> ForgeUnavailable:
    lines = printable_lines(done.stderr)
    return failure(program, host, lines[0] if lines else f"exit status {done.returncode}", done.returncode)


def failure(program: str, host: str, message: str, status: int = 1) -> ForgeUnavailable:
    """Return what a message of the program or of the forge means."""
    folded = message.casefold()
    code = next((code for code, marks in _MEANINGS if any(mark in folded for mark in marks)), FAILED)
    if code == LOGIN or status == _NOT_LOGGED_IN:
        where = "" if host in ("github.com", "gitlab.com") else f" --hostname {safe(host)}"
        to = f" to {safe(host)}" if where else ""
        return ForgeUnavailable(f"{program} is not logged in{to} (`{program} auth login{where}`)", LOGIN)
    if code == LIMITED:
        return ForgeUnavailable(f"the rate limit of {safe(host)} is used up", LIMITED)
    if code == OFFLINE:
        return ForgeUnavailable(f"{safe(host)} cannot be reached", OFFLINE)
    return ForgeUnavailable(f"{program} failed ({message})")


def parse_json(program: str, answer: bytes) -> dict[str, object]:
    """The JSON object in an answer; ForgeUnavailable if it is none."""
    try:
        tree = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise ForgeUnavailable(f"{program} returned invalid JSON") from error
    if not isinstance(tree, dict):
        raise ForgeUnavailable(f"{program} returned no JSON object")
    return tree


def complaint(tree: dict[str, object]) -> str:
    """The forge's message in an answer without data."""
    said = (text_at(one, "message") for one in [*items_at(tree, "errors"), tree])
    return next(filter(None, said), "")


def value_at(tree: object, *keys: str) -> object:
    """The value below these keys; None if there is none."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def text_at(tree: object, *keys: str) -> str | None:
    """The text below these keys, without secrets; None if it is empty or no text."""
    value = value_at(tree, *keys)
    return redact(value[: 2 * _MOST_TEXT])[:_MOST_TEXT] if isinstance(value, str) and value else None


def flag_at(tree: object, *keys: str) -> bool | None:
    value = value_at(tree, *keys)
    return value if isinstance(value, bool) else None


def items_at(tree: object, *keys: str) -> list[object]:
    value = value_at(tree, *keys)
    return value if isinstance(value, list) else []


def number_at(tree: object, *keys: str) -> int | None:
    """The positive number below these keys; None for anything else."""
    value = value_at(tree, *keys)
    return value if type(value) is int and 0 < value < 1 << 31 else None


def page_at(tree: object, *keys: str) -> str | None:
    """The web address below these keys; None for anything that is no address of a page."""
    url = text_at(tree, *keys)
    return url if url is not None and url.startswith(("https://", "http://")) and url.isprintable() else None
