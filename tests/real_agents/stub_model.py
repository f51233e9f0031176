"""A model for the real agent programs, on this machine only: the prompt says what it answers.

`[[slow]]` streams words for a minute, `[[ask]]` calls a command that needs a permission, `[[run]]` one that runs for a while,
`[[long]]` one for longer, `[[fail]]` refuses with 400, `[[retry]]` with 529 so that the program tries again.
`[[hi]]` is answered by a word, `[[limit]]` by the usage limit as the servers of Anthropic and OpenAI report it to subscribers.
`[[commit]]` and `[[deliver]]` work behind a wall, `[[claim]]` calls imi's tool, `[[write]]` writes the file named by `file=PATH`,
`[[read]]` reads it.
It speaks the four languages of the programs: Anthropic messages, OpenAI responses and chat completions, Gemini.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any

SLOW_WORDS = 120
_MARK = re.compile(r"\[\[(\w+)\]\]")
_REFUSALS = {"fail": 400, "retry": 529, "limit": 429}
_COMMAND_TOOLS = ("Bash", "bash", "run_shell_command", "shell_command", "Shell")
_COMMANDS = {
    "ask": "touch asked.txt",
    "long": "python3 -c 'import time; time.sleep(100)'",
    "run": "python3 -c 'import time; time.sleep(40)'",
    "commit": "echo work > work.txt && git add work.txt && git commit -qm 'work of an agent'",
    "deliver": "echo '# Report' > report.md && imi file deliver report.md $OUT/ && imi file write second.md --content x",
}
_TOOLS = {
    "claim": (("claim",), {}),
    "write": (("Write", "write_file"), {"content": "words\n"}),
    "read": (("Read", "read_file"), {}),
}  # mark -> the end of the tool's name in any of the programs, its arguments
_SECONDS = re.compile(r"seconds=(\d+)")  # until the usage limit is over
_FILE = re.compile(r"file=(\S+)")


@dataclass(frozen=True)
class Turn:
    """What the model does next: it says words, calls a command, or refuses."""

    words: Sequence[str] = ()
    command: str | None = None
    asks: bool = False
    refusal: int | None = None
    pause: float = 0.0  # seconds between two words
    tool: tuple[str, ...] = ()  # instead of a command: the end of the name of a tool
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def calls(self) -> bool:
        return self.command is not None or bool(self.tool)


def next_turn(texts: Sequence[tuple[str, str]], tools: bool) -> Turn:
    """`texts`: (role, text) of the conversation; role is `model`, `person` or `tool`."""
    answered = 0
    for role, text in reversed(texts):
        found = _MARK.findall(text) if role == "person" else []
        if found:
            return _scripted(found[-1], answered, tools, text)
        answered += role == "tool"
    return Turn(["Hello."])


def _scripted(name: str, answered: int, tools: bool, text: str) -> Turn:
    if name in _REFUSALS:
        seconds = _SECONDS.search(text)
        return Turn(refusal=_REFUSALS[name], given={"seconds": int(seconds[1]) if seconds else 3600})
    if not tools:
        return Turn(["A", "title."])
    if name == "hi":
        return Turn(["Hello."])
    if name == "slow":
        return Turn([f"word{number}" for number in range(SLOW_WORDS)], pause=0.5)
    if name in _COMMANDS and not answered:
        return Turn(["I", "run", "it."], _COMMANDS[name], name == "ask")
    if name in _TOOLS and not answered:
        tool, given = _TOOLS[name]
        file = _FILE.search(text)
        return Turn(["I", "do", "it."], tool=tool, given={**given, **({"file_path": file[1]} if file else {})})
    return Turn(["Done."])


def can_run(tools: Sequence[str]) -> bool:
    """True if a command can be called; a title or a classification is asked for without."""
    return not {"exec_command", *_COMMAND_TOOLS}.isdisjoint(tools)


def call(turn: Turn, tools: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command as a call of the tool that the program offers for commands."""
    if turn.tool:
        if "mcp__imi" in tools:  # Codex gives the tools of a server one name
            return turn.tool[0], dict(turn.given)
        found = [one for one in tools if one.endswith(turn.tool)]
        if not found:
            raise ValueError(f"no tool {turn.tool} among {sorted(tools)}")
        return found[0], dict(turn.given)
    command = turn.command or ""
    if "exec_command" in tools:
        escalated = {"sandbox_permissions": "require_escalated", "justification": "May it run?"} if turn.asks else {}
        return "exec_command", {"cmd": command, **escalated}
    for name in _COMMAND_TOOLS:
        if name in tools:
            return name, {"command": command, "description": "A command"}
    raise ValueError(f"no tool for commands among {sorted(tools)}")


# -- four languages -----------------------------------------------------------------------------------------------------

Event = tuple[str | None, dict[str, Any]]  # its name, its data


def anthropic(request: dict[str, Any]) -> tuple[Turn, list[str], Any]:
    texts: list[tuple[str, str]] = []
    for message in request.get("messages", []):
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        role = "model" if message.get("role") == "assistant" else "person"
        if any(part.get("type") == "tool_result" for part in parts):
            texts.append(("tool", ""))
        texts += [(role, part.get("text", "")) for part in parts if part.get("type") == "text"]
    tools = [str(one.get("name")) for one in request.get("tools") or []]
    return next_turn(texts, can_run(tools)), tools, _anthropic_events


def _anthropic_events(turn: Turn, tools: Sequence[str], model: str) -> Iterator[Event]:
    usage = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {
        "id": f"msg_{time.time_ns()}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield "message_start", {"message": message}
    yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
    for word in _paced(turn):
        yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": f"{word} "}}
    yield "content_block_stop", {"index": 0}
    if turn.calls:
        name, given = call(turn, tools)
        block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": name, "input": {}}
        yield "content_block_start", {"index": 1, "content_block": block}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        yield "content_block_delta", {"index": 1, "delta": delta}
        yield "content_block_stop", {"index": 1}
    stop = "tool_use" if turn.calls else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 9}}
    yield "message_stop", {}


def responses(request: dict[str, Any]) -> tuple[Turn, list[str], Any]:
    texts: list[tuple[str, str]] = []
    given = request.get("input")
    for item in given if isinstance(given, list) else []:
        kind = item.get("type", "message")
        if kind == "message":
            text = " ".join(part.get("text", "") for part in item.get("content") or [] if isinstance(part, dict))
            texts.append(("person" if item.get("role") == "user" else "model", text))
        elif kind.endswith("_output"):
            texts.append(("tool", ""))
    tools = [str(one.get("name") or one.get("type")) for one in request.get("tools") or []]
    return next_turn(texts, can_run(tools)), tools, _response_events


def _response_events(turn: Turn, tools: Sequence[str], model: str) -> Iterator[Event]:
    ident, name = f"resp_{time.time_ns()}", "response.output_item"
    yield "response.created", {"response": {"id": ident, "object": "response", "status": "in_progress"}}
    item: dict[str, Any] = {"type": "message", "id": f"msg_{ident}", "role": "assistant", "content": []}
    yield f"{name}.added", {"output_index": 0, "item": {**item, "status": "in_progress"}}
    for word in _paced(turn):
        yield (
            "response.output_text.delta",
            {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": f"{word} "},
        )
    text = {"type": "output_text", "text": " ".join(turn.words), "annotations": []}
    items = [{**item, "status": "completed", "content": [text]}]
    yield f"{name}.done", {"output_index": 0, "item": items[0]}
    if turn.calls:
        tool, arguments = call(turn, tools)
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{ident}",
                "call_id": f"call_{ident}",
                "name": tool,
                **({"namespace": "mcp__imi"} if turn.tool else {}),
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
        )
        yield f"{name}.added", {"output_index": 1, "item": items[1]}
        yield f"{name}.done", {"output_index": 1, "item": items[1]}
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 109,
    }
    done = {"id": ident, "object": "response", "status": "completed", "output": items, "usage": usage}
    yield "response.completed", {"response": done}


def chat(request: dict[str, Any]) -> tuple[Turn, list[str], Any]:
    texts: list[tuple[str, str]] = []
    for message in request.get("messages", []):
        content = message.get("content")
        parts = [content] if isinstance(content, str) else [one.get("text", "") for one in content or []]
        role = {"user": "person", "tool": "tool"}.get(message.get("role"), "model")
        texts.append((role, " ".join(parts)))
    tools = [str((one.get("function") or {}).get("name")) for one in request.get("tools") or []]
    return next_turn(texts, can_run(tools) if tools else request.get("max_tokens") is None), tools, _chat_events


def _chat_events(turn: Turn, tools: Sequence[str], model: str) -> Iterator[Event]:
    head = {"id": f"chat-{time.time_ns()}", "object": "chat.completion.chunk", "created": 1, "model": model}
    for word in _paced(turn):
        yield None, {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": f"{word} "}}]}
    if turn.command and tools:
        name, given = call(turn, tools)
        one = {
            "index": 0,
            "id": f"call_{time.time_ns()}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        yield None, {**head, "choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}
    reason = "tool_calls" if turn.command and tools else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109}
    yield None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}


def gemini(request: dict[str, Any]) -> tuple[Turn, list[str], Any]:
    texts: list[tuple[str, str]] = []
    for content in request.get("contents", []):
        for part in content.get("parts", []):
            if "functionResponse" in part:
                texts.append(("tool", ""))
            elif "text" in part:
                texts.append(("model" if content.get("role") == "model" else "person", part["text"]))
    tools = [
        str(one.get("name")) for each in request.get("tools") or [] for one in each.get("functionDeclarations", [])
    ]
    return next_turn(texts, can_run(tools)), tools, _gemini_events


def _gemini_events(turn: Turn, tools: Sequence[str], model: str) -> Iterator[Event]:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 9, "totalTokenCount": 109}
    parts: list[dict[str, Any]] = [{"text": f"{word} "} for word in turn.words]
    if turn.calls:
        name, given = call(turn, tools)
        parts.append({"functionCall": {"name": name, "args": given}})
    for number, part in enumerate(parts, 1):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}, "index": 0}
        if number == len(parts):
            candidate["finishReason"] = "STOP"
        yield None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}
        time.sleep(turn.pause)


def _paced(turn: Turn) -> Iterator[str]:
    for word in turn.words:
        yield word
        time.sleep(turn.pause)


def _language(path: str) -> Any:
    if path.endswith("/messages"):
        return anthropic
    if path.endswith("/responses"):
        return responses
    if path.endswith("/chat/completions"):
        return chat
    return gemini if "enerateContent" in path else None


def _value(schema: dict[str, Any]) -> Any:
    """A value of this form."""
    kind = str(schema.get("type", "string")).lower()
    if kind == "object":
        return {name: _value(one) for name, one in (schema.get("properties") or {}).items()}
    options = schema.get("enum") or []
    return options[0] if options else {"boolean": False, "number": 1, "integer": 1, "array": []}.get(kind, "stub")


# -- the server ---------------------------------------------------------------------------------------------------------


ASKED: list[bytes] = []  # what the programs sent, for tests


class StubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *values: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": "stub-model", "object": "model"}], "models": []})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        ASKED.append(body)
        request = json.loads(body or b"{}")
        path = self.path.partition("?")[0]
        language = _language(path)
        if language is None:
            self._answer(200, {"input_tokens": 100, "totalTokens": 100})
            return
        turn, tools, events = language(request)
        if turn.refusal is not None:
            self._answer(turn.refusal, *_refusal(turn, language))
            return
        model = str(request.get("model") or "stub-model")
        streams = request.get("stream") or "streamGenerateContent" in path
        try:
            if streams:
                self._stream(events(turn, tools, model), done=language is chat)
            else:
                self._answer(200, _whole(language, list(events(turn, tools, model)), turn, request))
        except (BrokenPipeError, ConnectionResetError):  # the program was stopped
            self.close_connection = True

    def _stream(self, events: Iterator[Event], done: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            value = {"type": name, **data} if name else data
            self.wfile.write(f"{head}data: {json.dumps(value)}\n\n".encode())
            self.wfile.flush()
        if done:
            self.wfile.write(b"data: [DONE]\n\n")

    def _answer(self, code: int, value: dict[str, Any], headers: Mapping[str, str] = MappingProxyType({})) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        for name, each in headers.items():
            self.send_header(name, each)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _refusal(turn: Turn, language: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers; of a usage limit those of the program's own server."""
    code, left = turn.refusal, turn.given["seconds"]
    error: dict[str, Any] = {"message": f"the stub refuses with {code}", "type": "stub", "code": code}
    over = int(time.time()) + left
    if code != 429 or language not in (anthropic, responses):
        return {"type": "error", "error": error}, {}
    if language is anthropic:
        name = "anthropic-ratelimit-unified"
        window = {f"{name}-5h-status": "rejected", f"{name}-5h-reset": str(over), f"{name}-5h-utilization": "1.0"}
        state = {f"{name}-status": "rejected", f"{name}-reset": str(over), f"{name}-representative-claim": "five_hour"}
        error = {"type": "rate_limit_error", "message": "This request would exceed your account's rate limit."}
        return {"type": "error", "error": error}, {**window, **state, "retry-after": str(left)}
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus"}
    error |= {"resets_at": over, "resets_in_seconds": left}
    primary = {"used-percent": "100", "window-minutes": "300", "reset-at": str(over)}
    return {"error": error}, {f"x-codex-primary-{key}": value for key, value in primary.items()}


def _whole(language: Any, events: Sequence[Event], turn: Turn, request: dict[str, Any]) -> dict[str, Any]:
    """The answer in one piece: a title, or a value of the form that is asked for."""
    text = " ".join(turn.words)
    if language is anthropic:
        started: dict[str, Any] = events[0][1]["message"]
        return {**started, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    if language is gemini:
        options = request.get("generationConfig") or {}
        schema = options.get("responseJsonSchema") or options.get("responseSchema")
        content = {"role": "model", "parts": [{"text": json.dumps(_value(schema)) if schema else text}]}
        return {**events[-1][1], "candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
    message = {"role": "assistant", "content": text}
    last = events[-1][1]
    return {**last, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


@contextmanager
def serving() -> Iterator[int]:
    """A running stub; yields its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), StubHandler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
