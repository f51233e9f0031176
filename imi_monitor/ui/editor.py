"""Opens a file in the user's editor, with the dashboard suspended.

The editor is `$VISUAL`, `$EDITOR`, `$GIT_EDITOR`, `core.editor` of the user or the system (never of a repository, because
agents can write it), or the system's vi. It is split into words and run without a shell. The file is one absolute path, so
that no file name can become an option or a command.
"""

from __future__ import annotations

import os
import shlex
import subprocess

from textual.app import App, SuspendNotSupported

from imi_monitor import programs
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_PLUS_LINE = ("vi", "vim", "nvim", "view", "nano", "pico", "micro", "emacs", "emacsclient", "kak", "joe", "mg", "ne")
_COLON_LINE = ("hx", "helix", "zed", "subl", "code", "codium", "cursor")
_FALLBACKS = ("editor", "vi", "nano")
_GOTO = ("code", "codium", "cursor")


def edit(app: App[None], root: str, path: str, line: int | None = None) -> None:
    """Open the file; an error is shown as a toast."""
    try:
        argv = command(root, path, line)
        with app.suspend():
            done = subprocess.run(argv, cwd=root, env=programs.users_environment(), check=False)
        if done.returncode:
            app.notify(f"{safe(argv[0])} ended with status {done.returncode}", severity="warning", markup=False)
    except Refused as refusal:
        app.notify(refusal.sentence, severity="warning", markup=False)
    except SuspendNotSupported:
        app.notify("there is no terminal here that an editor could use", severity="warning", markup=False)
    except OSError as error:
        app.notify(f"the editor cannot be started: {error.strerror}", severity="error", markup=False)


def command(root: str, path: str, line: int | None = None) -> list[str]:
    """Return the program and its arguments; Refused without an editor or a file."""
    asked = users_editor()
    if not asked:
        raise Refused(
            "no editor is set: put `export EDITOR=vim` (or yours) into your shell's start file", code="no-editor"
        )
    try:
        words = shlex.split(asked)
    except ValueError as error:
        raise Refused(f"the editor ({safe(asked, 80)}) cannot be read: {error}", code="bad-editor") from error
    program = programs.find(words[0])
    if program is None:
        raise Refused(f"the editor {safe(words[0], 80)} {programs.why_missing(words[0])}", code="no-editor")
    file = os.path.join(root, path)
    if not os.path.lexists(file):
        raise Refused(f"{safe(path, 200)} is not on the disk: there is nothing to edit", code="no-file")
    return [program, *words[1:], *_place(os.path.basename(program), os.path.abspath(file), line)]


def users_editor() -> str:
    """Return the user's editor, as it is typed in a shell; empty without one."""
    for variable in ("VISUAL", "EDITOR", "GIT_EDITOR"):
        if os.environ.get(variable, "").strip():
            return os.environ[variable].strip()
    from imi_monitor.git.user_settings import read_user_setting

    return (read_user_setting("core.editor") or "").strip() or next(filter(programs.find, _FALLBACKS), "")


def _place(name: str, file: str, line: int | None) -> list[str]:
    """Return the arguments that open the file, at the line where this editor has an option for it."""
    if line is None:
        return [file]
    if name in _COLON_LINE:
        return [*(["--goto"] if name in _GOTO else []), f"{file}:{line}"]
    return [f"+{line}", file] if name in _PLUS_LINE else [file]
