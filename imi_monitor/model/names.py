"""Names: worktrees (`feat-x`), branches (`feat/x`), agents, and what is wrong with a bad one.

Pure text rules, no `re`: the hot commands use them. Every `*_problem` gives None for a good name, else the end of a
sentence that starts with the name.
"""

from __future__ import annotations

MOST_NAME = 100  # with a prefix and a template around it, still a legal file name everywhere
MOST_BRANCH_BYTES = 200
RESERVED = ("sync", ".iMi", ".git", "trunk", "HEAD")
OURS = "imi:"  # agents of this kind are acts of imi itself, such as a removal under way
REVIEW_PREFIXES = ("review-", "pr-review-", "pr-")
_FORBIDDEN = frozenset(" ~^:?*[\\")


def name_problem(name: str) -> str | None:
    """What is wrong with the NAME part of a new worktree."""
    if not name:
        return "is empty: give it a name such as user-auth"
    if len(name) > MOST_NAME:
        return f"is {len(name)} characters long: at most {MOST_NAME}"
    if name.startswith("-"):
        return "starts with a dash, which commands would read as an option"
    if "/" in name or "\\" in name:
        return "holds a separator: use dashes, as in user-auth"
    if name in RESERVED:
        return "is reserved"
    if not name.isascii():
        return "holds characters outside ASCII, which other file systems spell differently: use a-z, 0-9, - _ ."
    if not all(char.isalnum() or char in "-_.+" for char in name):
        return "holds a space or a sign: use a-z, 0-9, - _ ."
    if name.startswith(".") or name.endswith(".") or ".." in name or name.endswith(".lock"):
        return "is refused by git as part of a branch name (dots, .lock)"
    return None


def branch_problem(branch: str) -> str | None:
    """What is wrong with a branch name; stricter than git, because names travel into commands and terminals."""
    if not branch or branch in ("HEAD", "@"):
        return "is no branch name"
    if not branch.isprintable() or any(char in _FORBIDDEN for char in branch):
        return "holds a space, a control character or a sign that git refuses"
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
    """Whether this is a full object id (SHA-1 or SHA-256), the only kind that cannot mean anything else."""
    return len(text) in (40, 64) and all(char in "0123456789abcdef" for char in text)


def agent_problem(agent: str) -> str | None:
    """What is wrong with an agent's id: it is shown everywhere and stored for ever."""
    if not agent.strip():
        return "is empty: name the agent with --agent, or set IMI_AGENT_ID"
    if len(agent) > 200:
        return f"is {len(agent)} characters long: at most 200"
    if not agent.isprintable():
        return "holds control or invisible characters"
    return None


def label_problem(text: str, most: int = 40) -> str | None:
    """What is wrong with a role or a team: one short line that is shown in tables."""
    if not text.isprintable():
        return "holds control or invisible characters"
    return f"is {len(text)} characters long: at most {most}" if len(text) > most else None


def emoji_problem(text: str) -> str | None:
    """What is wrong with an agent's sign: every terminal has to agree how wide it is."""
    from imi_monitor.model.columns import cell_width

    if "\u200d" in text:
        return "is put together of several, whose width no two terminals agree about: use a single one"
    if not text.isprintable() or text.isspace():
        return "holds control or invisible characters"
    wide = cell_width(text)
    return None if 0 < wide <= 2 and len(text) <= 4 else f"is {wide} columns wide: at most two, as one emoji is"


def plain_emoji(text: str) -> str:
    """Without the mark that asks for colours, as some terminals make it wider for that and some do not."""
    return text.replace("\ufe0f", "")


def directory_name(prefix: str, name: str) -> str:
    """`feat-` and `user-auth` -> `feat-user-auth`; a name that already has the prefix keeps it once."""
    return name if name.startswith(prefix) else prefix + name


def branch_name(prefix: str, name: str, style: str) -> str:
    """`feat/user-auth`, or `feat-user-auth` in dash style."""
    separator_prefix = prefix.replace("/", "-") if style == "dash" else prefix
    bare = name.removeprefix(prefix.replace("/", "-"))
    return separator_prefix + bare


def pull_request_of(directory: str) -> int | None:
    """The number in `review-123`, `pr-123` or `pr-review-123`; None for any other name."""
    for prefix in REVIEW_PREFIXES:
        number = directory.removeprefix(prefix)
        if number != directory and number.isdecimal() and number.isascii():
            return int(number)
    return None


def candidates(name: str, prefixes: list[str]) -> list[str]:
    """The directory names a person may mean by `name`, best first: the name itself, then with each known prefix."""
    return [name, *(prefix + name for prefix in prefixes if not name.startswith(prefix))]
