"""The editor: found safely, never through a shell, and said when there is none."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from textual.app import App

from imi_monitor.git.environment import git_path
from imi_monitor.model.errors import Refused
from imi_monitor.ui import editor
from tests.helpers import Repo


def program(folder: Path, name: str, body: str = "exit 0") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "a.py").write_text("x\n")
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("asked", "line", "wanted"),
    [
        ("myvim", None, ["@FILE"]),
        ("vim -u NONE", 7, ["-u", "NONE", "+7", "@FILE"]),
        ("hx", 7, ["@FILE:7"]),
        ("code --wait", 7, ["--wait", "--goto", "@FILE:7"]),
        ("'my vim'", 7, ["@FILE"]),
    ],
)
def test_editor_command_and_line_argument(
    tools: Path, monkeypatch: pytest.MonkeyPatch, asked: str, line: int | None, wanted: list[str]
) -> None:
    name = asked.strip("'") if asked.startswith("'") else asked.split()[0]
    made = program(tools, name)
    monkeypatch.setenv("EDITOR", asked)
    root = str(tools.parent)
    file = os.path.join(root, "a.py")
    assert editor.command(root, "a.py", line) == [str(made), *(word.replace("@FILE", file) for word in wanted)]


def test_visual_is_used_before_editor(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools, "one"), program(tools, "two")
    monkeypatch.setenv("VISUAL", "one")
    monkeypatch.setenv("EDITOR", "two")
    assert editor.command(str(tools.parent), "a.py")[0].endswith("/one")


@pytest.mark.parametrize(("asked", "says"), [("nowhere-to-be-found -x", "not installed"), ("vim 'x", "cannot be read")])
def test_unusable_editor_setting_is_refused_with_a_sentence(
    tools: Path, monkeypatch: pytest.MonkeyPatch, asked: str, says: str
) -> None:
    monkeypatch.setenv("EDITOR", asked)
    with pytest.raises(Refused, match=says):
        editor.command(str(tools.parent), "a.py")


def test_without_a_variable_the_users_git_editor_and_then_vi_are_used(
    tools: Path, repo: Repo, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "evil", "vi"):
        program(tools, name)
    monkeypatch.delenv("GIT_EDITOR", raising=False)
    monkeypatch.setenv("PATH", f"{tools}:{os.path.dirname(git_path())}")
    monkeypatch.chdir(repo.path)
    repo.git("config", "core.editor", "evil")  # agents can write it
    assert os.path.basename(editor.command(str(tools.parent), "a.py")[0]) in ("editor", "vi")
    repo.git("config", "--file", str(own_home / ".gitconfig"), "core.editor", "mine -w")
    assert editor.command(str(tools.parent), "a.py")[:2] == [str(tools / "mine"), "-w"]
    monkeypatch.setenv("PATH", str(tools.parent / "empty"))
    (own_home / ".gitconfig").unlink()
    with pytest.raises(Refused, match="no editor is set"):
        editor.command(str(tools.parent), "a.py")


def test_editor_is_not_searched_in_relative_path_entries(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools.parent, "evil-editor")
    monkeypatch.chdir(tools.parent)
    monkeypatch.setenv("PATH", f".::{tools}")
    monkeypatch.setenv("EDITOR", "evil-editor")
    with pytest.raises(Refused, match="not installed"):
        editor.command(str(tools.parent), "a.py")


def test_editing_a_missing_file_is_refused(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools, "ed1")
    monkeypatch.setenv("EDITOR", "ed1")
    with pytest.raises(Refused, match="not on the disk"):
        editor.command(str(tools.parent), "gone.py")


@pytest.mark.parametrize("name", ["$(touch pwned)", "; touch pwned", "-c", "a b", "[b]"])
def test_file_name_never_becomes_a_command_or_an_option(
    tools: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program(tools, "ed2", f'printf "%s\\n" "$#" "$1" > {tools.parent}/asked')
    monkeypatch.setenv("EDITOR", "ed2")
    root = tools.parent
    (root / name).write_text("x")
    said: list[str] = []

    async def main() -> None:
        from contextlib import nullcontext

        app: App[None] = App()
        app.suspend = nullcontext  # type: ignore[method-assign,assignment]
        app.notify = lambda message, **_: said.append(message)  # type: ignore[method-assign,assignment]
        async with app.run_test():
            editor.edit(app, str(root), name)
            editor.edit(app, str(root), "gone")

    asyncio.run(main())
    assert (root / "asked").read_text() == f"1\n{root / name}\n"
    assert not (root / "pwned").exists() and len(said) == 1 and "not on the disk" in said[0]


def test_editor_without_a_terminal_shows_a_warning(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools, "ed3")
    monkeypatch.setenv("EDITOR", "ed3")
    said: list[str] = []

    async def main() -> None:
        app: App[None] = App()
        app.notify = lambda message, **_: said.append(message)  # type: ignore[method-assign,assignment]
        async with app.run_test():
            editor.edit(app, str(tools.parent), "a.py")

    asyncio.run(main())
    assert said == ["there is no terminal here that an editor could use"]
