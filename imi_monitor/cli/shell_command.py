"""`imi shell-init` and `imi completion`: the shell function with which `imi feat x` changes directory, and completion.

A process cannot change its parent's directory. The function passes a file (IMI_CD_FILE), to which the command writes the
path, and changes directory afterwards; stdout is not used for it.
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
NAMES = "names"  # instead of a shell: the completion scripts call `imi completion names`


class _ShellAction(Action):
    group = "Setup"
    changes = False
    recovers = False
    hot = True  # it runs when a terminal opens and when the tab key is pressed

    def script(self, shell: str) -> list[str]:
        raise NotImplementedError

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        lines = self.script(_shell(request.text("shell"), request.verb))
        return Outcome(lines, {"script": "\n".join(lines) + "\n"})


class ShellInitAction(_ShellAction):
    words = ("shell-init",)
    label = "Shell"
    help = 'print the shell function and the completion: eval "$(imi shell-init zsh)"'
    more = """
    In ~/.zshrc or ~/.bashrc: eval "$(imi shell-init zsh)" (or bash); in ~/.config/fish/config.fish:
    imi shell-init fish | source. The function makes imi feat, imi go and others change directory.
    """
    arguments = (Argument("shell", "zsh, bash or fish (default: the one in $SHELL)", optional=True),)

    def script(self, shell: str) -> list[str]:
        from imi_monitor.cli import shell_completion, shell_function

        return [*shell_function.function(shell), *shell_completion.script(shell)]


class CompletionAction(_ShellAction):
    words = ("completion",)
    label = "Completion"
    help = "print the completion without the shell function"
    arguments = (Argument("shell", "zsh, bash or fish (default: the one in $SHELL)", optional=True),)

    def script(self, shell: str) -> list[str]:
        from imi_monitor.cli import shell_completion

        return shell_completion.script(shell)

    def run(self, context: Context, request: Request) -> Outcome:
        if request.text("shell") == NAMES:
            found = _names(context)
            return Outcome(found, {"names": found})
        return super().run(context, request)


def _names(context: Context) -> list[str]:
    """The names of worktrees for completion, without those that hold control characters."""
    from imi_monitor.actions import worktree_lookup

    if not os.path.exists(context.database):
        return []  # completion must not create a registry
    repository = context.find_repository()
    among = [repository] if repository is not None else worktree_lookup.known_repositories(context)
    found = {one.name for each in among for one in worktree_lookup.list_worktrees(context, each)}
    return sorted(name for name in found if safe(name) == name)


def _shell(named: str | None, verb: str) -> str:
    shell = os.path.basename(os.environ.get("SHELL", "")) if named is None else named
    if shell not in SHELLS:
        raise UsageError(f"{safe(shell)!r} is not a supported shell: imi {verb} {'|'.join(SHELLS)}", code="bad-shell")
    return shell


ACTIONS = (ShellInitAction(), CompletionAction())
