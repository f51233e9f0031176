"""`imi shell-init` and `imi completion`: what a shell needs so that `imi feat x` really changes its directory.

A process cannot change its parent's directory. The function of `shell-init` gives the command a file to write the path
into (IMI_CD_FILE) and goes there afterwards; stdout stays the command's own.
"""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Argument, Outcome
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

SHELLS = ("zsh", "bash", "fish")
NAMES = "names"  # not a shell: what the completion asks while a person types


class _ShellAction(Action):
    group = "Setup"
    changes = False
    recovers = False
    hot = True  # it runs whenever a terminal is opened or the tab key is pressed

    def script(self, shell: str) -> list[str]:
        raise NotImplementedError

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        lines = self.script(_shell(request.text("shell"), request.verb))
        return Outcome(lines, {"script": "\n".join(lines) + "\n"})


class ShellInitAction(_ShellAction):
    words = ("shell-init",)
    label = "Shell"
    help = 'print the shell function that changes directory, and the completion: eval "$(imi shell-init zsh)"'
    more = """
    In ~/.zshrc or ~/.bashrc: eval "$(imi shell-init zsh)" (or bash); in ~/.config/fish/config.fish:
    imi shell-init fish | source. From then on imi feat, imi go and the like take you there.
    """
    arguments = (Argument("shell", "zsh, bash or fish; the one in $SHELL if not given", optional=True),)

    def script(self, shell: str) -> list[str]:
        from imi_monitor.cli import shell_completion, shell_function

        return [*shell_function.function(shell), *shell_completion.script(shell)]


class CompletionAction(_ShellAction):
    words = ("completion",)
    label = "Completion"
    help = "print the completion alone, for a shell that shall not get the function"
    arguments = (Argument("shell", "zsh, bash or fish; the one in $SHELL if not given", optional=True),)

    def script(self, shell: str) -> list[str]:
        from imi_monitor.cli import shell_completion

        return shell_completion.script(shell)

    def run(self, context: Context, request: Request) -> Outcome:
        if request.text("shell") == NAMES:
            found = _names(context)
            return Outcome(found, {"names": found})
        return super().run(context, request)


def _names(context: Context) -> list[str]:
    """The worktrees a person may mean here. One whose name cannot be typed and shown as it is, is left out."""
    from imi_monitor.actions import worktree_lookup

    if not os.path.exists(context.database):
        return []  # the tab key makes no registry
    repository = context.find_repository()
    among = [repository] if repository is not None else worktree_lookup.known_repositories(context)
    found = {one.name for each in among for one in worktree_lookup.list_worktrees(context, each)}
    return sorted(name for name in found if safe(name) == name)


def _shell(named: str | None, verb: str) -> str:
    shell = os.path.basename(os.environ.get("SHELL", "")) if named is None else named
    if shell not in SHELLS:
        raise UsageError(f"{safe(shell)!r} is no shell that imi knows: imi {verb} {'|'.join(SHELLS)}", code="bad-shell")
    return shell


ACTIONS = (ShellInitAction(), CompletionAction())
