"""Claude Code: stream-json on its standard streams, with control messages in both directions."""

from __future__ import annotations

import os

from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run import ASK, EDITS, NO, PLAN, YES
from imi_monitor.runs.provider import Launch, Message, Spec

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
_QUESTION = "AskUserQuestion"


def make() -> ClaudeProvider:
    return ClaudeProvider()


class ClaudeProvider:
    name = "claude"
    install = "npm install -g @anthropic-ai/claude-code"

    def start(self, spec: Spec) -> Launch:
        session, known = spec.session, ("--session-id", spec.session)
        if spec.resumes is not None:
            session = spec.resumes
            # without a transcript it was killed before its first prompt: the same id is free for a new start
            known = ("--resume" if has_transcript(session) else "--session-id", session)
        model = ("--model", spec.model) if spec.model else ()
        argv = (spec.program, *_DUPLEX, "--permission-mode", _MODES[spec.mode], *known, *model, *spec.flags)
        dangerous = tuple(one for one in spec.flags if one.rpartition("=")[2] in _DANGEROUS)
        return Launch(argv, session, (_prompt(spec.prompt, session),), dangerous=dangerous)

    def reader(self) -> StreamReader:
        from imi_monitor.sources.agents.claude.stream import ClaudeStream

        return ClaudeStream()

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        return None  # the prompt is its opening

    def answer(self, record: Message, text: str) -> Message:
        request = record.get("request")
        if not isinstance(request, dict):
            raise Refused("its question cannot be read any more: answer it in the program", code="no-question")
        given = request.get("input")
        if request.get("tool_name") == _QUESTION:
            decision: Message = {"behavior": "allow", "updatedInput": _chosen(given, text)}
        elif text == YES:
            decision = {"behavior": "allow", "updatedInput": given}
        else:
            decision = {"behavior": "deny", "message": "the user refused it" if text == NO else text}
        response = {"subtype": "success", "request_id": record.get("request_id"), "response": decision}
        return {"type": "control_response", "response": response}

    def say(self, read: StreamReader, text: str) -> list[Message]:
        return [_prompt(text, read.session or "")]

    def interrupt(self, read: StreamReader) -> list[Message]:
        return [] if read.turn_over else [_control("interrupt")]

    def finish(self) -> list[Message]:
        return [_control("end_session")]


def has_transcript(session: str) -> bool:
    """Whether Claude has a conversation of this id, in any folder."""
    projects = os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "projects")
    try:
        folders = os.listdir(projects)
    except OSError:
        return False
    return any(os.path.isfile(os.path.join(projects, one, f"{session}.jsonl")) for one in folders)


def _prompt(text: str, session: str) -> Message:
    content = [{"type": "text", "text": text}]
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session, "uuid": new_id()}


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
