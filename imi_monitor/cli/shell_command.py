"""`imi shell-init` and `imi completion`: the shell function with which `imi feat x` changes directory, and completion.

A process cannot change its parent's directory. The function passes a file (IMI_CD_FILE), to which the command writes the
path, and changes directory afterwards; stdin, stdout and the exit status are those of the command. The text of the
function is ASCII without tabs, because output is made safe for the terminal.
"""

from __future__ import annotations

import os

from imi_monitor import actions
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context


SHELLS = ("zsh", "bash", "fish")
VALUES = "values"  # instead of a shell: the completion scripts call `imi completion values -- WORDS`


_SHELL = Argument("shell", "zsh, bash or fish (default: the one in $SHELL)", optional=True, choices=SHELLS)


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
    examples = (('eval "$(imi shell-init zsh)"', "in ~/.zshrc"),)
    help = 'print the shell function and the completion: eval "$(imi shell-init zsh)"'
    more = """
    In ~/.zshrc or ~/.bashrc: eval "$(imi shell-init zsh)" (or bash); in ~/.config/fish/config.fish:
    imi shell-init fish | source. The function makes imi feat, imi go and others change directory. With --ask each terminal
    that opens shows what it continues after a crash, and asks once what it is for (`imi context open`).
    """
    arguments = (_SHELL,)
    options = (Option("ask", "also ask what a terminal is for when it opens"),)

    def script(self, shell: str) -> list[str]:
        from imi_monitor.cli import shell_completion

        return [*shell_function_lines(shell), *shell_completion.script(shell)]

    def run(self, context: Context, request: Request) -> Outcome:
        made = super().run(context, request)
        if not request.flag("ask"):
            return made
        asking = _FISH_ASKS if _shell(request.text("shell"), request.verb) == "fish" else _POSIX_ASKS
        lines = [*made.lines, *asking.strip("\n").split("\n")]
        return Outcome(lines, {"script": "\n".join(lines) + "\n"})


class CompletionAction(_ShellAction):
    words = ("completion",)
    label = "Completion"
    help = "print the completion without the shell function"
    more = """
    The script asks `imi completion values -- WORDS` for every word; each line of the answer is a word, two spaces and its
    description.
    """
    arguments = (_SHELL, Argument("words", "the words typed so far, for `values`", rest=True))

    def script(self, shell: str) -> list[str]:
        from imi_monitor.cli import shell_completion

        return shell_completion.script(shell)

    def run(self, context: Context, request: Request) -> Outcome:
        words = request.rest("words")
        if request.text("shell") == VALUES:
            from imi_monitor.cli import completion_values

            found = completion_values.candidates(context, words)
            data: dict[str, object] = {"values": [{"word": word, "help": help} for word, help in found]}
            return Outcome([f"{word}  {help}" for word, help in found], data)
        if words:
            raise UsageError(
                f"imi completion takes no argument {safe(words[0])!r} (`imi completion --help`)", code="extra"
            )
        return super().run(context, request)


def _shell(named: str | None, verb: str) -> str:
    shell = os.path.basename(os.environ.get("SHELL", "")) if named is None else named
    if shell not in SHELLS:
        raise UsageError(f"{safe(shell)!r} is not a supported shell: imi {verb} {'|'.join(SHELLS)}", code="bad-shell")
    return shell


# IMI_SHELL shows `imi doctor` that the function called it; it is not exported, so that other programs of the shell do not
# inherit it. `command` and `builtin` because users alias rm and cd; no `local x=$(…)`, which hides a failure; `|| :` and
# `|| imi_code=…` because the shell may run with -e. `read -d ''` keeps a newline at the end of a path.
_POSIX = r"""
function imi {
  case "${1-}" in
    @PLAIN@) IMI_SHELL=@SHELL@ command imi "$@"; return ;;
  esac
  local imi_file imi_target imi_code
  imi_file=$(command mktemp "${TMPDIR:-/tmp}/imi-cd.XXXXXXXX") || { IMI_SHELL=@SHELL@ command imi "$@"; return; }
  imi_code=0
  IMI_SHELL=@SHELL@ IMI_CD_FILE=$imi_file command imi "$@" || imi_code=$?
  imi_target=
  IFS= read -r -d '' imi_target < "$imi_file" || :
  command rm -f -- "$imi_file"
  if [ "$imi_code" -eq 0 ] && [ -n "$imi_target" ]; then
    builtin cd -- "$imi_target" || imi_code=$?
  fi
  return "$imi_code"
}
"""

# fish runs a function of a command substitution in the same process: there it must not change the directory.
_FISH = r"""
function imi --description 'git worktrees for many coding agents'
  switch "$argv[1]"
    case @PLAIN@
      IMI_SHELL=@SHELL@ command imi $argv
      return
  end
  set -l imi_file
  set -l imi_folder /tmp
  set -q TMPDIR; and set imi_folder $TMPDIR
  if not status is-command-substitution
    set imi_file (command mktemp $imi_folder/imi-cd.XXXXXXXX)
  end
  if test -z "$imi_file"
    IMI_SHELL=@SHELL@ command imi $argv
    return
  end
  IMI_SHELL=@SHELL@ IMI_CD_FILE=$imi_file command imi $argv
  set -l imi_code $status
  set -l imi_target
  read -z imi_target < $imi_file
  command rm -f -- $imi_file
  if test $imi_code -eq 0 -a -n "$imi_target"
    builtin cd -- $imi_target
    or set imi_code $status
  end
  return $imi_code
end
"""

_POSIX_ASKS = r"""
case $- in
  *i*) if [ -t 0 ] && [ -t 2 ]; then command imi context open || :; fi ;;
esac
"""

# With `imi shell-init fish | source` the standard input is the pipe.
_FISH_ASKS = r"""
if status is-interactive; and isatty stderr
  command imi context open < /dev/tty
end
"""


def shell_function_lines(shell: str) -> list[str]:
    """The function for `shell`, line by line."""
    text = _FISH if shell == "fish" else _POSIX
    plain = (" " if shell == "fish" else "|").join(words_without_path())
    return text.strip("\n").replace("@PLAIN@", plain).replace("@SHELL@", shell).split("\n")


def words_without_path() -> list[str]:
    """The first words of the verbs that never return a path: the function makes no temporary file for them."""
    found = {"help": True}
    for action in actions.all_actions():
        for word in action.words:
            head = word.partition(" ")[0]
            found[head] = found.get(head, True) and not action.returns_path
    return [head for head, without in found.items() if without]


ACTIONS = (ShellInitAction(), CompletionAction())
