"""Fake agent programs for tests: they speak the protocols of the real ones on their standard streams and start in 30 ms.

`fake_agent.py claude -p …` speaks stream-json, and without `-p` it is a program for a terminal that runs its hooks;
`fake_agent.py codex …` speaks the app-server's JSON-RPC, and any other name the Agent Client Protocol. What the prompt says:
[[ask]] wants a permission, [[slow]] streams until it is interrupted, [[long]] asks for a command and runs it until it is
interrupted, [[tool]] runs a child in a session of its own, [[die]] kills itself, [[exit7]] exits with 7, [[torn]] dies in the
middle of a line, [[deaf]] ignores SIGTERM and messages, [[flood]] writes 3,000 messages, [[pace]] 200 in 20 seconds, [[leave]]
leaves a process behind and ends, [[report]] writes a report into its run folder, [[draft]] writes files into its contained
workspace and wants one delivered, [[shell]] runs what follows `sh: `, [[complain]] writes to its standard error, [[limit]]
reaches the usage limit for an hour; only Claude: [[login]] is not logged in, [[fetch]] reads a page, [[question]] asks for one
of two choices, [[write]] writes a file, [[commit]] commits it, [[spend]] reports a cost, [[pause]] waits a moment for the end
of a limit and goes on by itself.
Shapes: recorded from Claude Code 2.1.326 and Codex 0.169.0; of limits from reports about them.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import tty
import uuid
from typing import Any

Record = dict[str, Any]
_FLOOD, _PACED = 3000, 200
ENDS = {"limit": "limited", "login": "logged out"}


class FakeAgent:
    """What both protocols share: lines in and out, and the acts that a prompt asks for."""

    def __init__(self) -> None:
        self._rest = b""
        self.deaf = False
        self.runs_for_long = False  # what is allowed
        self.prompt = ""

    def out(self, record: Record) -> None:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()

    def next(self, seconds: float | None = None) -> Record | None:
        """The next message; None if none comes within this time."""
        while b"\n" not in self._rest:
            if not select.select([0], [], [], seconds)[0]:
                return None
            self._rest += os.read(0, 1 << 16)
        line, _, self._rest = self._rest.partition(b"\n")
        found: Record = json.loads(line)
        return found

    def act(self, prompt: str) -> str:
        """Do what the prompt says; returns completed, interrupted or limited."""
        self.prompt = prompt
        for mark in re.findall(r"\[\[(\w+)\]\]", prompt):
            if mark in ENDS:
                return ENDS[mark]
            if getattr(self, f"do_{mark}")():
                return "interrupted"
        self.say("Hello.")
        return "completed"

    def do_ask(self) -> bool:
        self.say("allowed" if self.ask("touch x") else "denied")
        return False

    def do_long(self) -> bool:
        """Ask for a command that runs until it is interrupted."""
        self.runs_for_long = True
        return self.do_ask()

    def hold(self) -> None:
        """Run the allowed command."""
        while self.runs_for_long and ((message := self.next(0.05)) is None or not self.is_interrupt(message)):
            pass

    def do_slow(self) -> bool:
        number = 0
        while True:
            self.say(f"word{number}")
            number += 1
            message = self.next(0.02)
            if message is not None and self.is_interrupt(message):
                return True

    def do_tool(self) -> bool:
        self.tool("sleep 300")
        child = subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)
        while child.poll() is None:
            message = self.next(0.05)
            if message is not None and self.is_interrupt(message):
                child.kill()
                return True
        return False

    def do_shell(self) -> bool:
        words = self.prompt.partition("sh: ")[2]
        done = subprocess.run(["/bin/sh", "-c", words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.say(done.stdout)
        return False

    def do_leave(self) -> bool:
        subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)
        self.say("left")
        return False

    def do_draft(self) -> None:
        """Write two files into the contained workspace, and ask for the delivery of one."""
        for name in ("report.md", "extra.md"):
            with open(name, "w", encoding="utf-8") as file:
                file.write(f"# {name}\n")
        wish = {"act": "deliver", "name": "extra.md", "target": os.path.join(os.environ["HOME"], "extra.md")}
        place = os.path.join(os.environ["IMI_REQUESTS"], "1.json")
        with open(place + "~", "w", encoding="utf-8") as file:
            json.dump(wish, file)
        os.rename(place + "~", place)

    def do_report(self) -> bool:
        """Write a report in two steps; the second makes it another one."""
        path = os.path.join(os.environ["IMI_RUN_DIR"], "work_products", "report.md")
        with open(path, "a") as file:
            file.write("# Report\n")
        with open(f"{path}.tmp", "w") as file:
            file.write("not finished")
        return False

    def do_complain(self) -> bool:
        sys.stderr.write("the model is \x1b[31mslow\n")
        sys.stderr.flush()
        return False

    def do_die(self) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    def do_exit7(self) -> bool:
        os._exit(7)

    def do_torn(self) -> bool:
        sys.stdout.write('{"type":"assistant","mess')
        sys.stdout.flush()
        return self.do_die()

    def do_deaf(self) -> bool:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.say("deaf")
        while True:
            time.sleep(1)

    def do_pace(self) -> bool:
        """Say 200 lines, ten in a second."""
        for number in range(_PACED):
            self.say(f"line {number}")
            time.sleep(0.1)
        return False

    def do_flood(self) -> bool:
        for number in range(_FLOOD):
            self.say(f"line {number}")
        return False

    def say(self, text: str) -> None:
        raise NotImplementedError

    def tool(self, command: str) -> str:
        """A call of a command begins; returns its id."""
        raise NotImplementedError

    def ask(self, command: str) -> bool:
        raise NotImplementedError

    def is_interrupt(self, message: Record) -> bool:
        raise NotImplementedError


class FakeClaude(FakeAgent):
    def __init__(self, words: list[str]) -> None:
        super().__init__()
        given = dict(itertools.pairwise(words))
        self.session = given.get("--resume") or given.get("--session-id") or str(uuid.uuid4())
        self.folder = os.path.join(os.environ["HOME"], ".claude", "projects", "fake")
        self.transcript = os.path.join(self.folder, f"{self.session}.jsonl")
        known = os.path.exists(self.transcript)
        if "--resume" in given and not known:
            sys.exit(f"No conversation found with session ID: {self.session}")
        if "--session-id" in given and known:
            sys.exit(f"Error: Session ID {self.session} is already in use.")
        self.mode = given.get("--permission-mode", "default")
        self.cost = 0.0

    def serve(self) -> None:
        while True:
            message = self.next()
            assert message is not None
            if message["type"] == "user":
                self.turn(message)
            elif message["type"] == "control_request":
                self.reply(message)
                if message["request"]["subtype"] == "end_session":
                    return

    def turn(self, message: Record) -> None:
        os.makedirs(self.folder, exist_ok=True)
        with open(self.transcript, "a") as file:
            file.write(json.dumps(message) + "\n")
        init = {"cwd": os.getcwd(), "model": "fake", "permissionMode": self.mode, "claude_code_version": "2.1.326"}
        self.emit("system", {"subtype": "init", **init})
        self.emit("user", {**message, "isReplay": True})
        prompt = message["message"]["content"]
        end = self.act(prompt if isinstance(prompt, str) else prompt[0]["text"])
        usage = {"fake": {"inputTokens": 10, "outputTokens": 5}}
        if end == "logged out":
            text = "Invalid API key · Please run /login"
            self.emit("result", {"subtype": "success", "is_error": True, "result": text, "modelUsage": usage})
        elif end == "limited":
            self.limit(3600)
            text = "You've hit your limit · resets 2pm (Europe/Berlin)"
            self.emit("result", {"subtype": "success", "is_error": True, "result": text, "modelUsage": usage})
        elif end == "interrupted":
            content = [{"type": "text", "text": "[Request interrupted by user]"}]
            self.emit("user", {"message": {"role": "user", "content": content}, "parent_tool_use_id": None})
            self.emit("result", {"subtype": "error_during_execution", "is_error": True, "modelUsage": usage})
        else:
            self.cost += 0.01
            result = {"subtype": "success", "is_error": False, "result": "Hello.", "total_cost_usd": self.cost}
            self.emit("result", {**result, "modelUsage": usage, "permission_denials": []})

    def emit(self, kind: str, record: Record) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1_000_000 % 1000:03d}Z"
        self.out({"uuid": str(uuid.uuid4()), "timestamp": now, **record, "type": kind, "session_id": self.session})

    def assistant(self, block: Record) -> None:
        message = {"id": f"msg_{uuid.uuid4()}", "role": "assistant", "model": "fake", "content": [block]}
        self.emit("assistant", {"message": {**message, "stop_reason": None, "usage": {}}, "parent_tool_use_id": None})

    def say(self, text: str) -> None:
        self.assistant({"type": "text", "text": text})

    def tool(self, command: str) -> str:
        ident = f"toolu_{uuid.uuid4()}"
        self.assistant({"type": "tool_use", "id": ident, "name": "Bash", "input": {"command": command}})
        return ident

    def do_question(self) -> bool:
        """Ask the user which of two databases to use, and repeat the answer."""
        ident, asked = f"toolu_{uuid.uuid4()}", "Which database?"
        given = {"questions": [{"question": asked, "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}]}]}
        self.assistant({"type": "tool_use", "id": ident, "name": "AskUserQuestion", "input": given})
        answer = self.request(ident, "AskUserQuestion", given)
        self.say(f"answered {json.dumps(answer.get('updatedInput', {}).get('answers'))}")
        return False

    def ask(self, command: str) -> bool:
        call = self.tool(command)
        return bool(self.request(call, "Bash", {"command": command})["behavior"] == "allow")

    def request(self, call: str, tool: str, given: Record) -> Record:
        """Wait for the decision about a tool call."""
        ident = str(uuid.uuid4())
        request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": call}
        self.out({"type": "control_request", "request_id": ident, "request": request})
        while True:
            message = self.next()
            assert message is not None
            response = message.get("response", {})
            if response.get("request_id") == ident:
                decision: Record = response["response"]
                self.out({"type": "control_response", "response": response})
                self.hold()
                failed = decision["behavior"] != "allow"
                content = [{"tool_use_id": call, "type": "tool_result", "content": "ok", "is_error": failed}]
                self.emit("user", {"message": {"role": "user", "content": content}, "parent_tool_use_id": None})
                return decision
            self.reply(message)

    def reply(self, message: Record) -> None:
        answer = {"subtype": "success", "request_id": message.get("request_id"), "response": {}}
        self.out({"type": "control_response", "response": answer})

    def is_interrupt(self, message: Record) -> bool:
        if message.get("request", {}).get("subtype") == "end_session":
            self.reply(message)
            sys.exit(0)
        self.reply(message)
        return bool(message.get("request", {}).get("subtype") == "interrupt")

    def limit(self, seconds: int) -> None:
        info = {"status": "rejected", "resetsAt": int(time.time()) + seconds, "rateLimitType": "five_hour"}
        self.out({"type": "rate_limit_event", "rate_limit_info": info, "session_id": self.session})

    def do_pause(self) -> bool:
        self.limit(3600)
        while not os.path.exists(os.path.join(os.environ["HOME"], "limit-over")):
            time.sleep(0.02)
        self.say("on it again")
        return False

    def do_commit(self) -> bool:
        """Write a file and commit it."""
        self.do_write()
        call = self.tool("git commit")
        subprocess.run(["git", "add", "made.txt"], check=True)
        subprocess.run(["git", "commit", "-qm", "feat: made by an agent"], check=True)
        content = [{"tool_use_id": call, "type": "tool_result", "content": "ok", "is_error": False}]
        self.emit("user", {"message": {"role": "user", "content": content}, "parent_tool_use_id": None})
        return False

    def do_write(self) -> bool:
        """Write a file with the tool for it."""
        path = os.path.join(os.getcwd(), "made.txt")
        with open(path, "w") as file:
            file.write("made")
        given = {"file_path": path, "content": "made"}
        self.assistant({"type": "tool_use", "id": "toolu_write", "name": "Write", "input": given})
        content = [{"tool_use_id": "toolu_write", "type": "tool_result", "content": "ok", "is_error": False}]
        self.emit("user", {"message": {"role": "user", "content": content}, "parent_tool_use_id": None})
        return False

    def do_spend(self, usd: float = 0.01) -> bool:
        """End a turn that has cost as much again, and go on with the next one."""
        self.cost += usd
        result = {"subtype": "success", "is_error": False, "result": "Hello.", "total_cost_usd": self.cost}
        self.emit("result", {**result, "modelUsage": {}, "permission_denials": []})
        return False

    def do_dear(self) -> bool:
        return self.do_spend(0.03)

    def do_fetch(self) -> bool:
        block = {"type": "tool_use", "id": "toolu_fetch", "name": "WebFetch", "input": {"url": "https://a.org/B c?"}}
        self.assistant(block)
        content = [{"tool_use_id": "toolu_fetch", "type": "tool_result", "content": "<p>page</p>", "is_error": False}]
        self.emit("user", {"message": {"role": "user", "content": content}, "parent_tool_use_id": None})
        return False


class FakeClaudeWindow(FakeAgent):
    """Claude's own screen: it reads keys, runs the hooks of `--settings`, and asks beside the hook that waits for an answer."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        cut = words.index("--") if "--" in words else len(words)
        given = dict(itertools.pairwise(words[:cut]))
        self.prompt = words[cut + 1] if cut + 1 < len(words) else ""
        self.session = given.get("--resume") or given["--session-id"]
        with open(given["--settings"]) as file:
            self.hooks = json.load(file)["hooks"]
        self.folder = os.path.join(os.environ["HOME"], ".claude", "projects", "fake")
        self.number = 0

    def serve(self) -> None:
        tty.setcbreak(0)
        self.show("\x1b[?2004hwelcome")
        self.event("SessionStart", source="startup")
        text = self.prompt
        while True:
            if text:
                self.turn(text)
            text = self.typed()

    def typed(self) -> str:
        """A prompt, up to the enter that is a key of its own and not a part of what was pasted."""
        text = ""
        while not text.endswith("\r") or ("\x1b[200~" in text and "\x1b[201~" not in text):
            text += os.read(0, 1 << 16).decode().replace("\n", "\r")
        return re.sub(r"\x1b\[20[01]~", "", text).strip("\r")

    def turn(self, prompt: str) -> None:
        os.makedirs(self.folder, exist_ok=True)
        self.number += 1
        usage = {"input_tokens": 1_000_000, "output_tokens": 100_000, "cache_read_input_tokens": 100_000}
        message = {"id": f"m{self.number}", "role": "assistant", "model": "fake-1", "content": [], "usage": usage}
        self.note({"type": "assistant", "uuid": f"u{self.number}", "message": message})
        self.event("UserPromptSubmit", prompt=prompt)
        if self.act(prompt) == "completed":
            self.event("Stop", last_assistant_message="Hello.", background_tasks=[])
        else:
            said = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}
            self.note({"type": "user", "uuid": f"s{self.number}", "message": said})

    def note(self, record: Record) -> None:
        """Add a record to the transcript."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        with open(os.path.join(self.folder, f"{self.session}.jsonl"), "a") as file:
            file.write(json.dumps({**record, "sessionId": self.session, "timestamp": at}) + "\n")

    def event(self, name: str, **payload: Any) -> None:
        for hook in self.run_hooks(name, payload):
            hook.wait(60)

    def run_hooks(self, name: str, payload: Record) -> list[subprocess.Popen[bytes]]:
        transcript = os.path.join(self.folder, f"{self.session}.jsonl")
        about = {"session_id": self.session, "transcript_path": transcript, "cwd": os.getcwd()}
        given = {**about, "hook_event_name": name, **payload}
        started = []
        for group in self.hooks.get(name, []):
            for hook in group["hooks"]:
                process = subprocess.Popen(
                    ["/bin/sh", "-c", hook["command"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
                assert process.stdin is not None
                process.stdin.write(json.dumps(given, indent=1).encode())
                process.stdin.close()
                started.append(process)
        return started

    def show(self, text: str) -> None:
        sys.stdout.write(f"{text}\r\n")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        self.show(text)

    def next(self, seconds: float | None = None) -> Record | None:
        ready = select.select([0], [], [], seconds)[0]
        return {"key": os.read(0, 64).decode()} if ready else None

    def is_interrupt(self, message: Record) -> bool:
        return str(message["key"]) == "\x1b"

    def tool(self, command: str) -> str:
        self.number += 1
        ident = f"toolu_{self.session}_{self.number}"
        self.event("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id=ident)
        return ident

    def ask(self, command: str) -> bool:
        call = {"tool_name": "Bash", "tool_input": {"command": command}}
        ident = self.tool(command)
        hooks = self.run_hooks("PermissionRequest", call)
        self.show(f"allow {command}? y/n")
        allowed = self.decision(hooks)
        self.hold()
        for hook in hooks if not allowed else ():  # the real one ends them only with a refusal
            hook.terminate()
            hook.wait(60)
        self.event("PostToolUse", **call, tool_use_id=ident, tool_response={})
        return allowed

    def decision(self, hooks: list[subprocess.Popen[bytes]]) -> bool:
        """By a key, or by the first hook that prints one."""
        outputs = [hook.stdout for hook in hooks if hook.stdout is not None]
        while True:
            for ready in select.select([0, *outputs], [], [])[0]:
                if ready == 0:
                    return os.read(0, 64) == b"y"
                printed = ready.read()
                outputs.remove(ready)
                if printed:
                    decision = json.loads(printed)["hookSpecificOutput"]["decision"]
                    return bool(decision["behavior"] == "allow")


class FakeCodex(FakeAgent):
    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.folder = os.path.join(os.environ["HOME"], ".codex", "fake")
        self.thread = ""
        self.number = 0
        self.turn = ""

    def serve(self) -> None:
        while True:
            message = self.next()
            assert message is not None
            self.handle(message)

    def handle(self, message: Record) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            self.reply(message, {"userAgent": "imi/0.169.0 (Debian)"})
        elif method in ("thread/start", "thread/resume"):
            self.begin(message, params.get("threadId"))
        elif method == "turn/start":
            self.run_turn(message, params["input"][0]["text"])

    def begin(self, message: Record, resumed: str | None) -> None:
        if resumed is not None and not os.path.exists(os.path.join(self.folder, resumed)):
            self.out({"id": message["id"], "error": {"message": f"no rollout found for thread id {resumed}"}})
            return
        self.thread = resumed or str(uuid.uuid4())
        os.makedirs(self.folder, exist_ok=True)
        open(os.path.join(self.folder, self.thread), "w").close()
        self.reply(message, {"thread": {"id": self.thread}, "model": "fake"})

    def run_turn(self, message: Record, prompt: str) -> None:
        self.turn = str(uuid.uuid4())
        self.reply(message, {"turn": {"id": self.turn, "status": "inProgress"}})
        self.notify("turn/started", {"turn": {"id": self.turn, "status": "inProgress"}})
        self.item("completed", {"type": "userMessage", "content": [{"type": "text", "text": prompt}]})
        end, error = self.act(prompt), None
        used = {
            "inputTokens": 1_100_000,
            "cachedInputTokens": 100_000,
            "outputTokens": 100_000,
            "totalTokens": 1_200_000,
        }
        self.notify("thread/tokenUsage/updated", {"tokenUsage": {"total": used, "last": used}})
        if end == "limited":
            windows = {
                "primary": {"usedPercent": 100, "resetsAt": int(time.time()) + 3600},
                "secondary": {"usedPercent": 7},
            }
            self.notify("account/rateLimits/updated", {"rateLimits": windows})
            error = {"message": "You've hit your usage limit.", "codexErrorInfo": "usageLimitExceeded"}
            end = "failed"
        self.notify("turn/completed", {"turn": {"id": self.turn, "status": end, "error": error}})

    def reply(self, message: Record, result: Record) -> None:
        self.out({"id": message["id"], "result": result})

    def notify(self, method: str, params: Record) -> None:
        self.out({"method": method, "params": {"threadId": self.thread, "turnId": self.turn, **params}})

    def item(self, moment: str, item: Record, ident: str | None = None) -> str:
        self.number += 1
        ident = ident or f"item_{self.turn}_{self.number}"
        self.notify(f"item/{moment}", {"item": {"id": ident, **item}})
        return ident

    def say(self, text: str) -> None:
        self.item("completed", {"type": "agentMessage", "text": text})

    def tool(self, command: str) -> str:
        return self.item("started", {"type": "commandExecution", "command": f"/bin/bash -lc '{command}'"})

    def ask(self, command: str) -> bool:
        call = self.tool(command)
        params = {"threadId": self.thread, "turnId": self.turn, "itemId": call, "command": command}
        self.out({"id": self.number, "method": "item/commandExecution/requestApproval", "params": params})
        asked = self.number
        while (message := self.next()) is None or message.get("id") != asked:
            pass
        allowed: bool = message["result"]["decision"] == "accept"
        self.notify("serverRequest/resolved", {"requestId": asked})
        done = {"type": "commandExecution", "status": "completed" if allowed else "declined", "exitCode": 0}
        self.item("completed", {**done, "command": command, "aggregatedOutput": "ok"}, call)
        return allowed

    def is_interrupt(self, message: Record) -> bool:
        if message.get("method") == "turn/interrupt":
            self.reply(message, {})
            return True
        return False


class FakeAcp(FakeAgent):
    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.folder = os.path.join(os.environ["HOME"], ".acp-fake")
        self.session = ""
        self.number = 100

    def serve(self) -> None:
        while True:
            message = self.next()
            assert message is not None
            params = message.get("params", {})
            if message.get("method") == "initialize":
                self.reply(message, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
            elif message.get("method") in ("session/new", "session/load"):
                self.begin(message, params.get("sessionId"))
            elif message.get("method") == "session/prompt":
                end = self.act(params["prompt"][0]["text"])
                if end == "limited":
                    said = "You have exhausted your capacity on this model. Your quota will reset after 59m60s."
                    self.out({"id": message["id"], "error": {"code": 429, "message": said}})
                    continue
                self.reply(message, {"stopReason": "cancelled" if end == "interrupted" else "end_turn"})

    def begin(self, message: Record, loaded: str | None) -> None:
        os.makedirs(self.folder, exist_ok=True)
        if loaded is not None and not os.path.exists(os.path.join(self.folder, loaded)):
            self.out({"id": message["id"], "error": {"code": -32603, "message": f"no session {loaded}"}})
            return
        self.session = loaded or str(uuid.uuid4())
        open(os.path.join(self.folder, self.session), "w").close()
        if loaded is not None:
            self.say("said before")
        self.reply(message, {} if loaded else {"sessionId": self.session})

    def reply(self, message: Record, result: Record) -> None:
        self.out({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def update(self, kind: str, update: Record) -> None:
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **update}}
        self.out({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, text: str) -> None:
        self.update("plan", {"entries": []})  # ends the message before
        for part in (text[:2], text[2:]):
            self.update("agent_message_chunk", {"content": {"type": "text", "text": part}})

    def tool(self, command: str) -> str:
        self.number += 1
        call = {"toolCallId": f"call_{self.number}", "title": command, "kind": "execute", "status": "pending"}
        self.update("tool_call", call)
        return f"call_{self.number}"

    def ask(self, command: str) -> bool:
        call = self.tool(command)
        self.number += 1
        names = (("once", "allow_once", "Allow"), ("always", "allow_always", "Always"), ("no", "reject_once", "Reject"))
        options = [{"optionId": ident, "kind": kind, "name": name} for ident, kind, name in names]
        asked = {"toolCall": {"toolCallId": call, "title": command, "kind": "execute"}, "options": options}
        request = {"jsonrpc": "2.0", "id": self.number, "method": "session/request_permission"}
        self.out({**request, "params": {"sessionId": self.session, **asked}})
        while (message := self.next()) is None or message.get("id") != self.number:
            pass
        allowed = message["result"]["outcome"].get("optionId") in ("once", "always")
        self.update("tool_call_update", {"toolCallId": call, "status": "completed" if allowed else "failed"})
        return allowed

    def is_interrupt(self, message: Record) -> bool:
        return message.get("method") == "session/cancel"


def _of_other_module(name: str, words: list[str]) -> Any:
    """The program of another module that these arguments start; None for one on its standard streams."""
    if name == "aider":
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
        from tests.runs import fake_aider

        return fake_aider.FakeAider(words)
    if not {"--listen", "--remote", "--port", "--session-id", "--resume"} & set(words) or name == "claude":
        return None
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    from tests.runs import fake_screens

    return fake_screens.program(name, words)


def _login() -> str | None:
    """What the program says of its login; None: it was not asked."""
    if sys.argv[2:4] not in (["auth", "status"], ["login", "status"]):
        return None
    return "Not logged in" if os.path.exists(os.path.join(os.environ["HOME"], "logged-out")) else "Logged in"


if __name__ == "__main__":
    said = _login()
    if said is not None:
        print(said)
        sys.exit(said.startswith("Not"))
    programs = {"claude": FakeClaude if "-p" in sys.argv else FakeClaudeWindow, "codex": FakeCodex}
    made = _of_other_module(sys.argv[1], sys.argv[2:]) or programs.get(sys.argv[1], FakeAcp)(sys.argv[2:])
    made.serve()
