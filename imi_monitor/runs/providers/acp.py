"""Programs that speak the Agent Client Protocol on their standard streams: one provider for all of them.

A program is one line in `PROGRAMS`. imi offers them neither files nor terminals: they have their own.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass, field
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run import NO, YES
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.model.text import safe
from imi_monitor.runs.provider import WINDOW, Launch, Message, Spec, bridged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.acp_stream import AcpStream
    from imi_monitor.sources.agents.stream_reader import StreamReader

_HELLO, _OPEN, _LOAD, _PROMPT = "imi-hello", "imi-session", "imi-load", "imi-prompt"  # as in sources.agents.acp_stream
_CONSENTS = ("yes", "allow", "trust", "approve", "apply", "proceed")  # how the first choice of a dialog begins
_WANTED = {YES: "allow_once", NO: "reject_once"}


@dataclass(frozen=True, slots=True)
class OwnScreen:
    """The options of its own screen: before the prompt, of a session to take up, of a new session's id.

    `presses`: how often escape is pressed to end a turn. `refuses`: the exit status with which it refuses to resume.
    """

    prompt: str
    resume: str
    session: str = ""
    presses: int = 1
    refuses: int | None = None


@dataclass(frozen=True, slots=True)
class AcpProgram:
    """`modes`: the arguments for each mode that the program takes. `env`: what makes it ask."""

    install: str
    argv: tuple[str, ...]
    modes: dict[str, tuple[str, ...]] = field(default_factory=lambda: {ASK: ()})
    env: dict[str, str] = field(default_factory=dict)
    model: str = ""  # the option that names a model
    dangerous: tuple[str, ...] = ()
    window: OwnScreen | None = None


PROGRAMS = {
    "gemini": AcpProgram(
        "npm install -g @google/gemini-cli",
        ("--acp",),
        {
            ASK: ("--approval-mode", "default"),
            EDITS: ("--approval-mode", "auto_edit"),
            PLAN: ("--approval-mode", "plan"),
        },
        model="--model",
        dangerous=("yolo", "--yolo", "-y"),
        window=OwnScreen("--prompt-interactive=", "--resume", "--session-id", refuses=42),
    ),
    "opencode": AcpProgram(
        "npm install -g opencode-ai",
        ("acp",),
        # without a setting of its own it asks for nothing
        env={"OPENCODE_PERMISSION": '{"edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"}'},
    ),
    "copilot": AcpProgram(
        "npm install -g @github/copilot",
        ("--acp",),
        model="--model",
        dangerous=("--allow-all-tools", "--allow-all-paths", "--yolo", "--allow-all"),
        window=OwnScreen("--interactive=", "--session-id", "--session-id", presses=2),
    ),
}


def make(name: str) -> AcpProvider:
    return AcpProvider(name, PROGRAMS[name])


class AcpProvider:
    reports_cost = False
    ends_with_turn = False
    types_ahead = True

    def __init__(self, name: str, program: AcpProgram) -> None:
        self.name = name
        self.install = program.install
        self.has_window = program.window is not None
        self.interrupt_keys = ("Escape",) * (program.window.presses if program.window is not None else 1)
        self._program = program

    def login_question(self) -> tuple[str, ...]:
        return ()  # none of them has such a command

    def start(self, spec: Spec) -> Launch:
        one = self._program
        if spec.mode not in one.modes:
            raise UsageError(f"{self.name} has no mode {spec.mode}: start it without --{spec.mode}", code="bad-option")
        if spec.model and not one.model:
            raise UsageError(f"{self.name} takes its model from its own settings", code="bad-option")
        model = (one.model, spec.model) if spec.model else ()
        argv = (spec.program, *one.argv, *one.modes[spec.mode], *model, *spec.flags)
        offer = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}}}
        hello = _request(_HELLO, "initialize", {**offer, "clientInfo": {"name": "imi", "version": "0"}})
        dangerous = tuple(word for word in spec.flags if word.rpartition("=")[2] in one.dangerous)
        return Launch(argv, spec.resumes, (hello,), dangerous=dangerous, env=one.env)

    def has_session(self, session: str) -> bool:
        return True  # it says so when the session is loaded

    def window(self, spec: Spec, folder: str) -> Launch:
        own = self._program.window
        if own is None:
            raise UsageError(f"imi cannot start {self.name} in a window: use --way task", code="bad-option")
        task = self.start(spec)
        options = task.argv[1 + len(self._program.argv) :]
        resumes = (own.resume, spec.resumes) if spec.resumes is not None else ()
        known = (own.session, spec.session) if own.session and not resumes else ()
        session = spec.resumes or (spec.session if own.session else None)
        plan: Message = {"cli": self.name, "argv": [spec.program, *resumes, *known, *options], "session": session}
        if resumes and own.refuses is not None:
            anew = {"argv": [spec.program, own.session, spec.session, *options], "session": spec.session}
            plan |= {"refuses": own.refuses, "anew": anew, "prompt": own.prompt}
        argv, files = bridged("screen", spec, folder, **plan)
        return Launch(argv, session, dangerous=task.dangerous, env=task.env, prompt=(own.prompt,), files=files)

    def reader(self, way: str) -> StreamReader:
        if way == WINDOW:
            from imi_monitor.sources.agents.screen_stream import ScreenStream

            return ScreenStream()
        from imi_monitor.sources.agents.acp_stream import AcpStream

        return AcpStream()

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        """The session, once the program has said who it is, and the prompt, once the session is open."""
        stream, methods = _acp(read), {one.get("method") for one in sent}
        if "session/prompt" in methods:
            return None
        if stream.opened:
            text = spec.prompt if stream.refused is None else spec.packet
            return [_prompt(stream.session or spec.resumes or "", text)]
        loads = spec.resumes is not None and stream.refused is None
        method = "session/load" if loads else "session/new"
        if not stream.greeted or method in methods:
            return []
        wanted: Message = {"cwd": spec.cwd, "mcpServers": _tools(spec)}
        if loads:
            return [_request(_LOAD, method, {**wanted, "sessionId": spec.resumes})]
        return [_request(_OPEN, method, wanted)]

    def answer(self, record: Message, text: str) -> Message:
        if "seen" in record:
            return _keys(self.name, record["seen"], text)
        params = record.get("params")
        options = params.get("options") if isinstance(params, dict) else None
        if not isinstance(options, list):
            raise Refused("its question cannot be read any more: answer it in the program", code="no-question")
        kind = _WANTED.get(text)
        for one in options:
            if isinstance(one, dict) and (one.get("kind") == kind if kind else one.get("name") == text):
                outcome = {"outcome": "selected", "optionId": one.get("optionId")}
                return _reply(record.get("id"), outcome)
        if text == NO:
            return _reply(record.get("id"), {"outcome": "cancelled"})
        names = ", ".join(safe(str(one.get("name")), 60) for one in options if isinstance(one, dict))
        raise UsageError(f"{self.name} takes yes, no, or one of: {names}", code="bad-answer")

    def say(self, read: StreamReader, text: str) -> list[Message]:
        if not read.turn_over or read.session is None:
            raise Refused(
                f"{self.name} takes one prompt at a time: interrupt it, or wait until it is ready", code="not-ready"
            )
        return [_prompt(read.session, text)]

    def interrupt(self, read: StreamReader) -> list[Message]:
        if read.turn_over or read.session is None:
            return []
        waiting = [_reply(ident, {"outcome": "cancelled"}) for ident in _acp(read).ask_ids.values()]
        cancel: Message = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": read.session}}
        return [cancel, *waiting]

    def asked_on(self, screen: str) -> str | None:
        from imi_monitor.runs import screen_dialog

        dialog = screen_dialog.find(screen)
        return None if dialog is None else dialog.text

    def finish(self) -> list[Message]:
        return []  # it ends with its input, which the agent itself holds open, or by a signal


def _keys(name: str, seen: object, text: str) -> Message:
    """The key that answers the dialog on its screen, and the text of that dialog."""
    asked = seen.get("ask") if isinstance(seen, dict) else None
    choices = [str(one) for one in asked.get("choices") or ()] if isinstance(asked, dict) else []
    if not isinstance(asked, dict) or not choices:
        raise Refused("its question cannot be read any more: answer it in the program", code="no-question")
    if text == NO or (text == YES and choices[0].lower().startswith(_CONSENTS)):
        key = "1" if text == YES else "Escape"
    elif text in choices:
        key = str(choices.index(text) + 1)
    elif text.isdecimal() and 0 < int(text[:3]) <= len(choices):
        key = text
    else:
        shown = ", ".join(f"{number} ({safe(one, 60)})" for number, one in enumerate(choices, 1))
        raise UsageError(f"{name} takes yes, no, or the number of one of its choices: {shown}", code="bad-answer")
    return {"keys": [key], "dialog": asked.get("text")}


def _acp(read: StreamReader) -> AcpStream:
    from imi_monitor.sources.agents.acp_stream import AcpStream

    assert isinstance(read, AcpStream)
    return read


def _tools(spec: Spec) -> list[Message]:
    """imi's tools for this session."""
    if not spec.tools:
        return []
    return [{"name": "imi", "command": spec.tools[0], "args": list(spec.tools[1:]), "env": []}]


def _request(ident: str, method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}


def _reply(ident: object, outcome: Message) -> Message:
    return {"jsonrpc": "2.0", "id": ident, "result": {"outcome": outcome}}


def _prompt(session: str, text: str) -> Message:
    prompt: Message = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return _request(f"{_PROMPT}-{new_id()}", "session/prompt", prompt)
