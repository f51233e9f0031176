"""The program behind the demonstration's started agent: it speaks Claude's stream-json on its standard streams.

It edits a file, asks whether it may run a command, waits for the answer, and goes on with each follow-up. It needs nothing but
Python's library: `python -I -S demo_program.py -p … --session-id ID`.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
import time
import uuid

JsonRecord = dict[str, object]
_FILE = "src/payments.py"
_COMMAND = "pytest -q tests/payments"
_PAUSE = 1.5


class DemoProgram:
    """One session without a terminal: it reads messages line by line and writes records."""

    def __init__(self, words: list[str]) -> None:
        given = dict(itertools.pairwise(words))
        self.session = given.get("--resume") or given.get("--session-id") or str(uuid.uuid4())
        self.turns = 0
        self._rest = b""

    def serve(self) -> None:
        while True:
            message = self.next()
            if message.get("type") == "user":
                self.turn(message)
            elif message.get("type") == "control_request":
                self.reply(message)
                if subtype_of(message) == "end_session":
                    return

    def next(self, seconds: float | None = None) -> JsonRecord:
        """The next message; an empty one if none comes within this time."""
        while b"\n" not in self._rest:
            if not select.select([0], [], [], seconds)[0]:
                return {}
            data = os.read(0, 1 << 16)
            if not data:
                raise SystemExit(0)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found = json.loads(line)
        return found if isinstance(found, dict) else {}

    # -- a turn -----------------------------------------------------------------------------------------------------

    def turn(self, message: JsonRecord) -> None:
        self.turns += 1
        about = {
            "cwd": os.getcwd(),
            "model": "claude-demo",
            "permissionMode": "default",
            "claude_code_version": "2.1.326",
        }
        self.emit("system", {"subtype": "init", **about})
        self.emit("user", {**message, "isReplay": True})
        self.say("I will write the payment step and run its tests.")
        self.pause()
        self.edit()
        self.pause()
        allowed = self.ask()
        self.say("All tests pass." if allowed else "I leave the tests alone. The change is in the file.")
        usage = {"claude-demo": {"inputTokens": 2100 * self.turns, "outputTokens": 480 * self.turns}}
        result = {"subtype": "success", "is_error": False, "result": "done", "total_cost_usd": 0.02 * self.turns}
        self.emit("result", {**result, "modelUsage": usage, "permission_denials": []})

    def pause(self) -> None:
        """Work for a moment; a message that ends the session or the turn ends it."""
        until = time.monotonic() + _PAUSE
        while (left := until - time.monotonic()) > 0:
            self.obey(self.next(left))

    def obey(self, message: JsonRecord) -> None:
        if message.get("type") == "control_request":
            self.reply(message)
            if subtype_of(message) in ("end_session", "interrupt"):
                raise SystemExit(0)

    def edit(self) -> None:
        path = os.path.join(os.getcwd(), _FILE)
        call = self.tool("Write", {"file_path": path, "content": "…"})
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"def pay_{self.turns}(basket):\n    return sum(basket)\n\n\n")
        self.result(call, failed=False)

    def ask(self) -> bool:
        """Ask for a permission; it is given, or refused with or without a reason."""
        given: JsonRecord = {"command": _COMMAND}
        call, ident = self.tool("Bash", given), str(uuid.uuid4())
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": given, "tool_use_id": call}
        self.out({"type": "control_request", "request_id": ident, "request": request})
        while True:
            message = self.next()
            response = message.get("response")
            if isinstance(response, dict) and response.get("request_id") == ident:
                decision = response.get("response")
                allowed = isinstance(decision, dict) and decision.get("behavior") == "allow"
                self.result(call, failed=not allowed)
                return allowed
            self.obey(message)

    # -- records ----------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.assistant({"type": "text", "text": text})

    def tool(self, name: str, given: JsonRecord) -> str:
        ident = f"toolu_{uuid.uuid4().hex[:12]}"
        self.assistant({"type": "tool_use", "id": ident, "name": name, "input": given})
        return ident

    def result(self, call: str, *, failed: bool) -> None:
        content = [{"tool_use_id": call, "type": "tool_result", "content": "ok", "is_error": failed}]
        self.emit("user", {"message": {"role": "user", "content": content}, "parent_tool_use_id": None})

    def assistant(self, block: JsonRecord) -> None:
        message = {
            "id": f"msg_{uuid.uuid4().hex[:12]}",
            "role": "assistant",
            "model": "claude-demo",
            "content": [block],
        }
        self.emit("assistant", {"message": {**message, "stop_reason": None, "usage": {}}, "parent_tool_use_id": None})

    def emit(self, kind: str, record: JsonRecord) -> None:
        """Write a record without a time of its own: its reader knows when it came."""
        self.out({"uuid": str(uuid.uuid4()), **record, "type": kind, "session_id": self.session})

    def reply(self, message: JsonRecord) -> None:
        answer = {"subtype": "success", "request_id": message.get("request_id"), "response": {}}
        self.out({"type": "control_response", "response": answer})

    def out(self, record: JsonRecord) -> None:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


class DemoScreen:
    """The demo's agent in a window: it reads prompts from its terminal and reports to its hooks, like Claude's own screen."""

    def __init__(self, words: list[str]) -> None:
        cut = words.index("--") if "--" in words else len(words)
        given = dict(itertools.pairwise(words[:cut]))
        self.prompt = words[cut + 1] if cut + 1 < len(words) else ""
        self.session = given.get("--resume") or given.get("--session-id") or str(uuid.uuid4())
        with open(given["--settings"], encoding="utf-8") as file:
            self.hooks = json.load(file)["hooks"]

    def serve(self) -> None:
        self.show("The demonstration's agent. It works on what you type; ctrl-d ends it.\n")
        self.call_hooks("SessionStart", source="startup")
        text = self.prompt
        while True:
            if text.strip():
                self.turn(text.strip())
            try:
                text = input("> ")
            except EOFError:
                return

    def turn(self, prompt: str) -> None:
        self.show(f"> {prompt}")
        self.call_hooks("UserPromptSubmit", prompt=prompt)
        time.sleep(2 * _PAUSE)
        self.show("Done, in the demonstration's way.\n")
        self.call_hooks("Stop", last_assistant_message="Done, in the demonstration's way.", background_tasks=[])

    def show(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def call_hooks(self, name: str, **payload: object) -> None:
        about = {"session_id": self.session, "cwd": os.getcwd(), "hook_event_name": name, **payload}
        for group in self.hooks.get(name, []):
            for hook in group["hooks"]:
                words = ["/bin/sh", "-c", hook["command"]]
                subprocess.run(words, input=json.dumps(about).encode(), capture_output=True, timeout=60, check=False)


def subtype_of(message: JsonRecord) -> object:
    request = message.get("request")
    return request.get("subtype") if isinstance(request, dict) else None


if __name__ == "__main__":
    (DemoProgram if "-p" in sys.argv else DemoScreen)(sys.argv[1:]).serve()
