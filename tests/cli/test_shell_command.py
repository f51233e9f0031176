"""The shell function changes directory in every installed shell, and completion offers verbs, options and worktrees."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.cli import shell_command, shell_completion
from imi_monitor.model.text import safe
from tests.helpers import ROOT, Repo, imi
from tests.ui.pty_kit import Terminal

SHELLS = ("bash", "zsh", "fish")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


@pytest.fixture
def run(shell: str, tmp_path: Path) -> Run:
    """Runs a script in a fresh shell that has the function; `imi` is the real command unless `fake` is its body."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    init = tmp_path / "init"
    init.write_text(imi("shell-init", shell).out)
    command = tmp_path / "bin" / "imi"

    def in_shell(script: str, cwd: Path, fake: str | None = None) -> subprocess.CompletedProcess[str]:
        real = f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m imi_monitor "$@"'
        command.write_text(f"#!/bin/sh\n{fake or real}\n")
        command.chmod(0o755)
        plain = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
        env = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "tmp")}
        done = subprocess.run(
            [shell, *plain, "-c", f"source {init}\n{script}"],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        left = [
            name for name in os.listdir(tmp_path / "tmp") if not name.startswith("zellij-")
        ]  # a Zellij that doctor asks
        assert not left, "the function left its temporary file"
        return done

    return in_shell


def test_the_function_changes_into_the_worktree(run: Run, repo: Repo) -> None:
    there = repo.worktree("feat-x")
    done = run("imi go feat-x; pwd", repo.path)
    assert done.stdout.splitlines() == [str(there.path), str(there.path)], done.stderr


@pytest.mark.parametrize("name", ["sp a ce", "quo'te\"s", "$(touch pwned)`id`", "-dash", "star*[x]", "e\\s", "ünï"])
def test_the_function_handles_odd_folder_names(run: Run, repo: Repo, tmp_path: Path, name: str) -> None:
    target = tmp_path / "odd" / name
    target.mkdir(parents=True)
    done = run("imi feat x; pwd", repo.path, fake=f'printf %s {shlex.quote(str(target))} > "$IMI_CD_FILE"')
    assert done.stdout == f"{target}\n", done.stderr
    assert not (repo.path / "pwned").exists()


def test_the_function_handles_a_path_that_ends_in_a_newline(run: Run, repo: Repo, tmp_path: Path) -> None:
    target = tmp_path / "end\n"
    target.mkdir()
    done = run("imi feat x; touch here", repo.path, fake=f'printf %s {shlex.quote(str(target))} > "$IMI_CD_FILE"')
    assert (target / "here").exists(), done.stderr


def test_after_a_failure_the_function_stays_and_returns_the_status(
    run: Run, shell: str, repo: Repo, tmp_path: Path
) -> None:
    fake = f'printf %s {tmp_path} > "$IMI_CD_FILE"; echo out; echo err >&2; exit 42'
    status = "$status" if shell == "fish" else "$?"
    done = run(f"imi feat x; echo {status}; pwd", repo.path, fake=fake)
    assert (done.stdout, done.stderr) == (f"out\n42\n{repo.path}\n", "err\n")


def test_the_function_fails_when_the_folder_is_gone(run: Run, shell: str, repo: Repo) -> None:
    status = "$status" if shell == "fish" else "$?"
    done = run(f"imi feat x; echo {status}; pwd", repo.path, fake='printf /no/such/folder > "$IMI_CD_FILE"')
    code, where = done.stdout.splitlines()
    assert (code != "0", where) == (True, str(repo.path))


def test_the_function_adds_nothing_to_pipes_and_json(run: Run, shell: str, repo: Repo) -> None:
    there = repo.worktree("feat-x")
    taken = (
        'set taken (imi go feat-x); echo "[$taken]"' if shell == "fish" else 'taken=$(imi go feat-x); echo "[$taken]"'
    )
    done = run(f"{taken}; pwd; imi go feat-x --json | head -c 12; echo; echo text | imi list | tail -n 1", repo.path)
    lines = done.stdout.splitlines()
    assert lines[:3] == [f"[{there.path}]", str(repo.path), '{"schema": 1'], done.stdout + done.stderr
    assert "feat-x" in lines[3]


def test_the_function_passes_arguments_unchanged(run: Run, repo: Repo) -> None:
    done = run("imi feat 'a b' '' '*' '$x'", repo.path, fake="""printf '<%s>' "$@" """)
    assert done.stdout == "<feat><a b><><*><$x>"


def test_verbs_without_a_path_get_no_temporary_file(run: Run, repo: Repo) -> None:
    done = run("imi claim x; imi list; imi", repo.path, fake='echo "${IMI_CD_FILE:+file}"')
    assert done.stdout.splitlines() == ["", "", "file"]


def test_the_doctor_sees_the_function_and_only_the_function(run: Run, shell: str, repo: Repo) -> None:
    done = run(
        "imi doctor | grep shell:; command imi doctor | grep shell:; sh -c 'imi doctor' | grep shell:", repo.path
    )
    inside, without, another = done.stdout.splitlines()
    assert inside == f"ok    shell: the function for {shell} is active: `imi go` changes directory"
    assert without.startswith("warn  shell: ") and another == without


def test_every_call_through_the_function_names_the_shell(run: Run, shell: str, repo: Repo) -> None:
    show = 'echo "$1 $IMI_SHELL"'
    assert run("imi claim; imi feat", repo.path, fake=show).stdout == f"claim {shell}\nfeat {shell}\n"
    done = run("TMPDIR=/no/such/folder imi feat", repo.path, fake=show)  # no file can be made
    assert done.stdout == f"feat {shell}\n", done.stderr


def test_the_function_works_in_strict_shells(run: Run, shell: str, repo: Repo) -> None:
    if shell == "fish":
        pytest.skip("fish has no such modes")
    there = repo.worktree("feat-x")
    done = run("set -eu; imi go feat-x; pwd; imi go no-such-worktree || echo refused; pwd", repo.path)
    assert done.stdout.splitlines() == [str(there.path), str(there.path), "refused", str(there.path)], done.stderr
    done = run("set -eu; imi go no-such-worktree; echo not reached", repo.path)  # and no file is left behind
    assert (done.returncode, done.stdout) == (1, "")


def _complete(shell: str, words: list[str]) -> str:
    """A script that prints what `words` can be completed to."""
    if shell == "fish":
        return f"complete -C {shlex.quote(' '.join(words))}"
    quoted = " ".join(map(shlex.quote, words))
    if shell == "bash":
        return f'COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _imi; printf "%s\\n" "${{COMPREPLY[@]}}"'
    stubs = "compadd() { print -l -- ${(P)@[-1]}; }; _files() { print files; }; "
    return f"{stubs} words=({quoted}); CURRENT={len(words)}; _imi"


def _completed(run: Run, shell: str, words: list[str], cwd: Path) -> set[str]:
    done = run(_complete(shell, words), cwd)
    assert not done.stderr, done.stderr
    return {line.split("\t")[0].split(":")[0] for line in done.stdout.splitlines()}


def test_completion_of_verbs(run: Run, shell: str, repo: Repo) -> None:
    found = _completed(run, shell, ["imi", "sh" if shell == "fish" else "s"], repo.path)
    assert "shell-init" in found


def test_completion_of_worktrees(run: Run, shell: str, repo: Repo) -> None:
    repo.worktree("feat-x")
    imi("list", cwd=repo.path)  # the first look makes the registry
    assert "feat-x" in _completed(run, shell, ["imi", "claim", "fe"], repo.path)
    assert "feat-x" in _completed(run, shell, ["imi", "--db", "/x", "claim", "fe"], repo.path)
    assert "feat-x" not in _completed(run, shell, ["imi", "feat", "fe"], repo.path)


def test_completion_of_options_and_second_words(run: Run, shell: str, repo: Repo) -> None:
    assert {"--agent", "--wait"} <= _completed(run, shell, ["imi", "claim", "--"], repo.path)
    assert {"add", "remove"} <= _completed(run, shell, ["imi", "types", ""], repo.path)
    assert "zsh" in _completed(run, shell, ["imi", "completion", ""], repo.path)
    assert {"--interval", "--once"} <= _completed(run, shell, ["imi", "watch", "--"], repo.path)
    assert {"--seconds", "--pace", "--once", "--keep"} <= _completed(run, shell, ["imi", "demo", "--"], repo.path)


def test_completion_of_values(run: Run, shell: str, repo: Repo) -> None:
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "human:me", cwd=repo.path).code == 0
    assert imi("remove", "feat-x", "--agent", "human:me", "--force", cwd=repo.path).code == 0
    assert imi("claim", "app", "--agent", "human:me", cwd=repo.path).code == 0
    trash = imi("trash", "--json", cwd=repo.path).data["entries"][0]["id"]
    for words, wanted in (
        (["stats", "--by", ""], {"agent", "team", "worktree"}),
        (["release", "app", "--outcome", "f"], {"failed"}),
        (["sessions", "--state", "fai"], {"failed"}),
        (["trash", "restore", ""], {trash}),
        (["config", "claims.t"], {"claims.ttl_seconds"}),
        (["help", "comple"], {"completion"}),
        (["merge", "--into", "fe"], {"feat/x"}),
        (["types", "remove", "de"], {"devops"}),
        (["events", "--type", "worktree.cl"], {"worktree.claimed"}),
    ):
        assert wanted <= _completed(run, shell, ["imi", *words], repo.path), words
    assert _completed(run, shell, ["imi", "heartbeat", "app", "--agent", "hum"], repo.path) >= (
        {"human"} if shell != "fish" else set()
    )


def test_completion_of_files_and_of_words_with_a_colon(run: Run, shell: str, repo: Repo) -> None:
    (repo.path / "my backup.db").write_text("")
    found = run(_complete(shell, ["imi", "backup", "restore", "my"]), repo.path).stdout
    assert "files" in found if shell == "zsh" else "backup.db" in found
    if shell == "bash":  # bash makes three words of `human:m`, and replaces the last one
        assert imi("claim", "app", "--agent", "human:me", cwd=repo.path).code == 0
        words = 'COMP_WORDS=(imi heartbeat app --agent human : m); COMP_CWORD=6; _imi; printf "%s" "${COMPREPLY[@]}"'
        assert run(words, repo.path).stdout == "me"


def test_descriptions_are_intact(repo: Repo) -> None:
    found = {
        one["word"]: one["help"]
        for one in imi("completion", "values", "--json", "--", "", cwd=repo.path).data["values"]
    }
    assert found["trust"] == "allow a repository's programs to run: hooks, filters, post-create commands"
    assert set(found) >= {verb.split(" ")[0] for verb in actions.verbs()} | {"help", "version"}


def test_completion_never_runs_hostile_names(run: Run, shell: str, repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "odd", str(tmp_path / "$(touch pwned) 'x'"))
    repo.git("worktree", "add", "-q", "-b", "odder", str(tmp_path / "esc\x1b[31m"))
    imi("list", cwd=repo.path)
    found = run(_complete(shell, ["imi", "claim", ""]), repo.path)
    assert not (repo.path / "pwned").exists()
    assert "\x1b" not in found.stdout and "esc" not in found.stdout
    if shell == "bash":  # what is inserted into the line means the name and nothing else
        word = next(line for line in found.stdout.splitlines() if "pwned" in line)
        assert shlex.split(word) == ["$(touch pwned) 'x'"]


def test_completion_creates_no_registry(repo: Repo, own_home: Path) -> None:
    done = imi("completion", "values", "--", "claim", "", cwd=repo.path)
    assert (done.code, done.out) == (0, "")
    assert not (own_home / ".config" / "iMi").exists()


def test_the_shell_is_guessed_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert imi("shell-init").out.startswith("function imi --description")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    refused = imi("shell-init")
    assert (refused.code, "zsh|bash|fish" in refused.err) == (2, True)


def test_shell_scripts_are_printed_unchanged() -> None:
    for shell in SHELLS:
        for line in [*shell_command.shell_function_lines(shell), *shell_completion.script(shell)]:
            assert safe(line, 4096) == line


def test_the_function_makes_a_file_for_verbs_that_return_a_path_only() -> None:
    words = set(shell_command.words_without_path())
    assert {"claim", "release", "list", "status", "watch", "types", "help"} <= words
    assert not {"feat", "add", "review", "pr", "go", "trunk", "remove", "close", "undo", "trash", "rename"} & words


def test_a_terminal_that_opens_is_asked_once_what_it_is_for(shell: str, repo: Repo, tmp_path: Path) -> None:  # S2.23
    (tmp_path / "bin").mkdir()
    init, command = tmp_path / "init", tmp_path / "bin" / "imi"
    init.write_text(imi("shell-init", shell, "--ask").out)
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m imi_monitor "$@"\n'
    )
    command.chmod(0o755)
    plain = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    env = {"PATH": f"{command.parent}:{os.environ['PATH']}", "TMUX": "", "ZELLIJ_SESSION_NAME": ""}
    with Terminal([shell, *plain, "-i"], cwd=repo.path, env=env) as terminal:
        terminal.send(f"source {init}\r".encode())
        terminal.until(b"what is to be achieved in this terminal?")
        terminal.send(b"make it work\r")
        terminal.until(b"intent of app: make it work")
        terminal.send(b"imi context open; echo again\r")
        terminal.until(lambda: terminal.output.count(b"again") >= 2)
        assert terminal.output.count(b"what is to be achieved") == 1, "the terminal has its intent"
    assert "make it work" in imi("intent", cwd=repo.path).out


def test_without_a_terminal_nothing_is_asked(repo: Repo) -> None:
    done = imi("context", "open", cwd=repo.path)
    assert (done.code, done.out, done.err) == (0, "", "")
