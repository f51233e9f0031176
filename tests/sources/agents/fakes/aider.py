"""A stand-in for aider: writes the chat history in the order of the real one, told what to do on stdin.

Run as `python fakes/bin/aider`, in the worktree. Commands, one a line, each answered with `ok`: prompt TEXT, command
TEXT, reply TEXT, tokens, edit FILE, yes QUESTION, no QUESTION, run COMMAND, retry, fail TEXT, esc, quit.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path


class Fake:
    def __init__(self) -> None:
        self.history = Path(".aider.chat.history.md")
        self.inputs = Path(".aider.input.history")
        self.append(f"\n# aider chat started at {datetime.now():%Y-%m-%d %H:%M:%S}\n\n")
        for text in (
            f"{sys.argv[0]} --model openai/model-1",
            "Aider v0.86.2",
            "Model: openai/model-1 with whole edit format",
            "Git repo: .git with 1 files",
            "Repo-map: using 1024 tokens, auto refresh",
        ):
            self.say(text)

    def append(self, text: str) -> None:
        with self.history.open("a") as file:
            file.write(text)

    def say(self, text: str) -> None:
        self.append(f"> {text.strip()}  \n")

    def prompt(self, text: str) -> None:
        with self.inputs.open("a") as file:
            file.write(f"\n# {datetime.now()}\n+{text}\n")
        self.append(f"\n#### {text}  \n")

    def reply(self, text: str) -> None:
        self.append(f"\n{text}\n\n")

    def tokens(self, _: str = "") -> None:
        self.say("Tokens: 4.2k sent, 42 received. Cost: $0.02 message, $0.05 session.")

    def edit(self, path: str) -> None:
        self.say(f"Applied edit to {path}")
        self.say(f"Commit b2834c1 feat: change {path}")
        self.say("You can use /undo to undo and discard each aider commit.")

    def yes(self, text: str) -> None:
        self.say(f"{text} (Y)es/(N)o [Yes]: y")

    def no(self, text: str) -> None:
        self.say(f"{text} (Y)es/(N)o [Yes]: n")

    def run(self, command: str) -> None:
        self.say(f"Running {command}")

    def retry(self, _: str = "") -> None:
        self.say("litellm.RateLimitError: too many")
        self.say("Retrying in 0.2 seconds...")

    def fail(self, text: str) -> None:
        self.say(f"litellm.BadRequestError: {text}")

    def esc(self, _: str = "") -> None:
        for line in ("", "", "^C again to exit"):
            self.append(f"> {line}  \n" if line else ">  \n")


def main() -> None:
    fake = Fake()
    verbs = {
        "prompt": fake.prompt,
        "command": fake.prompt,
        "reply": fake.reply,
        "tokens": fake.tokens,
        "edit": fake.edit,
        "yes": fake.yes,
        "no": fake.no,
        "run": fake.run,
        "retry": fake.retry,
        "fail": fake.fail,
        "esc": fake.esc,
    }
    print("ok", flush=True)
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "quit":
            os._exit(0)
        verbs[verb](rest)
        print("ok", flush=True)


if __name__ == "__main__":
    main()
