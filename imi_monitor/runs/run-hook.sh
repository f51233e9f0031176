#!/bin/sh
# A hook of a Claude that imi started in a window: `run-hook.sh FOLDER [wait]`. It appends the event on its stdin to the run's
# output as one line, with its time; with `wait` it stays until imi writes the answer to its named pipe, or an empty line: the user has answered
# in the window, which Claude itself reports to no hook. It never fails.
trap 'exit 0' HUP INT TERM PIPE
exec 2>/dev/null
umask 077
folder=$1 ask=
if [ "$2" = wait ]; then
  read -r now _ </proc/uptime || now=$(date +%s)
  ask=$$-$now
  mkfifo "$folder/ask-$ask" || ask=
fi
trap 'rm -f "$folder/hook.$$" "$folder/ask-$ask"' 0
# one write for each line: several hooks run at once
{ printf '{"ask":"%s","timestamp":"%s","hook":' "$ask" "$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)" && tr -d '\n' && printf '}\n'; } >"$folder/hook.$$" || exit 0
cat "$folder/hook.$$" >>"$folder/out"
[ "$ask" ] || exit 0
read -r answer <"$folder/ask-$ask" && [ "$answer" ] || exit 0
printf '%s\n' "$answer"
printf '{"ask":"%s","answered":true}\n' "$ask" >>"$folder/out"
exit 0
