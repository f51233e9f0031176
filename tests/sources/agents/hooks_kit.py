"""Hook payloads in the form of the real programs, and a spool for them."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imi_monitor import actions
from imi_monitor.model.agent import Truth
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.hooks.reader import HookReader

PROGRAM = Path(actions.__file__).parent / "hooks" / "imi-hook.sh"
START = 1_800_000_000.0


def claude(event: str, session: str = "s1", **more: Any) -> dict[str, Any]:
    return {
        "session_id": session,
        "transcript_path": "/t.jsonl",
        "cwd": more.pop("cwd", None),
        "permission_mode": "default",
        "hook_event_name": event,
        **more,
    }


def bash(event: str, command: str, ident: str | None, **more: Any) -> dict[str, Any]:
    made = claude(event, tool_name="Bash", tool_input={"command": command, "description": "why"}, **more)
    return {**made, "tool_use_id": ident} if ident else made


@dataclass
class Feed:
    """A spool in a home of its own, with a clock that advances one second per event."""

    home: Path
    tree: Path
    cli: str = "claude"
    now: float = START
    reader: HookReader = field(init=False)
    processes: tuple[AgentProcess, ...] = ()
    number: int = 0
    clock_set: float = 0.0  # seconds by which the clock of the machine was set forward

    @property
    def spool(self) -> Path:
        return self.home / ".local" / "state" / "imi" / "hooks" / "spool"

    def __post_init__(self) -> None:
        self.spool.mkdir(parents=True, exist_ok=True)
        self.tree.mkdir(exist_ok=True)
        self.reader = HookReader(clock=lambda: self.now)

    def world(self) -> ReadContext:
        return ReadContext(self.now + self.clock_set + 0.05, str(self.home), {}, (str(self.tree),), self.processes)

    def put(self, payload: dict[str, Any], *, env: str = "", whole: bool = True) -> Path:
        self.now += 1
        self.number += 1
        if payload.get("cwd") is None:
            payload["cwd"] = str(self.tree)
        path = self.spool / f"e.1.{self.number:06}"
        head = f"imi-hook 1 {self.cli} 77\nhost={os.uname().nodename}\n{env}\n"
        path.write_bytes(head.encode() + json.dumps(payload).encode() + (b"\nimi-end\n" if whole else b""))
        os.utime(path, ns=(int(self.now * 1e9), int(self.now * 1e9)))
        return path

    def see(self, *payloads: dict[str, Any]) -> Truth:
        """The state after these events, with a read after each."""
        for payload in payloads:
            path = self.put(payload)
            self.read(frozenset({str(path)}))
        return self.truth()

    def read(self, touched: frozenset[str] | None = None) -> list[Sighting]:
        return list(self.reader.read(self.world(), touched))

    def one(self) -> Sighting:
        (found,) = self.read(frozenset())
        return found

    def truth(self, alive: bool | None = True) -> Truth:
        return decide(self.one().evidence, alive, datetime.fromtimestamp(self.now + 0.05, UTC))


def fire(folder: Path, payload: bytes, cli: str = "claude", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run the real hook program as an agent does."""
    return subprocess.run(
        ["/bin/sh", str(folder / "imi-hook.sh"), cli],
        input=payload,
        capture_output=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], **env},
    )


def installed(folder: Path) -> Path:
    """Install the hook program beside a spool."""
    (folder / "spool").mkdir(parents=True)
    (folder / "imi-hook.sh").write_bytes(PROGRAM.read_bytes())
    return folder
