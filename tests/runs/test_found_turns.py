"""The last turn of an agent that imi neither started nor watched: `imi diff --turn` shows it, from what its program recorded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.sources.agents.claude.live_registry import slug
from tests.helpers import Repo, imi

SESSION = "0199a7c2-1111-4222-8333-444455556666"


def record(tree: Path, **fields: object) -> None:
    """Add one record to Claude's transcript of a session in this worktree."""
    folder = Path(os.environ["HOME"]) / ".claude" / "projects" / slug(os.path.realpath(tree))
    folder.mkdir(parents=True, exist_ok=True)
    common = {"cwd": os.path.realpath(tree), "sessionId": SESSION, "version": "2.1.326", "isSidechain": False}
    with open(folder / f"{SESSION}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"parentUuid": None, **common, **fields, "timestamp": times.stamp()}) + "\n")


def prompt(tree: Path) -> None:
    """A turn begins; what is written before and behind it has other times."""
    time.sleep(0.06)
    record(tree, type="user", uuid="u", message={"role": "user", "content": "please"})
    time.sleep(0.06)


def write(tree: Path, name: str, text: str) -> None:
    """The agent writes a file, and its program records what it was."""
    path = tree / name
    old = path.read_text() if path.exists() else None
    path.write_text(text)
    told = {"filePath": str(path), "originalFile": old, "structuredPatch": [], **({} if old else {"type": "create"})}
    record(tree, type="user", uuid="r", message={"role": "user", "content": []}, toolUseResult=told)


def test_a_turn_that_nothing_saw(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    feat = repo.worktree("feat-x")
    feat.write("README.md", "hello\nmine\n")
    prompt(feat.path)
    write(feat.path, "early.py", "of the turn before\n")
    prompt(feat.path)
    write(feat.path, "README.md", "hello\nmine\nagent\n")
    write(feat.path, "new.py", "1\n2\n")
    feat.write("by-command.txt", "x\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"@{int(time.time()) + 5} +0000")
    feat.git("add", "new.py")
    feat.commit("the agent commits")
    done = imi("diff", "x", "--turn", cwd=repo.path)
    first, *lines = done.out.splitlines()
    assert first.startswith("since claude") and first.endswith(" ago, by its records")
    assert [line for line in lines if line.startswith("──")] == [
        "── README.md  +1 −0",
        "── by-command.txt  ~ what it was is likely, not recorded, untracked, +1 −0",
        "── new.py  untracked, +2 −0",
    ]
    again = imi("diff", "x", "--turn", "--json", cwd=repo.path).data
    assert {one["path"]: one["likely"] for one in again["files"]} == {
        "README.md": False,
        "by-command.txt": True,
        "new.py": False,
    }
    prompt(feat.path)
    write(feat.path, "README.md", "hello\n")
    assert "── README.md  +0 −2" in imi("diff", "x", "--turn", cwd=repo.path).out, "the next turn begins anew"
    assert "new.py" not in imi("diff", "x", "--turn", cwd=repo.path).out


def test_an_agent_elsewhere_says_nothing_about_a_worktree(repo: Repo) -> None:
    feat, other = repo.worktree("feat-x"), repo.worktree("feat-y")
    prompt(other.path)
    write(other.path, "new.py", "1\n")
    done = imi("diff", "x", "--turn", cwd=repo.path)
    assert done.code == 1 and "no turn of an agent is known in feat-x" in done.err and feat.path.exists()


def test_without_records_of_files_times_and_commits_say_what_is_likely(repo: Repo) -> None:
    feat = repo.worktree("feat-x")
    feat.write("mine.txt", "mine\n")
    prompt(feat.path)
    feat.write("README.md", "hello\nby a command\n")
    first, *lines = imi("diff", "x", "--turn", cwd=repo.path).out.splitlines()
    assert first.endswith(" ago, by times and commits (~)")
    heads = [line for line in lines if line.startswith("──")]
    assert heads == ["── README.md  ~ what it was is likely, not recorded, +1 −0"]
