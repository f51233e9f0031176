"""Codex: its app-server on the standard streams, JSON-RPC in both directions."""

from __future__ import annotations

import os

from imi_monitor.fast import json_writer
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run import NO, YES
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.runs.agent_variables import AGENT_VARIABLES
from imi_monitor.runs.provider import Launch, Message, Spec, bridged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.stream_reader import StreamReader

_THREAD, _RESUME, _TURN = (
    "imi-thread",
    "imi-resume",
    "imi-turn",
)  # as in sources.agents.codex.stream, which only a follower imports
_SANDBOX = {ASK: "workspace-write", EDITS: "workspace-write", PLAN: "read-only"}
_SETTINGS = ("-c", "--config", "--enable", "--disable")
_LOGINS = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN")
UNOBSERVED = "imi/unobserved"  # as in sources.agents.codex.stream
_DANGEROUS = ("danger-full-access", "--dangerously-bypass-approvals-and-sandbox", "--yolo")


def make() -> CodexProvider:
    return CodexProvider()


class CodexProvider:
    name = "codex"
    install = "npm install -g @openai/codex"
    has_window = True
    interrupt_keys = ("Escape",)
    types_ahead = True
    reports_cost = False
    ends_with_turn = False

    def login_question(self) -> tuple[str, ...]:
        home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
        known = any(os.environ.get(name) for name in _LOGINS) or os.path.exists(f"{home}/auth.json")
        return () if known or _has_own_provider(f"{home}/config.toml") else ("login", "status")

    def start(self, spec: Spec) -> Launch:
        client: Message = {"clientInfo": {"name": "imi", "title": "imi", "version": "0"}}
        opening: tuple[Message, ...] = (
            _request("imi-hello", "initialize", client),
            {"method": "initialized"},
            _thread_request(spec, spec.resumes),
        )
        dangerous = tuple(one for one in spec.flags if any(word in one for word in _DANGEROUS))
        argv = (spec.program, *_tools(spec), "app-server", *spec.flags)
        return Launch(argv, spec.resumes, opening, dangerous=dangerous)

    def has_session(self, session: str) -> bool:
        return True  # its server says so when the thread is resumed

    def window(self, spec: Spec, folder: str) -> Launch:
        dangerous = tuple(one for one in spec.flags if any(word in one for word in _DANGEROUS))
        if _are_for_server(spec.flags):
            argv, files = bridged("codex", spec, folder)
            return Launch(argv, spec.resumes, dangerous=dangerous, files=files, pipe=True)
        resumes = ("resume", spec.resumes) if spec.resumes is not None else ()
        mode = ("-a", "on-request", "-s", _sandbox(spec))
        model = ("--model", spec.model) if spec.model else ()
        argv = (spec.program, *_tools(spec), *resumes, *mode, *model, *spec.flags)
        unobserved = json_writer.dumps({"method": UNOBSERVED}) + "\n"
        return Launch(argv, spec.resumes, dangerous=dangerous, prompt=("--", ""), files={"out": unobserved})

    def reader(self, way: str) -> StreamReader:
        from imi_monitor.sources.agents.codex.stream import CodexStream

        return CodexStream()

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        """The prompt, once the server has named the thread."""
        if any(one.get("method") == "turn/start" for one in sent):
            return None
        if read.session is not None:
            return self.say(read, spec.prompt if read.refused is None else spec.packet)
        if read.refused is not None and not any(one.get("method") == "thread/start" for one in sent):
            return [_thread_request(spec, None)]
        return []

    def answer(self, record: Message, text: str) -> Message:
        params = record.get("params")
        if "id" not in record or not isinstance(params, dict):
            raise Refused("its question cannot be read any more: answer it in the program", code="no-question")
        if "questions" in params:
            lines = text.split("\n")
            idents = [str(one.get("id")) for one in params["questions"] if isinstance(one, dict)]
            answers = {ident: {"answers": [line]} for ident, line in zip(idents, lines, strict=False)}
            return {"id": record["id"], "result": {"answers": answers}}
        if "permissions" in params:
            granted = params["permissions"] if text == YES else {}
            return {"id": record["id"], "result": {"permissions": granted, "scope": "turn"}}
        if text not in (YES, NO):
            raise UsageError("codex takes yes or no here: answer no, then `imi say` the reason", code="bad-answer")
        return {"id": record["id"], "result": {"decision": "accept" if text == YES else "decline"}}

    def say(self, read: StreamReader, text: str) -> list[Message]:
        if read.session is None:
            raise Refused("its server has not named the thread yet: try again in a moment", code="not-ready")
        turn: Message = {"threadId": read.session, "input": [{"type": "text", "text": text}]}
        return [_request(f"{_TURN}-{new_id()}", "turn/start", turn)]

    def interrupt(self, read: StreamReader) -> list[Message]:
        turn = getattr(read, "turn", None)
        if turn is None:
            return []
        return [_request(f"imi-{new_id()}", "turn/interrupt", {"threadId": read.session, "turnId": turn})]

    def asked_on(self, screen: str) -> str | None:
        return None  # its questions do not come from its screen

    def finish(self) -> list[Message]:
        return []  # a server ends by a signal


def _are_for_server(flags: tuple[str, ...]) -> bool:
    """Whether its server takes these flags: all are settings. With others the screen has a server of its own, unobserved."""
    words = iter(flags)
    for word in words:
        if word in _SETTINGS:
            next(words, None)
        elif word.partition("=")[0] not in _SETTINGS:
            return False
    return True


def _has_own_provider(settings: str) -> bool:
    """Whether the settings name a provider of models, which may need no login."""
    try:
        with open(settings, encoding="utf-8") as file:
            return any(line.split("=")[0].strip() == "model_provider" for line in file)
    except (OSError, UnicodeDecodeError):
        return False


def _thread_request(spec: Spec, resumes: str | None) -> Message:
    """The request for a new thread, or for this one."""
    settings: Message = {"cwd": spec.cwd, "approvalPolicy": "on-request", "sandbox": _sandbox(spec)}
    if spec.model:
        settings["model"] = spec.model
    if resumes is None:
        return _request(_THREAD, "thread/start", settings)
    return _request(_RESUME, "thread/resume", {**settings, "threadId": resumes})


def _sandbox(spec: Spec) -> str:
    """Its own sandbox cannot begin inside of every wall, and protects nothing there that the wall does not."""
    return "danger-full-access" if spec.walled and spec.mode != PLAN else _SANDBOX[spec.mode]


def _tools(spec: Spec) -> tuple[str, ...]:
    """imi's tools for this run alone."""
    if not spec.tools:
        return ()
    command, args = json_writer.dumps(spec.tools[0]), json_writer.dumps(list(spec.tools[1:]))  # JSON texts are TOML
    passed = json_writer.dumps(list(AGENT_VARIABLES))  # it passes no others on
    settings = (f"command={command}", f"args={args}", f"env_vars={passed}")
    return tuple(word for one in settings for word in ("-c", f"mcp_servers.imi.{one}"))


def _request(ident: str, method: str, params: Message) -> Message:
    return {"id": ident, "method": method, "params": params}
