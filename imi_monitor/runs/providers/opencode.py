"""opencode: the Agent Client Protocol on its standard streams; in a window its own screen, which serves HTTP beside it."""

from __future__ import annotations

from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run import NO, YES
from imi_monitor.runs.provider import WINDOW, Launch, Message, Spec, bridged
from imi_monitor.runs.providers.acp import PROGRAMS, AcpProgram, AcpProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.stream_reader import StreamReader

_REPLIES = {YES: "once", NO: "reject"}


def make() -> OpencodeProvider:
    return OpencodeProvider("opencode", PROGRAMS["opencode"])


class OpencodeProvider(AcpProvider):
    def __init__(self, name: str, program: AcpProgram) -> None:
        super().__init__(name, program)
        self.has_window = True

    def window(self, spec: Spec, folder: str) -> Launch:
        task = self.start(spec)  # refuses what it cannot do
        # its screen does not submit a prompt for a session that it takes up: the bridge sends that one
        resumes = () if spec.resumes is None else ("--session", spec.resumes)
        prompt = () if spec.resumes is not None else ("--prompt=",)
        argv, files = bridged("opencode", spec, folder, argv=[spec.program, *resumes, *spec.flags])
        return Launch(argv, spec.resumes, env=task.env, prompt=prompt, files=files, pipe=True, dangerous=task.dangerous)

    def reader(self, way: str) -> StreamReader:
        if way != WINDOW:
            return super().reader(way)
        from imi_monitor.sources.agents.opencode.stream import OpencodeStream

        return OpencodeStream()

    def answer(self, record: Message, text: str) -> Message:
        asked = record.get("properties")
        if not isinstance(asked, dict):
            return super().answer(record, text)
        if record.get("type") == "permission.asked":
            body: Message = {"reply": _REPLIES.get(text, "reject")}
            if text not in _REPLIES:
                body["message"] = text
            return {"post": f"/permission/{asked.get('id')}/reply", "body": body}
        questions = asked.get("questions")
        if not isinstance(questions, list):
            raise Refused("its question cannot be read any more: answer it in the program", code="no-question")
        lines = text.split("\n")
        if len(lines) != len(questions):
            raise UsageError(f"it asks {len(questions)} questions: answer each in a line of its own", code="bad-answer")
        return {"post": f"/question/{asked.get('id')}/reply", "body": {"answers": [[line] for line in lines]}}

    def say(self, read: StreamReader, text: str) -> list[Message]:
        if not _serves(read):
            return super().say(read, text)
        if read.session is None:
            raise Refused("it has no session yet: try again in a moment", code="not-ready")
        return [prompt_message(read.session, text)]

    def interrupt(self, read: StreamReader) -> list[Message]:
        if not _serves(read):
            return super().interrupt(read)
        if read.turn_over or read.session is None:
            return []
        return [{"post": f"/session/{read.session}/abort"}]


def prompt_message(session: str, text: str) -> Message:
    """What the bridge posts to begin a turn."""
    return {"post": f"/session/{session}/prompt_async", "body": {"parts": [{"type": "text", "text": text}]}}


def _serves(read: StreamReader) -> bool:
    from imi_monitor.sources.agents.opencode.stream import OpencodeStream

    return isinstance(read, OpencodeStream)
