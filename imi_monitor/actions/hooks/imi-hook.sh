#!/bin/sh
# imi's hook program, version 1. An agent gives it an event on stdin; it becomes one file in the spool beside this file.
# It prints nothing, never fails and makes nobody wait: the agent is at work. One fork (cat), no date, no jq.
# A file is whole when its last line says so; names need no clock, the reader takes the file's own time.
trap 'exit 0' 0
exec 2>/dev/null
trap '' PIPE XFSZ
umask 077
set -C
[ -t 0 ] && exit 0
cd "${0%/*}/spool" || exit 0

# Nobody may be reading for weeks: the oldest go, with 10000 files or 512 MB. Behind the agent's back, each 64th time or so.
sweep() {
  files=0 blocks=0
  ls -tsk | while read -r size name; do
    case $name in e.*) ;; *) continue ;; esac
    files=$((files + 1)) blocks=$((blocks + size))
    if [ $files -gt 10000 ] || [ $blocks -gt 524288 ]; then echo "$name"; fi
  done | xargs rm -f --
}

cli=$1
count=
read -r count <../count
case $count in '' | *[!0-9]* | ???*) count=63 ;; esac # two may count at once: better once too often than never
count=$((count + 1))
if [ $count -ge 64 ]; then
  count=0
  sweep </dev/null >/dev/null &
fi
echo $count >|../count

# O_EXCL: a process number comes again, and another container may have the same one now
event=
for again in '' .1 .2 .3 .4 .5 .6 .7 .8 .9; do
  if true >"e.$PPID.$$$again"; then
    event=e.$PPID.$$$again
    break
  fi
done
[ "$event" ] || exit 0
ulimit -f 32768
host=
read -r host </proc/sys/kernel/hostname
{
  printf '%s\n' "imi-hook 1 $cli $PPID" "host=$host" "CLAUDE_PID=$CLAUDE_PID" "TMUX_PANE=$TMUX_PANE" \
    "ZELLIJ_SESSION_NAME=$ZELLIJ_SESSION_NAME" "ZELLIJ_PANE_ID=$ZELLIJ_PANE_ID" \
    "GEMINI_SESSION_ID=$GEMINI_SESSION_ID" '' &&
    cat && printf '\nimi-end\n'
} >>"$event" || rm -f "$event"

# with this event no question of this Claude is open: what still waits for imi's answer in its name leaves
if [ "$2" = rest ]; then
  for pipe in ../asks/p.$CLAUDE_PID.*; do
    [ -p "$pipe" ] && echo 1<>"$pipe"
  done
fi
exit 0
