"""The bridge of an aider without a terminal: runs it on one prompt, and records its chat history line by line.

aider reads no messages and writes no records, so its history is its only report. An interrupt reaches it as a signal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.runs.providers.aider import CHAT
from imi_monitor.runs.server_bridge import Message, ServerBridge
from imi_monitor.sources.agents.aider.reader import chat_id
from imi_monitor.sources.agents.aider.reducer import CHAT_START

_SCREEN: Final = "screen"  # what aider would show on a terminal
_LOOKS: Final = 0.2  # seconds between two looks at the history
_SHOWN = 4000  # bytes of the screen of an aider that failed
_PROMPT = b"####"
_NO_MODEL = b"> No LLM model was specified and no API keys were provided."


class AiderBridge(ServerBridge):
    pause = _LOOKS

    def begin(self) -> None:
        """Before its process is started."""
        self._path = self.folder.file(CHAT)
        self._position = 0
        self.prompted = False
        self._why: str | None = None
        self.note({"folder": os.path.realpath(os.getcwd())})

    def command(self) -> list[str]:
        return [*self.plan["argv"], *([] if _is_in_repository() else ["--no-git"]), *self.plan["flags"]]

    def start(self) -> None:
        self.begin()
        with open(self.folder.file(_SCREEN), "ab") as shown:
            self.screen = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=shown,
                # it says yes to every question, also whether a page should be opened
                env={**os.environ, "BROWSER": "true"},
            )

    def run(self) -> int:
        code = super().run()
        self.note({"exit": code, "why": self._why})
        if code:
            self.show_end()
        return code

    def sources(self) -> list[Any]:
        return []

    def receive(self) -> None:
        self._read(last=False)

    def end(self) -> None:
        self._read(last=True)

    def send(self, message: Message) -> None:
        if message.get("interrupt") and self.screen is not None:
            self.screen.send_signal(signal.SIGINT)

    def _read(self, *, last: bool) -> None:
        """Record the new lines of the history; one that is being written only at the end."""
        with suppress(FileNotFoundError), open(self._path, "rb") as file:
            file.seek(self._position)
            data = file.read()
            whole = data if last else data[: data.rfind(b"\n") + 1]
            self._position += len(whole)
            for line in whole.split(b"\n")[: None if last else -1]:
                self._take(line)

    def _take(self, line: bytes) -> None:
        found: Message = {"chat": line.decode("utf-8", "replace")}
        if line.startswith(CHAT_START):
            found["session"] = chat_id(self._path, line)
        self.prompted = self.prompted or line.startswith(_PROMPT)
        self.note(found)
        if not self.prompted and line.startswith(_NO_MODEL) and self.screen is not None:
            self._why = (
                "it knows no model and no API key: set one in its settings or in the environment, or give --model"
            )
            self.screen.terminate()  # it would wait for a login in a browser

    def note(self, found: Message) -> None:
        self.record(json.dumps({**found, "timestamp": times.stamp()}).encode())

    def show_end(self) -> None:
        with open(self.folder.file(_SCREEN), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SHOWN))
            sys.stderr.write(file.read().decode("utf-8", "replace"))


def _is_in_repository() -> bool:
    """Elsewhere aider would make a repository."""
    try:
        return layout.discover(os.getcwd()) is not None
    except ImiError:
        return True
