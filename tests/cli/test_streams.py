"""Standard streams that are closed, broken or on a full disk: the exit status says what was done, and nothing else breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import actions
from tests.cli import stream_kit
from tests.cli.faults import World
from tests.cli.stream_kit import CLOSED, FULL, OPEN, SOME, UNUSABLE, USUAL, VERBS, Streams, Verb
from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
HOT = ("claim", "heartbeat", "verify-lock", "verify-lock of another", "verify-lock of nothing", "release", "remove")


def problems(world: World, verb: Verb, streams: Streams, printed: bool, *, real: bool = False) -> list[str]:
    """What is wrong after the verb ran with these streams; `printed`: it usually prints on stdout."""
    before = len(stream_kit._content(stream_kit.error_log(world)))
    ran = stream_kit.run(world, verb.words, streams, real=real)
    only_prints = verb.done is None and printed and streams[1] == FULL
    found = []
    if ran.code != (verb.status or int(only_prints)):
        found.append(f"exit status {ran.code}")
    if verb.done is not None and not verb.done(world):
        found.append("not done")
    if "Traceback" in ran.out + ran.err or "Exception ignored" in ran.err:
        found.append("a traceback")
    if len(stream_kit._content(stream_kit.error_log(world))) != before:
        found.append("a record in the error log")
    if (world.root / "home" / ".config" / "iMi" / "iMi.db").exists() and world.ask("PRAGMA integrity_check") != [
        ("ok",)
    ]:
        found.append("a damaged registry")
    return [f"{' '.join(streams)}: {', '.join(found)} ({ran})"] if found else []


def examined(tmp_path: Path, name: str, among: list[Streams], *, real: bool = False) -> list[str]:
    verb = VERBS[name]
    world = stream_kit.prepare(tmp_path, verb)
    usual = stream_kit.run(world, verb.words, USUAL)
    found = problems(world, verb, USUAL, True) if verb.done is None else []
    for streams in among:
        stream_kit.put_back(world, verb)
        found += problems(world, verb, streams, bool(usual.out), real=real)
    return found


def test_every_verb_is_in_the_table() -> None:
    assert {action.words[0] for action in actions.all_actions()} <= set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_unusable_streams_change_no_exit_status_and_no_act(tmp_path: Path, name: str) -> None:
    assert examined(tmp_path, name, SOME if name not in HOT else UNUSABLE) == []


@pytest.mark.parametrize("name", HOT)
def test_a_process_that_starts_with_closed_streams(tmp_path: Path, name: str) -> None:
    among: list[Streams] = [(CLOSED, CLOSED, CLOSED), (OPEN, CLOSED, OPEN), (OPEN, OPEN, CLOSED), (CLOSED, OPEN, OPEN)]
    assert examined(tmp_path, name, among, real=True) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", VERBS)
def test_every_verb_with_every_unusable_stream(tmp_path: Path, name: str) -> None:
    assert examined(tmp_path, name, UNUSABLE, real=True) == []


# What happens between the act and its message ------------------------------------------------------------------------


def patched(repo: Repo, code: str, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """The real command line after `code`."""
    program = f"import sys\n{code}\nfrom imi_monitor.__main__ import main\nsys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=repo.path,
        text=True,
        stderr=subprocess.PIPE,
        check=False,
        timeout=LIMIT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})},
        **{"stdout": subprocess.PIPE, **more},
    )


@pytest.fixture
def worktree(repo: Repo) -> Repo:
    repo.worktree("feat-x")
    return repo


@pytest.mark.parametrize(
    "raising", ["RuntimeError('bug')", "OSError(24, 'Too many open files')", "KeyboardInterrupt()"]
)
def test_an_error_while_the_act_is_reported_does_not_deny_the_act(worktree: Repo, raising: str) -> None:
    code = f"from imi_monitor.cli import output\ndef outcome(*args, **more):\n    raise {raising}\noutput.outcome = outcome"
    done = patched(worktree, code, "claim", "feat-x", "--agent", "a")
    assert done.returncode == 0 and done.stderr.count("\n") <= 1 and "Traceback" not in done.stderr, done
    assert imi("verify-lock", "feat-x", "--agent", "a", cwd=worktree.path).code == 0
    listed = patched(worktree, code, "list")
    assert listed.returncode == (130 if "Interrupt" in raising else 1), listed


def test_a_pipe_that_breaks_inside_an_action_is_no_success(worktree: Repo) -> None:
    code = (
        "from imi_monitor.actions.setup import config_action\n"
        "def run(self, context, request):\n    raise BrokenPipeError(32, 'Broken pipe')\n"
        "config_action.PathsAction.run = run"
    )
    assert patched(worktree, code, "paths").returncode == 1


def test_verify_lock_says_unknown_when_imi_fails(worktree: Repo) -> None:
    code = (
        "from imi_monitor.actions.claims import verify_action\n"
        "def run(self, context, request):\n    raise RuntimeError('bug')\n"
        "verify_action.VerifyAction.run = run"
    )
    done = patched(worktree, code, "verify-lock", "feat-x")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_a_character_that_the_output_lacks_is_escaped(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "feat/日本", str(tmp_path / "feat-日本"))
    done = patched(repo, "", "list", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "feat/\\u65e5\\u672c" in done.stdout, done
    assert patched(repo, "", "claim", "feat-日本", env={"PYTHONIOENCODING": "ascii"}).returncode == 0


def test_closed_streams_are_replaced_and_inherited() -> None:
    """The next file does not get their numbers, and programs that imi starts have all three."""
    code = (
        "import os, sys; from imi_monitor import __main__ as start; start._open_closed_streams();"
        "print('lost'); print('lost', file=sys.stderr); assert sys.stdin.read() == '';"
        "number = os.open('/dev/null', os.O_RDONLY); assert number > 2, number;"
        "sys.exit(os.spawnvp(os.P_WAIT, 'sh', ['sh', '-c', 'true <&0 && : >&1 && : >&2']))"
    )
    for closing in ("<&- >&- 2>&-", "<&-", ">&-", "2>&-", "<&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-c", code],
            check=False,
            timeout=LIMIT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (closing, done)
