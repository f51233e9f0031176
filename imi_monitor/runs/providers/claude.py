"""Claude Code: stream-json on its standard streams, with control messages in both directions."""

from __future__ import annotations

import json
import os
import re
import shlex

from imi_monitor.fast import json_writer
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.git import layout
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run import NO, YES
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.model.text import safe
from imi_monitor.runs import provider
from imi_monitor.runs.provider import WINDOW, Launch, Message, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.stream_reader import StreamReader

_MODES = {ASK: "default", EDITS: "acceptEdits", PLAN: "plan"}
_DANGEROUS = ("--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "bypassPermissions")
_DUPLEX = (
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--replay-user-messages",
    "--permission-prompt-tool",
    "stdio",
)
_LOGINS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)
_QUESTION = "AskUserQuestion"
_MESSAGE = re.compile(rb'"type": ?"(user|assistant)"')
_SETTINGS = "settings.json"
_ASKS = "PermissionRequest"
_ANSWER_SECONDS = 7 * 86_400
_WITH_MATCHER = ("PreToolUse", _ASKS, "PostToolUse", "PostToolUseFailure")
_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    *_WITH_MATCHER,
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)


def make() -> ClaudeProvider:
    return ClaudeProvider()


class ClaudeProvider:
    name = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    has_window = True
    interrupt_keys = ("Escape",)
    types_ahead = True
    reports_cost = True
    ends_with_turn = False

    def login_question(self) -> tuple[str, ...]:
        known = any(os.environ.get(name) for name in _LOGINS) or os.path.exists(f"{_config_folder()}/.credentials.json")
        return () if known else ("auth", "status")

    def start(self, spec: Spec) -> Launch:
        argv, session = _command(spec, *_DUPLEX)
        return Launch(argv, session, (_prompt(spec.prompt, session),), dangerous=_dangerous(spec))

    def has_session(self, session: str) -> bool:
        return has_transcript(session)

    def window(self, spec: Spec, folder: str) -> Launch:
        _refuse_untrusted(spec.cwd)
        argv, session = _command(spec, "--settings", os.path.join(folder, _SETTINGS))
        files = {_SETTINGS: json_writer.dumps(_hooks(folder))}
        return Launch(argv, session, dangerous=_dangerous(spec), prompt=("--", ""), files=files)

    def reader(self, way: str) -> StreamReader:
        if way == WINDOW:
            from imi_monitor.sources.agents.claude.hook_stream import ClaudeHookStream

            return ClaudeHookStream()
        from imi_monitor.sources.agents.claude.stream import ClaudeStream

        return ClaudeStream()

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        return None  # the prompt is its opening

    def answer(self, record: Message, text: str) -> Message:
        hook = record.get("hook")
        request = record.get("request") if hook is None else hook
        if not isinstance(request, dict):
            raise Refused("its question cannot be read any more: answer it in the program", code="no-question")
        given = request.get("input" if hook is None else "tool_input")
        if request.get("tool_name") == _QUESTION:
            decision: Message = {"behavior": "allow", "updatedInput": _chosen(given, text)}
        elif text == YES:
            decision = {"behavior": "allow", "updatedInput": given}
        else:
            decision = {"behavior": "deny", "message": "the user refused it" if text == NO else text}
        if hook is not None:
            return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
        response = {"subtype": "success", "request_id": record.get("request_id"), "response": decision}
        return {"type": "control_response", "response": response}

    def say(self, read: StreamReader, text: str) -> list[Message]:
        return [_prompt(text, read.session or "")]

    def interrupt(self, read: StreamReader) -> list[Message]:
        return [] if read.turn_over else [_control("interrupt")]

    def asked_on(self, screen: str) -> str | None:
        return None  # its questions do not come from its screen

    def finish(self) -> list[Message]:
        return [_control("end_session")]


def has_transcript(session: str) -> bool:
    """Whether Claude has a conversation of this id, in any folder: one killed early leaves a file without a message."""
    projects = os.path.join(_config_folder(), "projects")
    try:
        folders = os.listdir(projects)
    except OSError:
        return False
    return any(_has_message(os.path.join(projects, one, f"{session}.jsonl")) for one in folders)


def _has_message(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return any(_MESSAGE.search(line) for line in file)
    except OSError:
        return False


def _refuse_untrusted(cwd: str) -> None:
    """Refuse a folder in whose window Claude would wait for ever with its question whether it may work there.

    It takes the answer for a folder above, and in a linked worktree that for the main one.
    """
    decided = _decided_folders()
    if not cwd or decided is None:
        return
    place = layout.discover(cwd)
    main = os.path.dirname(place.repository.common_dir) if place is not None else cwd
    asked = [os.path.realpath(one) for one in (cwd, main)]
    if not any(one == each or one.startswith(each.rstrip("/") + "/") for one in asked for each in decided):
        raise Refused(
            f"claude was never allowed to work in {safe(cwd)}: run `claude` there once and answer its question about trust,"
            " or start it with --way task",
            code="not-trusted",
        )


def _decided_folders() -> list[str] | None:
    """The folders in which the user lets Claude work; None where that is not known."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~")
    try:
        with open(os.path.join(folder, ".claude.json"), encoding="utf-8") as file:
            known = json.load(file)
        projects = known["projects"]
        return [os.path.realpath(path) for path, one in projects.items() if one.get("hasTrustDialogAccepted") is True]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _config_folder() -> str:
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")


def _prompt(text: str, session: str) -> Message:
    content = [{"type": "text", "text": text}]
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session, "uuid": new_id()}


def _command(spec: Spec, *way: str) -> tuple[tuple[str, ...], str]:
    """The command line without the prompt, and the id of the session."""
    session, known = spec.session, ("--session-id", spec.session)
    if spec.resumes is not None:
        session = spec.resumes
        # without a transcript it was killed before its first prompt: the same id is free for a new start
        known = ("--resume" if has_transcript(session) else "--session-id", session)
    model = ("--model", spec.model) if spec.model else ()
    return (
        spec.program,
        *way,
        *_tools(spec),
        "--permission-mode",
        _MODES[spec.mode],
        *known,
        *model,
        *spec.flags,
    ), session


def _tools(spec: Spec) -> tuple[str, ...]:
    """imi's tools for this run alone. They change nothing but imi's own registry, so that Claude need not ask for each call."""
    if not spec.tools:
        return ()
    server = {"type": "stdio", "command": spec.tools[0], "args": list(spec.tools[1:])}
    return ("--mcp-config", json_writer.dumps({"mcpServers": {"imi": server}}), "--allowedTools", "mcp__imi")


def _dangerous(spec: Spec) -> tuple[str, ...]:
    return tuple(one for one in spec.flags if one.rpartition("=")[2] in _DANGEROUS)


def _hooks(folder: str) -> Message:
    """Settings for one run, beside the user's own: hooks that write to its output; the asking one waits for the answer."""
    program = os.path.join(os.path.dirname(os.path.abspath(provider.__file__)), "run-hook.sh")

    def group(event: str) -> Message:
        wait = " wait" if event == _ASKS else ""
        command = f"/bin/sh {shlex.quote(program)} {shlex.quote(folder)}{wait}"
        handler = {"type": "command", "command": command, "timeout": _ANSWER_SECONDS if wait else 5}
        return {**({"matcher": "*"} if event in _WITH_MATCHER else {}), "hooks": [handler]}

    return {"hooks": {event: [group(event)] for event in _EVENTS}}


def _control(kind: str) -> Message:
    return {"type": "control_request", "request_id": new_id(), "request": {"subtype": kind}}


def _chosen(given: object, text: str) -> Message:
    """The input of the question with its answers, one line of `text` for each question."""
    questions = given.get("questions") if isinstance(given, dict) else None
    if not isinstance(questions, list):
        raise Refused("its question cannot be read: answer it in the program", code="no-question")
    lines = text.split("\n")
    if len(lines) != len(questions):
        raise UsageError(f"it asks {len(questions)} questions: answer each in a line of its own", code="bad-answer")
    asked = [str(one.get("question")) for one in questions if isinstance(one, dict)]
    return {"questions": questions, "answers": dict(zip(asked, lines, strict=False))}
