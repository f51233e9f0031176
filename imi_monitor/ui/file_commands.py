"""Acts on the file or hunk under the cursor of a view: stage and unstage at once, discard after its dialog."""

from __future__ import annotations

import os
import tempfile
from typing import cast

from imi_monitor.actions.action import Outcome
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.ui import editor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.model.snapshot import Worktree
    from imi_monitor.ui.app import ImiApp
    from imi_monitor.ui.views.view import View


def act(view: View, tree: Worktree, verb: str, values: dict[str, object], done: Callable[[], None]) -> None:
    """Run the action on the worktree and call `done` after it succeeded. A claim of another owner leads to the dialog."""
    if verb == "discard":
        open_dialog(view, tree, verb, values, lambda _: done())
        return
    app = _app(view)
    if app is None:
        return

    def ended(result: Outcome | ImiError) -> None:
        if not isinstance(result, ImiError):
            app.say("\n".join(safe(line, 200) for line in (*result.lines, *result.warnings)))
            done()
        elif result.code == "claimed":
            open_dialog(view, tree, verb, values, lambda _: done())
        else:
            app.say(safe(result.sentence, 400), bad=True)

    app.action_commands.run_now(verb, tree, values, ended)


def open_dialog(
    view: View, tree: Worktree, verb: str, values: dict[str, object], done: Callable[[Outcome], None]
) -> None:
    """Open the action's dialog for the worktree; `done` gets the outcome if it was carried out."""
    app = _app(view)
    if app is not None:
        app.action_commands.open(verb, [tree], values, done)


def commit(view: View, tree: Worktree, done: Callable[[], None]) -> None:
    """Open the editor for a message, then commit what is staged; without a message nothing happens."""
    app = _app(view)
    staged = [file.path for file in tree.git.files if file.index not in ".?"] if tree.git is not None else []
    if app is None:
        return
    if not staged:
        app.say(f"nothing is staged in {safe(tree.key.worktree, 60)}: + stages a file or a hunk", bad=True)
        return
    with tempfile.TemporaryDirectory(prefix="imi-commit-") as folder:
        path = os.path.join(folder, "COMMIT_EDITMSG")
        head = f"Lines that begin with # are left out. This goes into the commit on {safe(tree.branch or '?', 200)}:"
        listed = [head, *(f"  {safe(name, 200)}" for name in staged[:100])]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n" + "".join(f"# {line}\n" for line in listed))
        editor.edit(app, folder, "COMMIT_EDITMSG")
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            kept = [line for line in file if not line.startswith("#")]
    message = "".join(kept).strip()
    if message:
        act(view, tree, "commit", {"message": message}, done)
    else:
        app.say("no message: nothing was committed")


def _app(view: View) -> ImiApp | None:
    """The app if it may change something, else None after saying so."""
    app = cast("ImiApp", view.app)
    if not app.read_only:
        return app
    app.say(app.read_only_reason, bad=True)
    return None
