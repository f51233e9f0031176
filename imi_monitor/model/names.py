"""Rules for the names of worktrees (`feat-x`), branches (`feat/x`) and agents.

The hot commands use them, so they need no `re`. Every `*_problem` returns None for a valid name, else the end of a sentence
that starts with the name.
"""

from __future__ import annotations

MOST_NAME = 100  # with a prefix and a template around it, still a valid file name everywhere
MOST_BRANCH_BYTES = 200
RESERVED = ("sync", ".iMi", ".git", "trunk", "HEAD")
OURS = "imi:"  # prefix of owners that are imi itself, such as a removal under way
REVIEW_PREFIXES = ("review-", "pr-review-", "pr-")
_FORBIDDEN = frozenset(" ~^:?*[\\")


def name_problem(name: str) -> str | None:
    """Return what is wrong with the NAME part of a new worktree."""
    if not name:
        return "is empty: give it a name such as user-auth"
    if len(name) > MOST_NAME:
        return f"is {len(name)} characters long: at most {MOST_NAME}"
    if name.startswith("-"):
        return "starts with a dash, which commands would read as an option"
    if "/" in name or "\\" in name:
        return "contains a separator: use dashes, as in user-auth"
    if name in RESERVED:
        return "is reserved"
    if not name.isascii():
        return "contains characters outside ASCII, which file systems encode differently: use a-z, 0-9, - _ ."
    if not all(char.isalnum() or char in "-_.+" for char in name):
        return "contains a space or a sign: use a-z, 0-9, - _ ."
    if name.startswith(".") or name.endswith(".") or ".." in name or name.endswith(".lock"):
        return "is refused by git as part of a branch name (dots, .lock)"
    return None


def branch_problem(branch: str) -> str | None:
    """Return what is wrong with a branch name. Stricter than git, because names reach commands and terminals."""
    if not branch or branch in ("HEAD", "@"):
        return "is not a branch name"
    if not branch.isprintable() or any(char in _FORBIDDEN for char in branch):
        return "contains a space, a control character or a sign that git refuses"
    if len(branch.encode()) > MOST_BRANCH_BYTES:
        return f"is longer than {MOST_BRANCH_BYTES} bytes"
    if branch.startswith("-"):
        return "starts with a dash, which commands would read as an option"
    if branch.startswith("refs/") or is_commit_id(branch):
        return "could be taken for a full ref or a commit id"
    if ".." in branch or "@{" in branch or "//" in branch or branch.endswith((".", "/")) or branch.startswith("/"):
        return "is refused by git (.. // @{ or a dot or slash at an end)"
    if any(part.startswith(".") or part.endswith(".lock") for part in branch.split("/")):
        return "is refused by git (a part starts with a dot or ends in .lock)"
    return None


def is_commit_id(text: str) -> bool:
    """Return whether this is a full object id (SHA-1 or SHA-256), which cannot be read as a name."""
    return len(text) in (40, 64) and all(char in "0123456789abcdef" for char in text)


def agent_problem(agent: str) -> str | None:
    """Return what is wrong with an agent's id, which is shown everywhere and stored permanently."""
    if not agent.strip():
        return "is empty: name the agent with --agent, or set IMI_AGENT_ID"
    if len(agent) > 200:
        return f"is {len(agent)} characters long: at most 200"
    if not agent.isprintable():
        return "contains control or invisible characters"
    return None


def label_problem(text: str, most: int = 40) -> str | None:
    """Return what is wrong with a role or a team: it must be one short line for tables."""
    if not text.isprintable():
        return "contains control or invisible characters"
    return f"is {len(text)} characters long: at most {most}" if len(text) > most else None


def emoji_problem(text: str) -> str | None:
    """Return what is wrong with an agent's emoji: all terminals must agree on its width."""
    from imi_monitor.model.columns import cell_width

    if "\u200d" in text:
        return "is a sequence of several emoji, whose width differs between terminals: use a single one"
    if not text.isprintable() or text.isspace():
        return "contains control or invisible characters"
    wide = cell_width(text)
    return None if 0 < wide <= 2 and len(text) <= 4 else f"is {wide} columns wide: at most two, as one emoji is"


def plain_emoji(text: str) -> str:
    """Return the emoji without its variation selector, which makes it wider in some terminals."""
    return text.replace("\ufe0f", "")


def directory_name(prefix: str, name: str) -> str:
    """Return prefix and name: `feat-user-auth`; a name that already has the prefix stays as it is."""
    return name if name.startswith(prefix) else prefix + name


def branch_name(prefix: str, name: str, style: str) -> str:
    """Return the branch name: `feat/user-auth`, or `feat-user-auth` in dash style."""
    separator_prefix = prefix.replace("/", "-") if style == "dash" else prefix
    bare = name.removeprefix(prefix.replace("/", "-"))
    return separator_prefix + bare


def pull_request_of(directory: str) -> int | None:
    """Return the number in `review-123`, `pr-123` or `pr-review-123`; None for any other name."""
    for prefix in REVIEW_PREFIXES:
        number = directory.removeprefix(prefix)
        if number != directory and number.isdecimal() and number.isascii():
            return int(number)
    return None


def candidates(name: str, prefixes: list[str]) -> list[str]:
    """Return the directory names that `name` may stand for: itself, then with each known prefix."""
    return [name, *(prefix + name for prefix in prefixes if not name.startswith(prefix))]
