"""The text of the shell function `imi`. stdin, stdout and the exit status are those of the command it wraps.

The lines hold ASCII without tabs, because output is made safe for the terminal.
"""

from __future__ import annotations

from imi_monitor import actions

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


def function(shell: str) -> list[str]:
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
