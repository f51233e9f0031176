#!/bin/sh
# imi's hook program for answers, version 2: an agent that asks for a permission starts it beside its own dialog. It lays the
# question into the folder `asks` and stays until imi writes the answer into the named pipe there, or an empty line: then the
# question is answered in the agent itself. Only an attended Claude is answered, as one without a dialog would wait for this hook;
# and none that imi started, which has hooks of its own. opencode's plugin starts it and waits for nothing. It never fails.
trap 'exit 0' HUP INT TERM PIPE
exec 2>/dev/null
umask 077
cli=$1 agent=$PPID
if [ "$cli" = claude ]; then
  [ "$CLAUDE_CODE_ENTRYPOINT" = cli ] || exit 0
  agent=$CLAUDE_PID
fi
[ "$agent" ] && [ -z "$IMI_RUN_ID" ] && cd "${0%/*}/asks" || exit 0
for pipe in p.*; do # of an agent that is gone: nothing ends its hooks
  other=${pipe#p.} other=${other%%.*}
  [ -p "$pipe" ] && ! kill -0 "$other" && : 1<>"$pipe" && rm -f "$pipe" "q.${pipe#p.}"
done
read -r now _ </proc/uptime || now=$(date +%s)
name=$agent.$$.${now%.*}
mkfifo "p.$name" || exit 0
trap 'rm -f "p.$name" "q.$name"' 0
host=
read -r host </proc/sys/kernel/hostname
{
  printf '%s\n' "imi-hook 1 $cli $PPID" "host=$host" "CLAUDE_PID=$CLAUDE_PID" '' && cat && printf '\nimi-end\n'
} >"q.$name" || exit 0
read -r answer <"p.$name" && [ "$answer" ] && printf '%s\n' "$answer"
exit 0
