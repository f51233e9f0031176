"""The shell function `imi`, as text. It leaves stdin, stdout and the exit status to the command it wraps.

The lines hold no tab and nothing that is not ASCII, because they are printed like everything else: made safe.
"""

from __future__ import annotations

# Asked by agents all day and never giving a path: they are spared the temporary file.
WITHOUT_PATH = (
    "claim",
    "heartbeat",
    "verify-lock",
    "check-lock",
    "release",
    "claims",
    "queue",
    "list",
    "ls",
    "status",
    "events",
    "diff",
    "log",
    "collisions",
    "reset-terminal",
    "sync",
    "trust",
    "doctor",
    "paths",
    "config",
    "shell-init",
    "completion",
    "types",
    "help",
    "watch",
)

# IMI_SHELL tells `imi doctor` that it was called by the function; not exported, or whatever is started from that shell would
# say so too. `command` and `builtin` because people alias rm and cd; no `local x=$(…)`, which would hide a failure; `|| :` and
# `|| imi_code=…` because somebody's shell may run with -e. `read -d ''` keeps a newline at the end of a path.
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
    plain = " ".join(WITHOUT_PATH) if shell == "fish" else "|".join(WITHOUT_PATH)
    return text.strip("\n").replace("@PLAIN@", plain).replace("@SHELL@", shell).split("\n")
