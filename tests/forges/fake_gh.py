"""A `gh` for tests: gives prepared answers and records its arguments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ANSWER: dict[str, Any] = {
    "number": 123,
    "title": "feat: Add authentication",
    "author": {"login": "alice"},
    "baseRefName": "main",
    "headRefName": "feat-add-auth",
    "headRepositoryOwner": {"login": "acme"},
    "headRepository": {"name": "app"},
    "isCrossRepository": False,
    "maintainerCanModify": False,
    "url": "https://github.com/acme/app/pull/123",
    "state": "OPEN",
}


class FakeGh:
    """Put `folder` in front of PATH."""

    program = "gh"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.asked = folder / "asked"

    @property
    def path(self) -> str:
        return f"{self.folder}:{os.environ['PATH']}"

    def script(self, body: str) -> None:
        program = self.folder / self.program
        program.write_text(
            f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >{self.asked}\n'
            f"pwd >{self.folder}/cwd\nenv >{self.folder}/env\n{body}\n"
        )
        program.chmod(0o755)

    def answers(self, **changes: Any) -> None:
        self.returns(ANSWER | changes)

    def returns(self, tree: object) -> None:
        self.says(json.dumps(tree).encode())

    def says(self, output: bytes) -> None:
        (self.folder / "answer").write_bytes(output)
        self.script(f"cat {self.folder}/answer")

    def not_logged_in(self) -> None:
        self.script("echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4")

    @property
    def words(self) -> list[str]:
        return self.asked.read_text().splitlines()
