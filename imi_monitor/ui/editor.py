"""The person's own editor at a file, with the dashboard asleep meanwhile.

`$VISUAL` or `$EDITOR` is split into words and run as a program, never by a shell; the file is one word of its own and
absolute, so that no name can become an option or a command.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from textual.app import App, SuspendNotSupported

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_PLUS_LINE = ("vi", "vim", "nvim", "view", "nano", "pico", "micro", "emacs", "emacsclient", "kak", "joe", "mg", "ne")
_COLON_LINE = ("hx", "helix", "zed", "subl", "code", "codium", "cursor")
_GOTO = ("code", "codium", "cursor")


def edit(app: App[None], root: str, path: str, line: int | None = None) -> None:
    """Open it; what goes wrong is said."""
    try:
        argv = command(root, path, line)
        with app.suspend():
            done = subprocess.run(argv, cwd=root, check=False)
        if done.returncode:
            app.notify(f"{safe(argv[0])} ended with status {done.returncode}", severity="warning", markup=False)
    except Refused as refusal:
        app.notify(refusal.sentence, severity="warning", markup=False)
    except SuspendNotSupported:
        app.notify("there is no terminal here that an editor could use", severity="warning", markup=False)
    except OSError as error:
        app.notify(f"the editor cannot be started: {error.strerror}", severity="error", markup=False)


def command(root: str, path: str, line: int | None = None) -> list[str]:
    """The words to run; Refused with what to do when there is no editor, or nothing to edit."""
    asked = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not asked.strip():
        raise Refused(
            "no editor is set: put `export EDITOR=vim` (or yours) into your shell's start file", code="no-editor"
        )
    try:
        words = shlex.split(asked)
    except ValueError as error:
        raise Refused(f"$EDITOR ({safe(asked, 80)}) cannot be read: {error}", code="bad-editor") from error
    program = shutil.which(words[0], path=_search_path())
    if program is None:
        raise Refused(f"the editor {safe(words[0], 80)} is not installed, or not in PATH", code="no-editor")
    file = os.path.join(root, path)
    if not os.path.lexists(file):
        raise Refused(f"{safe(path, 200)} is not on the disk (any more): there is nothing to edit", code="no-file")
    return [program, *words[1:], *_place(os.path.basename(program), os.path.abspath(file), line)]


def _place(name: str, file: str, line: int | None) -> list[str]:
    """The file as this editor wants it named, at the line if it can be told."""
    if line is None:
        return [file]
    if name in _COLON_LINE:
        return [*(["--goto"] if name in _GOTO else []), f"{file}:{line}"]
    return [f"+{line}", file] if name in _PLUS_LINE else [file]


def _search_path() -> str:
    """PATH without relative entries: the work tree must not bring its own editor."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry)) or os.defpath
