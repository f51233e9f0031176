"""Every command answers `--json` with one object in the envelope, or with the documented stream of objects, one per line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from imi_monitor.cli import argument_parser
from tests.cli import stream_kit
from tests.cli.stream_kit import USUAL, VERBS
from tests.helpers import Repo, imi

_KEYS = {"schema", "success", "data", "error"}


@pytest.mark.parametrize("name", [name for name in VERBS if name not in ("--version", "mcp")])
def test_json_answers_are_one_object_in_the_envelope(tmp_path: Path, name: str) -> None:
    verb = VERBS[name]
    world = stream_kit.prepare(tmp_path, verb)
    words = verb.words if "--json" in verb.words else f"--json {verb.words}".strip()
    ran = stream_kit.run(world, words, USUAL)
    lines = ran.out.splitlines()
    action = argument_parser.parse(verb.words.split()).action if ran.code != 2 else None
    if action is not None and action.streams and ran.code == 0:
        documented = f"{action.help} {action.more}" if name != "demo" else "per line: it runs another command"
        assert "per line" in documented and all(isinstance(json.loads(line), dict) for line in lines), ran
        return
    assert len(lines) == 1, ran
    answer = json.loads(lines[0])
    assert answer.keys() - {"code"} == _KEYS, answer
    assert answer["success"] is (ran.code == 0), ran
    assert (answer["error"] is None) or answer["code"], "an error has a code for scripts"
    assert answer["data"] is None or isinstance(answer["data"], dict)


@pytest.mark.parametrize("home", ["/sys", "/proc/nowhere"])
def test_viewing_works_where_no_registry_can_be_made(repo: Repo, home: str) -> None:
    repo.worktree("feat-x")
    for words in (["status"], ["list"], ["diff", "feat-x"], ["log", "feat-x"], ["collisions"], ["status", "--line"]):
        ran = imi(*words, cwd=repo.path, env={"HOME": home})
        assert ran.code == 0 and "claims are unknown" in ran.err, (words, ran)
    assert [
        one["claim_state"] for one in imi("list", "--json", cwd=repo.path, env={"HOME": home}).data["worktrees"]
    ] == ["unknown", "unknown"]
    doctor = imi("doctor", cwd=repo.path, env={"HOME": home})
    assert doctor.code == 1 and "fail  registry" in doctor.out


def test_columns_decide_the_width_in_a_pipe(repo: Repo) -> None:
    repo.worktree("feat-with-a-name-that-is-not-short-at-all")
    imi("claim", "feat-with-a-name-that-is-not-short-at-all", "--agent", "an-agent-of-a-long-name", cwd=repo.path)
    for words in (["status"], ["list"], ["agents"], ["help"]):
        for width in (50, 100):
            ran = imi(*words, cwd=repo.path, env={"COLUMNS": str(width)})
            tables = [line for line in ran.out.splitlines() if not line.startswith("no ")]  # a sentence is never cut
            longest = max(map(len, tables), default=0)
            assert ran.code == 0 and longest <= width, (words, width, ran.out)
