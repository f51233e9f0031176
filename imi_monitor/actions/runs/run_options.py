"""What a request for a run says: its prompt, way, mode, flags and labels; the options that its verbs share."""

from __future__ import annotations

import os
import sys

from imi_monitor.actions.action import Option
from imi_monitor.actions.mcp import agent_servers
from imi_monitor.model.errors import UsageError
from imi_monitor.model.run import MOST_PROMPT
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.model.text import safe
from imi_monitor.runs import provider, ways
from imi_monitor.runs.agent_variables import RUN_VARIABLE
from imi_monitor.runs.provider import TASK, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.runs.provider import Provider

MODES = (
    Option(ASK, "ask for what the program asks for (default)", label="Ask first"),
    Option(EDITS, "edit files without asking", label="Edit files without asking"),
    Option(PLAN, "only read and plan", label="Only read and plan"),
)
PROMPT_FILE = Option("prompt-file", "read the prompt from a file; - for the standard input", value="FILE")
WAY = Option(
    "way",
    "window (its own screen in a tmux window, a Zellij tab or dtach) or task (no terminal); default: a window inside of tmux"
    " or Zellij",
    value="WAY",
    choices=provider.WAYS,
)
OVER_BUDGET = Option(
    "over-budget",
    "start it although the budget of the day, or of the resumed run, is used up; allow the same amount again",
    overrides=("over-budget",),
)
FRESH = Option("fresh", "with a new session that begins with what the last checkpoint says, not with the old session")


def prompt(request: Request) -> str | None:
    """The prompt of the command line, a file or the standard input."""
    given, file = request.text("prompt"), request.text("prompt-file")
    if given is not None and file is not None:
        raise UsageError("give --prompt or --prompt-file, not both", code="bad-option")
    if request.rest("flags")[:1] == ["-"]:
        raise UsageError("use `--prompt-file -` to read the prompt from the standard input", code="bad-option")
    text = given if file is None else _read_prompt(file)
    if text is None:
        return None
    if not text.strip():
        raise UsageError("the prompt is empty", code="no-prompt")
    if "\0" in text:
        raise UsageError("the prompt contains a NUL character, which no program takes", code="bad-prompt")
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > MOST_PROMPT:
        raise UsageError(
            f"the prompt has more than {MOST_PROMPT >> 10} KB: write it to a file in the worktree"
            " and let the prompt name the file",
            code="long-prompt",
        )
    return text


def _read_prompt(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(MOST_PROMPT + 1)
        with open(file, encoding="utf-8") as opened:
            return opened.read(MOST_PROMPT + 1)
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt file {safe(file)} is not UTF-8 text", code="bad-prompt") from error
    except OSError as error:
        raise UsageError(f"the prompt file {safe(file)} cannot be read: {error.strerror}", code="bad-prompt") from error


def refuse_unknown_way(request: Request) -> None:
    way = request.text("way")
    if way is not None and way not in provider.WAYS:
        raise UsageError(f"--way {safe(way)!r} is unknown: use one of {', '.join(provider.WAYS)}", code="bad-option")


def holder(request: Request, wanted: Provider) -> dict[str, str] | None:
    """What will hold the agent's window; None: it runs without a terminal."""
    way = request.text("way")
    if way == WINDOW:
        return ways.needed_holder()
    # an agent that starts another one is no person who would look at a window
    return None if way == TASK or RUN_VARIABLE in os.environ or not wanted.has_window else ways.find_holder()


def mode(request: Request) -> str:
    given = [one.name for one in MODES if request.flag(one.name)]
    if len(given) > 1:
        raise UsageError(f"give one of --{', --'.join(given)}", code="bad-option")
    return given[0] if given else ASK


def flags(request: Request) -> list[str]:
    flags = request.rest("flags")
    if flags and not flags[0].startswith("-"):
        raise UsageError(
            f"imi start takes no argument {safe(flags[0])!r}: quote the prompt, as --prompt TEXT", code="extra"
        )
    return flags


def tools(context: Context, run_id: str) -> tuple[str, ...]:
    """The command line of imi's tools for this run."""
    if not context.settings.flag("runs.tools"):
        return ()
    return (*agent_servers.server_command(), "--run", run_id, "--db", context.database)


def labels(request: Request) -> dict[str, str]:
    text = request.text("label")
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    if any(not key.strip() or not separator for key, separator, _ in pairs):
        raise UsageError("--label takes KEY=VALUE, several separated by commas", code="bad-option")
    return {key.strip(): value.strip() for key, _, value in pairs}
