"""The user's own commands for a repository: only when trusted, in the worktree, shown, bounded and told when they fail."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor.actions import repository_commands
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.repository_commands import CommandReport
from imi_monitor.actions.setup.trust_action import TrustAction
from imi_monitor.fast import json_writer
from imi_monitor.model.errors import ImiError, Refused
from tests.helpers import Repo, is_running, wait_for

Run = Callable[..., CommandReport | None]


@pytest.fixture
def progress() -> list[str]:
    return []


@pytest.fixture
def run(repo: Repo, own_home: Path, progress: list[str]) -> Run:
    """Run the given commands for a worktree of a trusted repository."""
    there = repo.worktree("feat-x")

    def go(*commands: str, moment: str = "post_create", trusted: bool = True, **more: object) -> CommandReport | None:
        folder = own_home / ".config" / "iMi"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f"[repositories.app]\n{moment} = {json_writer.dumps(list(commands))}\n")
        cancelled = more.pop("cancelled", lambda: False)
        with Context(str(repo.path), progress=progress.append, cancelled=cancelled) as context:  # type: ignore[arg-type]
            if trusted:
                TrustAction().run(context, Request("trust", {}))
            return repository_commands.run(
                context,
                context.repository(),
                moment,
                str(there.path),
                "feat-x",
                **more,  # type: ignore[arg-type]
            )

    return go


def test_where_and_with_what_they_run(run: Run, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("IMI_CD_FILE", "/nowhere")
    monkeypatch.setenv("IMI_SHELL", "zsh")
    report = run(
        "pwd; git rev-parse --show-toplevel",
        'echo "$IMI_WORKTREE $IMI_WORKTREE_PATH $IMI_REPOSITORY [$IMI_CD_FILE$IMI_SHELL]"',
    )
    there = repo.path.parent / "feat-x"
    assert report is not None and report.failed is None and report.warnings == ()
    assert report.output == (str(there), str(there), f"feat-x {there} app []")
    assert len(report.ran) == 2


def test_none_configured(run: Run) -> None:
    assert run() is None


def test_untrusted_nothing_runs(run: Run, tmp_path: Path) -> None:
    report = run(f"touch {tmp_path}/ran", trusted=False)
    assert not (tmp_path / "ran").exists()
    assert report is not None and report.ran == ()
    assert report.warnings == (
        "app is not trusted, so 1 post_create command was skipped: check with `imi trust --show`, then run `imi trust`",
    )
    assert run(f"touch {tmp_path}/ran", moment="pre_remove", trusted=False).warnings  # type: ignore[union-attr]
    assert not (tmp_path / "ran").exists()


def test_a_failure_ends_the_rest_and_is_told(run: Run, tmp_path: Path) -> None:
    report = run("echo first; echo oops >&2; exit 3", f"touch {tmp_path}/second")
    assert report is not None and report.failed is not None
    assert "failed with exit status 3" in report.failed
    assert report.warnings == (f"{report.failed}; the worktree itself is ready", "first", "oops")
    assert not (tmp_path / "second").exists()


def test_a_failure_before_removal_stops_it(run: Run) -> None:
    with pytest.raises(Refused, match="failed with exit status 1: nothing was removed") as caught:
        run("echo why; false", moment="pre_remove")
    assert caught.value.details == ("why",)


def test_output_comes_line_by_line_in_order(run: Run, progress: list[str]) -> None:
    report = run("for i in 1 2 3; do echo out $i; echo err $i >&2; done; printf 'no end'")
    assert report is not None
    assert report.output == ("out 1", "err 1", "out 2", "err 2", "out 3", "err 3", "no end")
    assert [line for line in progress if line[:3] in ("out", "err", "no ")] == list(report.output)


def test_only_the_end_is_kept_and_it_is_harmless(run: Run) -> None:
    secret = "ghp_" + "a1B2" * 9
    report = run(f"seq 1 5000; printf 'bar 1%%\\rbar 100%%\\r\\n'; printf '\\033]52;c;x\\007'; echo token={secret}")
    assert report is not None and len(report.output) == 20
    assert report.output[-3:-1] == ("5000", "bar 100%")
    assert "\x1b" not in report.output[-1] and secret not in report.output[-1]


def test_a_flood_without_line_breaks_is_bounded(run: Run) -> None:
    report = run("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert report is not None and report.output[-1] == "end"
    assert max(map(len, report.output)) <= 512


def test_a_deadline_ends_the_whole_group(run: Run, tmp_path: Path) -> None:
    start = time.monotonic()
    report = run(f"sleep 300 & echo $! >{tmp_path}/pid; sleep 300", timeout=0.5)
    assert time.monotonic() - start < 200
    assert report is not None and report.failed is not None and "took longer than 0.5 s" in report.failed
    wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_cancelling_ends_it(run: Run) -> None:
    start = time.monotonic()
    with pytest.raises(ImiError, match="was cancelled"):
        run("sleep 300", cancelled=lambda: time.monotonic() - start > 0.3)
    assert time.monotonic() - start < 200


def test_stdin_is_closed_and_there_is_no_terminal(run: Run) -> None:
    report = run('read line; echo "[$line] $?"; (: </dev/tty) 2>/dev/null || echo no tty')
    assert report is not None
    assert report.output[0].startswith("[] ") and report.output[1] == "no tty"


def test_a_daemon_does_not_hold_us(run: Run) -> None:
    report = run("sleep 300 & echo $!")
    assert report is not None
    daemon = int(report.output[0])
    assert is_running(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_killed_by_a_signal(run: Run) -> None:
    report = run("kill -9 $$")
    assert report is not None and report.failed is not None
    # the shell that joins both streams replaced itself, so the signal is seen as it was
    assert "killed by signal 9" in report.failed


def test_odd_commands(run: Run) -> None:
    report = run("echo 'single \"double\" $HOME' # comment", "-n 2>/dev/null || echo dash", "printf '%s\\n' \"a  b\"")
    assert report is not None and report.output == ('single "double" $HOME', "dash", "a  b"), report


def test_environment_of_the_caller_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOOL", "here")
    report = run("echo $MY_TOOL $PATH")
    assert report is not None and report.output == (f"here {os.environ['PATH']}",)
