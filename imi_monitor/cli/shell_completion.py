"""Completion scripts for three shells. They ask `imi completion values` for every word, so they hold no names of their own.

Each line of the answer is a word, two blanks and its description; the word @files means that the shell completes names of files.
"""

from __future__ import annotations


def script(shell: str) -> list[str]:
    """The completion for `shell`, line by line: ASCII without tabs."""
    return {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell].strip("\n").split("\n")


# bash splits words at `=` and `:` and replaces only what is behind the last of them; the words are joined again for imi.
_BASH = r"""
_imi() {
  local imi_current=${COMP_WORDS[COMP_CWORD]} imi_line imi_quoted imi_index imi_cut=
  local -a imi_words
  COMPREPLY=()
  for (( imi_index = 1; imi_index <= COMP_CWORD; imi_index++ )); do
    imi_line=${COMP_WORDS[imi_index]}
    if [ ${#imi_words[@]} -gt 0 ]; then
      case "$imi_line" in [=:]*) imi_words[${#imi_words[@]}-1]+=$imi_line; continue ;; esac
      case "${imi_words[${#imi_words[@]}-1]}" in *[=:]) imi_words[${#imi_words[@]}-1]+=$imi_line; continue ;; esac
    fi
    imi_words+=("$imi_line")
  done
  case "$imi_current" in [=:]) imi_current= ;; esac
  imi_line=${imi_words[${#imi_words[@]}-1]}
  imi_cut=$(( ${#imi_line} - ${#imi_current} ))
  while IFS= read -r imi_line; do
    imi_line=${imi_line%%  *}
    if [ "$imi_line" = @files ]; then
      while IFS= read -r imi_line; do
        printf -v imi_quoted %q "$imi_line"
        COMPREPLY+=("$imi_quoted")
      done < <(compgen -f -- "$imi_current")
    else
      printf -v imi_quoted %q "${imi_line:imi_cut}"
      COMPREPLY+=("$imi_quoted")
    fi
  done < <(command imi completion values -- "${imi_words[@]}" 2>/dev/null)
}
complete -F _imi imi
"""

_ZSH = r"""
_imi() {
  local imi_line
  local -a imi_values imi_shown
  for imi_line in "${(@f)$(command imi completion values -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $imi_line == @files* ]]; then
      _files
    elif [[ -n $imi_line ]]; then
      imi_values+=("${imi_line%%  *}")
      imi_shown+=("${imi_line%%  *}  ${imi_line#*  }")
    fi
  done
  (( $#imi_values )) && compadd -l -d imi_shown -a imi_values
}
if (( $+functions[compdef] )); then compdef _imi imi; fi
"""

_FISH = r"""
function __imi_complete
  set -l imi_words (commandline -opc) (commandline -ct)
  for imi_line in (command imi completion values -- $imi_words[2..-1] 2>/dev/null)
    if string match -q '@files*' -- $imi_line
      __fish_complete_path (commandline -ct)
    else
      string replace '  ' \t -- $imi_line
    end
  end
end
complete -c imi -e
complete -c imi -f -a '(__imi_complete)'
"""
