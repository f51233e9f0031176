"""Writes docs/events.md: every kind of event with its payload, from `EVENT_KINDS`. A kind or field without words is an error."""

from __future__ import annotations

from imi_monitor.store.events import EVENT_KINDS

KINDS = {
    "agent.described": "an agent got an emoji, a role or a team",
    "agent.forgotten": "the entry of an agent was deleted",
    "artifact.failed": "a file that a run left could not be saved",
    "artifact.saved": "a file that a run left was saved",
    "budget.used_up": "the budget of a day is used up: no more runs start",
    "budget.warned": "most of the budget of a day is used",
    "command.ended": "a program that a user ran in a worktree ended",
    "file.delivered": "a file of a contained workspace is where it was wanted",
    "file.refused": "a file of a contained workspace could not be delivered and waits for a person",
    "files.purged": "replaced files were deleted for good",
    "files.replaced": "an act on the diff replaced files; they are in the trash",
    "files.restored": "replaced files were brought back",
    "intent.logged": "an agent or person says what it is about to do",
    "lesson.logged": "an agent or person says what it has learnt",
    "milestone.logged": "an agent or person says what it has reached",
    "note.added": "an agent or person wrote a note on a line of a diff",
    "note.answered": "a note on a diff was answered",
    "note.done": "a note was marked as handled, or an intent as achieved",
    "note.sent": "the notes on a diff went to its agent as one round",
    "note.withdrawn": "a round of notes could not be delivered: its notes wait again",
    "ref.moved": "a branch or tag of others moved or vanished while an agent worked behind a wall",
    "registry.restored": "a backup was restored into the registry",
    "registry.started": "a new registry takes the place of one that is gone",
    "remote.claimed": "an agent here got the claim of a worktree of another machine",
    "remote.released": "a claim of an agent here on another machine ended",
    "repository.moved": "a repository was found at another place",
    "repository.trusted": "the programs of a repository may run",
    "repository.untrusted": "the programs of a repository may not run any more",
    "run.claim_lost": "the claim of a started agent was taken by another",
    "run.interrupted": "a started agent was interrupted, because its budget is used up",
    "run.resumable": "a run that waits for the end of a limit can go on",
    "run.used_up": "the turn of a started agent that is over has used up its budget: the next prompt is refused",
    "run.warned": "a started agent has used most of its budget",
    "session.ended": "a session of an agent is over",
    "session.progress": "a session changed its state, or got a checkpoint",
    "session.started": "a session of an agent began",
    "state.synced": "rows were brought back from the state files of a session",
    "task.assigned": "an item was given to an agent",
    "task.created": "an item is on the board",
    "task.edited": "an item was changed",
    "task.ended": "an attempt on an item ended",
    "task.moved": "an item has another status",
    "type.added": "a type of worktrees was added",
    "type.removed": "a type of worktrees was removed",
    "workspace.cleaned": "a contained workspace was moved to the trash",
    "workspace.purged": "a workspace in the trash was deleted for good",
    "workspace.restored": "a contained workspace was brought back",
    "worktree.adopted": "a worktree was found in the trash and listed again",
    "worktree.claimed": "an owner got the claim of a worktree",
    "worktree.commit": "a commit was made in a worktree; the agent is the owner of its claim at that moment",
    "worktree.created": "a worktree was made or recorded",
    "worktree.merged": "a worktree's branch was merged",
    "worktree.moved": "a worktree was found at another place",
    "worktree.purged": "a removed worktree was deleted for good",
    "worktree.released": "a claim ended",
    "worktree.removed": "a worktree was moved to the trash",
    "worktree.renamed": "a worktree got another name",
    "worktree.restored": "a removed worktree was brought back",
    "worktree.synced": "shared files were linked into a worktree",
    "worktree.updated": "a worktree got the commits of its pull request or trunk",
}
FIELDS = {
    "trash": "where it is in the trash",
    "ref": "the full name of a branch or tag",
    "labels": "the labels that its user gave it",
    "more_artifacts": "how many files it wrote besides",
    "uncommitted": "how many files are not committed",
    "user": "the person or agent that started it",
    "adopted": "true if it existed before imi knew it",
    "after": "the commit afterwards; null: it is gone",
    "agent": "the agent that got it",
    "artifacts": "the files that it names",
    "author": "the author of the pull request",
    "base": "the branch that the pull request is for",
    "batch": "the file that it is from",
    "before": "the commit before",
    "began_at": "when it began",
    "branch": "the branch",
    "branch_prefix": "the beginning of the names of its branches",
    "budget": "what was granted",
    "by": "the agent or person that did it, if that is not the owner",
    "changed": "the names of the changed fields",
    "checkpoint": "the number of the checkpoint",
    "claimed_by": "the owner of its claim when it was removed",
    "repo": "the repository, as all machines call it",
    "claims_lost": "how many claims the backup does not have",
    "cli": "the agent program",
    "commit": "the commit",
    "commits": "how many commits it got",
    "committed": "the commits that it made, the newest first",
    "committed_at": "when the commit was made",
    "conflicts": "how many files could not be linked",
    "context": "the terminal it was said in",
    "correlation_id": "the id that connects it with other events",
    "detail": "what it waits for, or why it failed",
    "died_before": "the owner whose process had died",
    "directory_prefix": "the beginning of the names of its folders",
    "emoji": "the agent's emoji",
    "ended_at": "when it ended",
    "epoch": "the epoch of the claim",
    "external_id": "its id in another system",
    "file": "the file",
    "files": "the files",
    "fingerprint": "a hash of the programs that are trusted",
    "forced_from": "the owner that lost the claim by force",
    "fork": "the repository of the pull request, if it is a fork",
    "from": "what it was before",
    "head": "the branch of the pull request",
    "how": "in which way it happened",
    "into": "the branch that was merged into",
    "items": "how many items were brought back",
    "kept": "what was kept",
    "kept_as": "where the registry from before the restore is",
    "line": "the command line, redacted",
    "linked": "how many links were made",
    "moved": "how many links were pointed elsewhere",
    "host": "the machine, by its label",
    "name": "the name of the command, or of the worktree on another machine",
    "note": "the number of the note",
    "notes": "the numbers of the notes",
    "outcome": "completed, failed, cancelled, or null while it is unknown",
    "overridden": "the reasons against the removal that were overridden",
    "passed_by": "the agent in line that got no claim, because its process is gone",
    "path": "the folder or file",
    "place": "the file and the number of the line",
    "pr_number": "the number of the pull request",
    "priority": "high, medium or low",
    "programs": "the programs that are trusted",
    "reason": "the reason that was given",
    "remark": 'what a note or its answer says, redacted; to servers only at `team.share = "prompts"`',
    "removed": "how many links were removed",
    "removed_by": "the agent or person that removed it",
    "replaces": "the id of the registry that is gone",
    "role": "the agent's role",
    "round": "the number of the round of that worktree",
    "run": "the id of the run",
    "seconds": "how long it ran",
    "session": "the id of the session, with its program in front",
    "sessions": "how many sessions were brought back",
    "since": "since when it was in the state from before",
    "source": "the place in the file that it is from",
    "state": "the state of the pull request",
    "status": "the state, or the exit status of a command",
    "subject": "the first line of the commit's message, redacted",
    "takeover_from": "the owner whose stale claim was taken over",
    "task": "the id of the item",
    "team": "the agent's team",
    "text": "what was said, redacted",
    "title": "the title",
    "to": "what it is now",
    "took_over": "true if a folder that was there became the worktree",
    "trash_id": "the id of the trash entry",
    "type": "the type of worktrees",
    "unit": "what is counted: usd, tokens or minutes",
    "until": "when the limit ends",
    "url": "the address of the pull request",
    "used": "what is used",
    "why": "why it failed",
}
_HEAD = """\
# Events

Made from the list in `imi_monitor/store/events.py` by `make docs`. Each change of state writes its event in the same
transaction. Sinks deliver events in their order and at least once: receivers know an event by its `id`, and order those
of one `source` by `sequence`.

`imi events` prints them, `imi history` searches them. The registry keeps the last 100,000, and those that a configured
sink does not have yet (up to 1,000,000 or 1 GB); `history.db` keeps all.

## On the wire

With `servers.amqp_url` each event is a persistent message on the topic exchange `bloodbank.events.v1`
(`servers.amqp_exchange`), with its kind as routing key (behind `servers.amqp_prefix`), as a CloudEvent 1.0 in JSON
(`application/cloudevents+json`):

```json
{"specversion": "1.0", "id": "…", "source": "//HOST/imi/REGISTRY", "type": "worktree.claimed", "subject": "app/feat-x",
 "time": "2026-01-27T15:30:00.123456+00:00", "datacontenttype": "application/json", "sequence": "00000000000000000042",
 "agent": "claude-1", "epoch": 3, "data": {"epoch": 3, "how": "claimed"}}
```

`agent`, `epoch` and `subject` are left out where there are none. With `servers.amqp_envelope = "bloodbank"` the message
is Bloodbank's envelope 1.0.0 instead (`event_id`, `event_type`, `timestamp`, `source`, `correlation_ids`,
`agent_context`, `payload`). Texts are redacted, cut to 2 KB each and without NUL; `team.share = "counts"` leaves out
names of files, subjects and details.

## Kinds

"""


def page() -> str:
    """The text of docs/events.md."""
    missing = [kind for kind in EVENT_KINDS if kind not in KINDS]
    missing += sorted({name for names in EVENT_KINDS.values() for name in names if name not in FIELDS})
    if missing:
        raise SystemExit(f"docs/generate_events.py has no words for {', '.join(missing)}: add them to KINDS or FIELDS")
    rows = ["| kind | what happened | payload |", "|---|---|---|"]
    rows += [
        f"| `{kind}` | {KINDS[kind]} | {', '.join(f'`{name}`' for name in dict.fromkeys(names)) or '–'} |"
        for kind, names in sorted(EVENT_KINDS.items())
    ]
    rows += ["", "## Fields of the payload", "", "| field | meaning |", "|---|---|"]
    used = {name for names in EVENT_KINDS.values() for name in names}
    rows += [f"| `{name}` | {words} |" for name, words in sorted(FIELDS.items()) if name in used]
    return _HEAD + "\n".join(rows) + "\n"
