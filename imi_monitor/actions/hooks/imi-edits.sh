#!/bin/sh
# imi's second hook program, version 1: says in one line which other worktree has changed the file that an agent reads or edits.
# An agent gives it an event on stdin; imi's dashboard, `imi serve` or `imi watch` keeps the files in ../edits current. What is
# older than 10 seconds says nothing, and whatever goes wrong says nothing. One fork (awk).
trap 'exit 0' 0
exec 2>/dev/null
[ -t 0 ] && exit 0
cd "${0%/*}/../edits" || exit 0
set -- *.tsv
[ -e "$1" ] || exit 0
awk '
function field(name,   value) {
  if (!match(event, "\"" name "\"[ ]*:[ ]*\"[^\"\\\\]*\"")) return ""
  value = substr(event, RSTART, RLENGTH)
  sub(/^"[^"]*"[ ]*:[ ]*"/, "", value)
  return substr(value, 1, length(value) - 1)
}
function lies_in(root) { return index(path "/", root "/") == 1 }
function begin(root, mode) { found = root; blocks = mode == "block"; said = 0; delete mine; delete others }
function read_file(name,   line, part, best, tree, mode, begun) {
  if ((getline line < name) <= 0) return
  split(line, part, " ")
  if (part[1] != "imi-edits" || part[2] != "1" || now - part[3] > 10 || part[3] - now > 2) return
  mode = part[4]
  while ((getline line < name) > 0) {
    split(line, part, "\t")
    if (part[1] == "root") {
      if (lies_in(part[2]) && length(part[2]) > length(best) && length(part[2]) > length(found)) { best = part[2]; tree = part[3] }
      continue
    }
    if (best == "") break
    if (!begun) { begin(best, mode); begun = 1 }
    if (is_prompt) {
      if (part[3] == tree) mine[part[2]] = 1
      else others[part[2]] = part[3]
    } else if (part[2] == substr(path, length(best) + 2) && said < 3)
      if (part[4] == "" ? part[3] != tree : part[4] != session) texts[++said] = part[5]
  }
  if (best != "" && !begun) begin(best, mode)
}
BEGIN {
  while ((getline line < "-") > 0) event = event line
  kind = field("hook_event_name"); tool = field("tool_name"); session = field("session_id")
  is_prompt = kind == "UserPromptSubmit" || kind == "BeforeAgent"
  path = field("file_path"); if (path == "") path = field("notebook_path")
  if (is_prompt) path = field("cwd")
  if (path == "") exit
  if (substr(path, 1, 1) != "/") path = field("cwd") "/" path
  srand(); now = srand()
  for (number = 1; number < ARGC; number++) read_file(ARGV[number])
  if (is_prompt) {
    for (name in mine) if (name in others && said < 5) { said++; list = list (list == "" ? "" : ", ") name " (" others[name] ")" }
    text = "other worktrees have changed files of this worktree, too, and not merged them: " list
  } else for (number = 1; number <= said; number++) text = text (number == 1 ? "" : "; ") texts[number]
  if (!said) exit
  gsub(/["\\]/, "\047", text)
  text = "imi: " text
  reads = tool == "Read" || tool == "read_file"
  if (kind == "BeforeTool") {
    if (blocks && !reads) print "{\"decision\":\"deny\",\"reason\":\"" text "\"}"
  } else if (kind == "PreToolUse" && blocks && !reads)
    print "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"" text "\"}}"
  else print "{\"hookSpecificOutput\":{\"hookEventName\":\"" kind "\",\"additionalContext\":\"" text "\"}}"
  exit
}' "$@"
exit 0
