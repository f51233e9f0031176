"""Completion scripts for three shells, made from the declarations of the actions.

The scripts call `imi completion names` for the names of worktrees; everything else is in the script.
"""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor import actions
from imi_monitor.actions.action import GLOBAL_OPTIONS, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action

_WORKTREE_ARGUMENTS = ("name", "worktree", "query")


@dataclass(frozen=True, slots=True)
class CompletedVerb:
    """What can follow one verb. `kind` says what its arguments are: `worktree`, `shell` or nothing known."""

    name: str
    help: str
    options: tuple[Option, ...]
    kind: str


def script(shell: str) -> list[str]:
    """The completion for `shell`, line by line."""
    known = verbs()
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](known)
    return text.strip("\n").split("\n")


def verbs() -> list[CompletedVerb]:
    """All verbs, in the order of the help pages."""
    return [
        CompletedVerb(word, _quotable(action.help), action.options, _kind(action))
        for action in actions.all_actions()
        for word in action.words
    ]


def _kind(action: Action) -> str:
    first = action.arguments[0].name if action.arguments else ""
    if first == "shell":
        return "shell"
    return "worktree" if first in _WORKTREE_ARGUMENTS and not action.makes_new else ""


def _quotable(text: str) -> str:
    """Help as a description in single quotes: ASCII, without characters that a shell or its completion interprets."""
    plain = text.encode("ascii", "replace").decode().replace("'", "")
    return plain.replace("\\", "").replace("`", "").replace(":", ",")


def _spellings(options: tuple[Option, ...], *, valued: bool = False) -> str:
    return " ".join(text for option in options if option.value or not valued for text in option.spellings)


def _groups(known: list[CompletedVerb]) -> dict[str, list[str]]:
    """`trash` -> `list`, `restore`, `purge`."""
    groups: dict[str, list[str]] = {}
    for verb in known:
        head, _, tail = verb.name.partition(" ")
        if tail:
            groups.setdefault(head, []).append(tail)
    return groups


def _firsts(known: list[CompletedVerb]) -> dict[str, str]:
    """The first words of the verbs, each with its help."""
    return {verb.name.partition(" ")[0]: verb.help for verb in reversed(known)}


def _table(known: list[CompletedVerb]) -> str:
    """A function for bash and zsh that sets what can follow a verb of up to two words."""
    lines = ["_imi_verb() {", "  imi_options= imi_values= imi_kind= imi_below="]
    lines += ['  case "$1" in']
    lines += [f"    {head}) imi_below='{' '.join(below)}' ;;" for head, below in _groups(known).items()]
    lines += ["  esac", '  case "$1 $2" in']
    for verb in known:
        pattern = f"'{verb.name}'" if " " in verb.name else f"'{verb.name} '*"
        sets = f"imi_options='{_spellings(verb.options)}' imi_values='{_spellings(verb.options, valued=True)}'"
        lines.append(f"    {pattern}) {sets} imi_kind='{verb.kind}' ;;")
    return "\n".join([*lines, "  esac", "}"])


def _bash(known: list[CompletedVerb]) -> str:
    return _filled(known, _BASH, " ".join([*_firsts(known), "help"]))


def _zsh(known: list[CompletedVerb]) -> str:
    described = [f"      '{word}:{text}'" for word, text in [*_firsts(known).items(), ("help", "list all commands")]]
    return _filled(known, _ZSH, "\n".join(described))


def _filled(known: list[CompletedVerb], text: str, words: str) -> str:
    text = text.replace("@VERBS@", words).replace("@GLOBALS@", _spellings(GLOBAL_OPTIONS))
    return f"{_table(known)}\n" + text.replace("@GLOBAL_VALUES@", _spellings(GLOBAL_OPTIONS, valued=True))


def _fish(known: list[CompletedVerb]) -> str:
    lines = ["complete -c imi -e", "complete -c imi -f", *(_fish_option("", option) for option in GLOBAL_OPTIONS)]
    lines += [
        f"complete -c imi -n __fish_use_subcommand -a {word} -d '{text}'"
        for word, text in [*_firsts(known).items(), ("help", "list all commands")]
    ]
    for head, below in _groups(known).items():
        inside = f"__fish_seen_subcommand_from {head}; and not __fish_seen_subcommand_from {' '.join(below)}"
        lines.append(f"complete -c imi -n '{inside}' -a '{' '.join(below)}'")
    for verb in known:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.name.split(" "))
        lines += [_fish_option(f" -n '{seen}'", option) for option in verb.options]
        asked = {"worktree": "(command imi completion names 2>/dev/null)", "shell": "zsh bash fish"}.get(verb.kind)
        if asked:
            lines.append(f"complete -c imi -n '{seen}' -a '{asked}'")
    return "\n".join(lines)


def _fish_option(condition: str, option: Option) -> str:
    named = "".join(f" -{'s' if len(name) == 1 else 'l'} {name}" for name in (option.name, *option.aliases))
    files = " -F" if option.value in ("FILE", "REPO") else ""
    return f"complete -c imi{condition}{named}{' -r' if option.value else ''}{files} -d '{_quotable(option.help)}'"


_BASH = r"""
_imi() {
  local imi_options imi_values imi_kind imi_below imi_verb= imi_second= imi_index=1 imi_word imi_quoted
  local imi_current=${COMP_WORDS[COMP_CWORD]} imi_before=${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  _imi_verb '' ''
  while [ "$imi_index" -lt "$COMP_CWORD" ]; do
    imi_word=${COMP_WORDS[imi_index]}
    case " @GLOBAL_VALUES@ $imi_values " in
      *" $imi_word "*) imi_index=$((imi_index + 1)) ;;
      *) case "$imi_word" in
          -*) ;;
          *)  if [ -z "$imi_verb" ]; then imi_verb=$imi_word
              elif [ -z "$imi_second" ]; then imi_second=$imi_word
              fi
              _imi_verb "$imi_verb" "$imi_second" ;;
        esac ;;
    esac
    imi_index=$((imi_index + 1))
  done
  case " @GLOBAL_VALUES@ $imi_values " in
    *" $imi_before "*) return ;;
  esac
  case "$imi_current" in
    -*) COMPREPLY=($(compgen -W "$imi_options @GLOBALS@" -- "$imi_current")); return ;;
  esac
  if [ -z "$imi_verb" ]; then
    COMPREPLY=($(compgen -W "@VERBS@" -- "$imi_current"))
  elif [ -n "$imi_below" ] && [ -z "$imi_second" ]; then
    COMPREPLY=($(compgen -W "$imi_below" -- "$imi_current"))
  elif [ "$imi_kind" = shell ]; then
    COMPREPLY=($(compgen -W "zsh bash fish" -- "$imi_current"))
  elif [ "$imi_kind" = worktree ]; then
    while IFS= read -r imi_word; do
      if [ "${imi_word:0:${#imi_current}}" = "$imi_current" ]; then
        printf -v imi_quoted %q "$imi_word"
        COMPREPLY+=("$imi_quoted")
      fi
    done < <(command imi completion names 2>/dev/null)
  fi
}
complete -o default -F _imi imi
"""

_ZSH = r"""
_imi() {
  local imi_options imi_values imi_kind imi_below imi_verb= imi_second= imi_index=2 imi_word
  local -a imi_list
  _imi_verb '' ''
  while (( imi_index < CURRENT )); do
    imi_word=${words[imi_index]}
    if [[ " @GLOBAL_VALUES@ $imi_values " == *" $imi_word "* ]]; then
      (( imi_index += 1 ))
    elif [[ $imi_word != -* ]]; then
      if [[ -z $imi_verb ]]; then imi_verb=$imi_word
      elif [[ -z $imi_second ]]; then imi_second=$imi_word
      fi
      _imi_verb "$imi_verb" "$imi_second"
    fi
    (( imi_index += 1 ))
  done
  if [[ " @GLOBAL_VALUES@ $imi_values " == *" ${words[CURRENT-1]} "* ]]; then
    _files
  elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- ${=imi_options} @GLOBALS@
  elif [[ -z $imi_verb ]]; then
    imi_list=(
@VERBS@
    )
    _describe command imi_list
  elif [[ -n $imi_below && -z $imi_second ]]; then
    compadd -- ${=imi_below}
  elif [[ $imi_kind == shell ]]; then
    compadd -- zsh bash fish
  elif [[ $imi_kind == worktree ]]; then
    imi_list=(${(f)"$(command imi completion names 2>/dev/null)"})
    compadd -a imi_list
  else
    _files
  fi
}
if (( $+functions[compdef] )); then compdef _imi imi; fi
"""
