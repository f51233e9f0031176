"""Unexpected errors: one sentence for the user, the traceback in a private log, and no secret in either. # T4"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import paths
from imi_monitor.cli import crash_log
from imi_monitor.model.errors import ImiError
from tests.helpers import ROOT, Ran, Repo, git, imi
from tests.limits import LIMIT

TOKEN = "tok-0123456789-abcdefghij"
PASSWORD = "hunter2-and-more"
URL = f"https://me:{PASSWORD}@example.invalid/app.git"


def log() -> Path:
    return Path(paths.error_log())


def thrown(error: BaseException) -> ImiError:
    """The error as `recorded` gets it: raised, with a local variable around that must never be printed."""
    try:
        local = PASSWORD
        assert local
        raise error
    except BaseException as caught:  # noqa: BLE001  whatever was given
        return crash_log.recorded(caught)


def broken(*args: str, raising: str, env: dict[str, str] | None = None) -> Ran:
    """The real command line around an action that fails in an unexpected way."""
    program = (
        "import sys, sqlite3\n"
        "from imi_monitor.actions.setup import config_action\n"
        "from imi_monitor.cli.command_runner import main\n"
        "def run(self, context, request):\n"
        "    import os\n"
        "    secret_local = os.environ['MY_TOKEN']\n"
        f"    raise {raising}\n"
        "config_action.PathsAction.run = run\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MY_TOKEN": TOKEN, **(env or {})},
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "raising",
    [
        "KeyError(secret_local)",
        "RuntimeError(f'cannot use {secret_local} here')",
        "RecursionError('deep')",
        "UnicodeDecodeError('utf-8', secret_local.encode(), 0, 1, 'bad')",
        "AssertionError()",
        "ExceptionGroup('many', [ValueError(secret_local)])",
        "RuntimeError('two\\nlines\\x1b[31m')",
    ],
)
def test_a_crash_prints_one_sentence_and_logs_the_traceback(raising: str) -> None:
    ran = broken("paths", raising=raising)
    assert ran.code == 1 and ran.out == ""
    assert ran.err.startswith("imi: something went wrong inside imi (") and ran.err.count("\n") == 1, ran.err
    assert str(log()) in ran.err and "\x1b" not in ran.err and "Traceback" not in ran.err
    content = log().read_text()
    assert "Traceback (most recent call last)" in content and "    raise" not in ran.err
    assert stat.S_IMODE(log().stat().st_mode) == 0o600
    assert stat.S_IMODE(log().parent.stat().st_mode) == 0o700
    assert TOKEN not in content + ran.err


def test_a_crash_is_one_json_object_with_json() -> None:
    ran = broken("paths", "--json", raising="KeyError(secret_local)")
    assert (ran.code, ran.err) == (1, "")
    tree = json.loads(ran.out)
    assert tree["success"] is False and tree["code"] == "internal"
    assert TOKEN not in ran.out


def test_the_logged_traceback_holds_no_values_of_variables() -> None:
    thrown(RuntimeError("no"))
    content = log().read_text()
    assert "in thrown" in content and "raise error" in content
    assert PASSWORD not in content


@pytest.mark.parametrize(
    "text",
    [
        f"fetch of {URL} failed",
        f"postgres://u:{PASSWORD}@db/x",
        f"header Authorization: Bearer {TOKEN}",
        f"value {TOKEN}",
        f"{TOKEN}{TOKEN}",
        *("x" * pad + f" {URL} " + "x" * (180 - pad) for pad in range(40, 140, 4)),
    ],
)
def test_secrets_are_redacted_before_the_log_is_cut(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", TOKEN)
    sentence = thrown(RuntimeError(text)).sentence
    for seeded in (TOKEN, PASSWORD, TOKEN[:12], PASSWORD[:8], PASSWORD[-8:]):
        assert seeded not in sentence + log().read_text()


def test_secrets_of_chained_errors_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    inner = ValueError(PASSWORD)
    inner.add_note(f"note with {PASSWORD}")
    outer = RuntimeError("outer")
    outer.__cause__ = inner
    thrown(outer)
    assert "ValueError: ***" in log().read_text() and PASSWORD not in log().read_text()


def test_short_and_harmless_environment_values_are_not_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_KIND", "short")
    monkeypatch.setenv("EDITOR", "an-editor")
    assert "short an-editor" in thrown(RuntimeError("short an-editor")).sentence


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


def test_an_error_whose_text_cannot_be_made_is_still_logged() -> None:
    assert "(Mute)" in thrown(Mute()).sentence


@pytest.mark.parametrize("there", ["link", "pipe", "folder"])
def test_a_log_path_that_is_no_plain_file_is_not_written(there: str, tmp_path: Path) -> None:
    log().parent.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    if there == "link":
        log().symlink_to(victim)
    elif there == "pipe":
        os.mkfifo(log())
    else:
        log().mkdir()
    assert "the log could not be written either" in thrown(RuntimeError("no")).sentence
    assert victim.read_text() == "mine"


def test_a_log_on_a_full_disk_does_not_hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(crash_log.os, "write", full)
    assert "could not be written either" in thrown(RuntimeError("no")).sentence


def test_the_log_is_made_private_and_rotated() -> None:
    log().parent.mkdir(parents=True)
    log().write_text("x" * (2 << 20))
    log().chmod(0o644)
    thrown(RuntimeError("new"))
    assert log().stat().st_size < 10_000 and stat.S_IMODE(log().stat().st_mode) == 0o600
    assert log().with_name("errors.log.old").stat().st_size == 2 << 20
    log().chmod(0o644)
    thrown(RuntimeError("again"))
    assert stat.S_IMODE(log().stat().st_mode) == 0o600


# The whole of imi with secrets all around it ------------------------------------------------------------------------


def everything_written(root: Path) -> dict[str, bytes]:
    """Every file below `root` but the repository's own configuration, where the URL came from."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != "config" and path.suffix != ".git"
    }


def test_a_seeded_secret_is_in_no_file_no_event_and_on_no_screen(repo: Repo, tmp_path: Path) -> None:
    git("remote", "add", "origin", URL, cwd=repo.path)
    env = {
        "IMI_REDIS_URL": f"redis://:{PASSWORD}@127.0.0.1:1",
        "IMI_AMQP_URL": f"amqp://u:{PASSWORD}@127.0.0.1:1/",
        "MY_TOKEN": TOKEN,
        "GH_TOKEN": TOKEN,
    }
    said = []
    for words in (
        ("feat", "login"),
        ("list",),
        ("status",),
        ("claim", "login", "--agent", "claude-1"),
        ("claims",),
        ("sync",),
        ("review", "7"),
        ("release", "login", "--agent", "claude-1"),
        ("remove", "login"),
        ("undo",),
        ("events",),
        ("doctor",),
        ("config",),
        ("paths",),
        ("prune", "--dry-run"),
        ("repair",),
        ("trust",),
    ):
        for form in ((), ("--json",)):
            ran = imi(*words, *form, cwd=repo.path, env=env)
            said.append(ran.out + ran.err)
            assert PASSWORD not in said[-1] and TOKEN not in said[-1], words
            assert "went wrong inside imi" not in said[-1], (words, said[-1])
    assert any("example.invalid" in text or "remote" in text for text in said)
    written = everything_written(tmp_path)
    assert any(name.endswith("iMi.db") for name in written)
    for name, content in written.items():
        assert PASSWORD.encode() not in content and TOKEN.encode() not in content, name


# The machine's faults are not imi's ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raising", "says"),
    [
        (
            "OSError(28, 'No space left on device', '/some/file')",
            "the system refused: /some/file: No space left on device",
        ),
        ("OSError(5, 'Input/output error')", "the system refused: Input/output error"),
        ("PermissionError(13, 'Permission denied', secret_local)", "the system refused: ***: Permission denied"),
        ("OSError(24, 'Too many open files', b'/x\\xff')", "the system refused: /x\\xff: Too many open files"),
        ("MemoryError()", "the system refused: Cannot allocate memory"),
    ],
)
def test_a_full_disk_is_a_system_error_without_a_bug_report(raising: str, says: str) -> None:
    ran = broken("paths", raising=raising)
    assert ran.code == 1 and ran.out == ""
    assert ran.err == f"imi: {says} (details are in {log()})\n"
    assert TOKEN not in log().read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_output_that_cannot_be_written_is_an_error(form: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        for words in (("paths",), ("config",), ("help",), ("config", "no.such"), ("no-such-verb",)):
            done = subprocess.run(
                [sys.executable, "-m", "imi_monitor", *words, *form],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                timeout=LIMIT,
            )
            assert done.returncode in (1, 2), (words, done)
            assert done.stderr.startswith("imi: ") and done.stderr.count("\n") == 1, (words, done)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_an_error_that_cannot_be_printed_keeps_its_exit_status() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "imi_monitor", "config", "no.such"],
            stdout=full,
            stderr=full,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=LIMIT,
        )
    assert done.returncode == 2
