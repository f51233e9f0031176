"""A fake aider: without a terminal it takes one prompt from a file, on its screen prompts and answers that are typed. It writes
the chat history of the real one.

Beside the marks of `fake_agent.py`: [[edit]] edits a file, [[lint]] edits it so that a linter finds a problem first, [[silent]]
ends without an answer. With `logged-out` in its home it has no key and waits for a login.
Shapes: recorded from aider 0.86.2.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from datetime import datetime
from typing import Any

from tests.runs.fake_agent import FakeAgent

_PROBLEMS = (
    "",
    "# Fix any errors below, if possible.",
    "",
    "Traceback (most recent call last):",
    "SyntaxError: invalid syntax",
    "",
    "Attempt to fix lint errors? (Y)es/(N)o [Yes]: y",
)


class FakeAider(FakeAgent):
    def __init__(self, words: list[str]) -> None:
        super().__init__()
        given = dict(itertools.pairwise(words))
        self.history = given["--chat-history-file"]
        self.file = given.get("--message-file")
        self.interrupted = self.said = False
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: object) -> None:
        self.interrupted = True

    def serve(self) -> None:
        self._write(f"\n# aider chat started at {datetime.now():%Y-%m-%d %H:%M:%S}\n\n")
        if os.path.exists(os.path.join(os.environ["HOME"], "logged-out")):
            self._own("No LLM model was specified and no API keys were provided.")
            time.sleep(300)
        self._own("aider --yes-always", "Aider v0.86.2", "Model: fake with whole edit format")
        if self.file is not None:
            with open(self.file, encoding="utf-8") as file:
                self._take(file.read())
            return
        while True:
            if text := self._typed(f"{'─' * 60}\n> "):
                self._take(text)

    def _take(self, message: str) -> None:
        self._write("\n#### " + "  \n#### ".join(message.splitlines()) + "  \n")
        if "[[silent]]" in message:
            return
        self.interrupted = False
        end = self.act(message)
        if end == "interrupted":
            self._own("", "", "^C again to exit")
        elif end == "limited":
            self._own("litellm.RateLimitError: the limit is reached")

    def _typed(self, question: str) -> str:
        """What is typed behind this, up to Enter."""
        sys.stdout.write(question)
        sys.stdout.flush()
        return os.read(0, 1 << 16).decode().rstrip("\n")

    def next(self, seconds: float | None = None) -> dict[str, Any] | None:
        """It reads no messages; a signal interrupts it."""
        time.sleep(seconds or 0)
        return {"interrupt": True} if self.interrupted else None

    def is_interrupt(self, message: dict[str, Any]) -> bool:
        return True

    def say(self, text: str) -> None:
        if self.file is None:
            sys.stdout.write(f"{text}\n")
        if self.said:
            self._own("Add file to the chat? (Y)es/(N)o [Yes]: y")  # so that another answer follows
        self.said = True
        self._write(f"\n{text}\n\n")
        self._own("Tokens: 10 sent, 5 received. Cost: $0.01 message, $0.01 session.")

    def tool(self, command: str) -> str:
        self._own(f"Running {command}")
        return command

    def ask(self, command: str) -> bool:
        question, answer = "Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]: ", "n"
        if self.file is None:
            answer = self._typed(f"\n{command}\n{question}") or "y"
        self._own(command, f"{question}{answer}")
        return answer == "y"

    def do_edit(self) -> bool:
        self.say("I change it.")
        with open("made.py", "w", encoding="utf-8") as file:
            file.write("x = 2\n")
        self._own("Applied edit to made.py")
        return False

    def do_lint(self) -> bool:
        self.do_edit()
        self._own(*_PROBLEMS)
        return self.do_edit()

    def _own(self, *lines: str) -> None:
        self._write("".join(f"> {line}  \n" for line in lines))

    def _write(self, text: str) -> None:
        with open(self.history, "a", encoding="utf-8") as file:
            file.write(text)
