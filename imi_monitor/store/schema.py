"""The registry's tables. The first four are iMi 2.0.2's and never change; the others are ours.

Our tables are keyed by (repo_name, worktree_name), never by `worktrees(id)`: iMi writes with INSERT OR REPLACE, which
gives a row a new id. Each migration is one transaction; `PRAGMA user_version`, which iMi does not use, is the version.
"""

from __future__ import annotations

_IMI_TABLES = """
CREATE TABLE IF NOT EXISTS repositories (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    remote_url TEXT NOT NULL,
    default_branch TEXT NOT NULL DEFAULT 'main',
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    active BOOLEAN NOT NULL DEFAULT TRUE
);
CREATE TABLE IF NOT EXISTS worktree_types (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    branch_prefix TEXT NOT NULL,
    worktree_prefix TEXT NOT NULL,
    description TEXT,
    is_builtin BOOLEAN NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS worktrees (
    id TEXT PRIMARY KEY,
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    branch_name TEXT NOT NULL,
    worktree_type TEXT NOT NULL,
    path TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    active BOOLEAN NOT NULL DEFAULT TRUE,
    agent_id TEXT,
    FOREIGN KEY (repo_name) REFERENCES repositories (name),
    UNIQUE (repo_name, worktree_name)
);
CREATE TABLE IF NOT EXISTS agent_activities (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    worktree_id TEXT NOT NULL,
    activity_type TEXT NOT NULL,
    file_path TEXT,
    description TEXT NOT NULL,
    created_at TEXT NOT NULL,
    FOREIGN KEY (worktree_id) REFERENCES worktrees (id)
);
CREATE INDEX IF NOT EXISTS idx_worktrees_repo_name ON worktrees (repo_name);
CREATE INDEX IF NOT EXISTS idx_worktrees_active ON worktrees (active);
CREATE INDEX IF NOT EXISTS idx_agent_activities_worktree_id ON agent_activities (worktree_id);
INSERT OR IGNORE INTO worktree_types (name, branch_prefix, worktree_prefix, description, is_builtin, created_at) VALUES
    ('feat', 'feat/', 'feat-', 'a feature', 1, strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')),
    ('fix', 'fix/', 'fix-', 'a bug fix', 1, strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')),
    ('aiops', 'aiops/', 'aiops-', 'agents, rules and their configuration', 1,
        strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')),
    ('devops', 'devops/', 'devops-', 'build, deployment and repository upkeep', 1,
        strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')),
    ('review', 'pr/', 'review-', 'a pull request under review', 1, strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now'));
"""

# Nullable columns in iMi's table, so that iMi's statements still work.
_IMI_COLUMNS = """
ALTER TABLE worktrees ADD COLUMN claimed_at TEXT;
ALTER TABLE worktrees ADD COLUMN released_at TEXT;
ALTER TABLE worktrees ADD COLUMN pr_number INTEGER;
ALTER TABLE worktrees ADD COLUMN base_branch TEXT;
ALTER TABLE worktrees ADD COLUMN closed_how TEXT;
"""

_OUR_TABLES = """
-- the folder and machine of each name in `repositories`
CREATE TABLE places (
    repo_name TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    common_dir TEXT NOT NULL,
    UNIQUE (host, common_dir)
) WITHOUT ROWID;

-- one row per worktree: the current owner. The epoch grows with each grant, and later acts must name it.
CREATE TABLE claims (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    agent_id TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    task_id TEXT,
    claimed_at TEXT,
    heartbeat_at TEXT,
    heartbeat_uptime REAL,
    ttl_seconds REAL,
    host TEXT,
    boot TEXT,
    pid INTEGER,
    pid_started TEXT,
    PRIMARY KEY (repo_name, worktree_name)
) WITHOUT ROWID;

-- one row per grant, kept: owner, times, and how it ended
CREATE TABLE claim_history (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    task_id TEXT,
    host TEXT NOT NULL,
    claimed_at TEXT NOT NULL,
    released_at TEXT,
    ended TEXT,
    taken_by TEXT,
    reason TEXT,
    PRIMARY KEY (repo_name, worktree_name, epoch)
) WITHOUT ROWID;
CREATE INDEX claim_history_by_agent ON claim_history (agent_id, claimed_at);

-- first come, first served: `seq` is the order
CREATE TABLE claim_queue (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    task_id TEXT,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_started TEXT,
    enqueued_at TEXT NOT NULL,
    gives_up_uptime REAL NOT NULL
);
CREATE INDEX claim_queue_by_worktree ON claim_queue (repo_name, worktree_name, seq);

-- the event log (published_at and attempts are for a relay)
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    host TEXT NOT NULL,
    repo_name TEXT,
    worktree_name TEXT,
    agent_id TEXT,
    epoch INTEGER,
    data TEXT NOT NULL DEFAULT '{}',
    occurred_at TEXT NOT NULL,
    published_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX events_by_type ON events (type, seq);
CREATE INDEX events_by_worktree ON events (repo_name, worktree_name, seq);
CREATE INDEX events_unpublished ON events (seq) WHERE published_at IS NULL;

CREATE TABLE agents (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    host TEXT NOT NULL,
    status TEXT NOT NULL,
    first_seen_at TEXT NOT NULL,
    last_seen_at TEXT NOT NULL
) WITHOUT ROWID;

-- recorded intents that are not finished: recovery after a crash starts here
CREATE TABLE operations (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_started TEXT,
    started_at TEXT NOT NULL,
    data TEXT NOT NULL
);

-- removed worktrees that can be restored
CREATE TABLE trash (
    id TEXT PRIMARY KEY,
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    trash_path TEXT NOT NULL,
    removed_at TEXT NOT NULL,
    removed_by TEXT NOT NULL,
    how TEXT NOT NULL,
    data TEXT NOT NULL,
    restored_at TEXT,
    purged_at TEXT
);
CREATE INDEX trash_kept ON trash (removed_at) WHERE restored_at IS NULL AND purged_at IS NULL;

CREATE TABLE trust (
    host TEXT NOT NULL,
    common_dir TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    trusted_at TEXT NOT NULL,
    PRIMARY KEY (host, common_dir)
) WITHOUT ROWID;
"""

# Version 2: sessions. Child rows refer to a session by its `seq`, because there are many and ids are long.
_SESSIONS = """
CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    cli TEXT NOT NULL,
    repo_name TEXT,
    worktree_name TEXT,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    status_at TEXT NOT NULL,
    lost TEXT,
    detail TEXT,
    cwd TEXT,
    branch TEXT,
    parent_id TEXT,
    title TEXT,
    prompt TEXT,
    last_message TEXT,
    model TEXT,
    version TEXT,
    tokens_in INTEGER,
    tokens_out INTEGER,
    tokens_cached INTEGER,
    cost_usd REAL,
    context_used INTEGER,
    context_size INTEGER,
    boot TEXT,
    pid INTEGER,
    pid_started TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    started_at TEXT,
    ended_at TEXT,
    seen_at TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (host, id)
);
CREATE INDEX sessions_by_worktree ON sessions (repo_name, worktree_name, seen_at);
CREATE INDEX sessions_by_agent ON sessions (agent_id, seen_at);
CREATE INDEX sessions_by_age ON sessions (seen_at);

-- one row per tool call
CREATE TABLE tool_calls (
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    input TEXT,
    input_sha256 TEXT,
    output TEXT,
    status TEXT NOT NULL,
    subagent TEXT,
    started_at TEXT,
    finished_at TEXT,
    UNIQUE (session, id)
);

-- events of a session: `seq` is the order in which imi read them, `at` when they happened. A tool's input and output
-- are in its call.
CREATE TABLE session_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    status TEXT,
    call TEXT,
    text TEXT,
    data TEXT NOT NULL DEFAULT '{}',
    UNIQUE (session, id)
);
CREATE INDEX session_events_by_time ON session_events (session, at);

-- files that a session wrote
CREATE TABLE artifacts (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    size INTEGER,
    subagent TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (session, path)
);

-- claims that imi made for a session: the only ones that it releases by itself
CREATE TABLE automatic_claims (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (repo_name, worktree_name)
) WITHOUT ROWID;
"""

# Version 3: without two indexes that no query used; each cost one more page per event, written under the lock.
_LEANER = """
DROP INDEX IF EXISTS events_by_type;
DROP INDEX IF EXISTS events_unpublished;
"""

# Version 4: attempts, one row per task that a claim names (a renewal may name another); owner and end are in the grant.
# And descriptions of agents.
_TASKS = """
CREATE TABLE tasks (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT,
    outcome_from TEXT,
    PRIMARY KEY (repo_name, worktree_name, epoch, task_id)
) WITHOUT ROWID;
INSERT OR IGNORE INTO tasks (repo_name, worktree_name, epoch, task_id, started_at)
    SELECT repo_name, worktree_name, epoch, task_id, claimed_at FROM claim_history WHERE task_id IS NOT NULL;
INSERT OR IGNORE INTO tasks (repo_name, worktree_name, epoch, task_id, started_at)
    SELECT repo_name, worktree_name, epoch, task_id, claimed_at FROM claims
    WHERE agent_id IS NOT NULL AND task_id IS NOT NULL AND claimed_at IS NOT NULL;
UPDATE tasks SET ended_at = (
    SELECT c.heartbeat_at FROM claims AS c WHERE c.repo_name = tasks.repo_name
    AND c.worktree_name = tasks.worktree_name AND c.epoch = tasks.epoch AND c.task_id <> tasks.task_id
);
ALTER TABLE agents ADD COLUMN emoji TEXT;
ALTER TABLE agents ADD COLUMN role TEXT;
ALTER TABLE agents ADD COLUMN team TEXT;
"""

# Version 5: what this file is, in one row. The id is made with the file, the generation grows with each restore of a copy,
# `predecessors` holds the ids of vanished registries that it replaces, separated by blanks.
_IDENTITY = """
CREATE TABLE registry (
    id TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1,
    made_at TEXT NOT NULL,
    predecessors TEXT
);
INSERT INTO registry (id, made_at)
    SELECT lower(hex(randomblob(16))), strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now')
    WHERE NOT EXISTS (SELECT 1 FROM registry);
"""

# Version 6: the session from which a worktree was claimed (see `claim_holder`).
_HOLDERS = """
ALTER TABLE claims ADD COLUMN session TEXT;
"""

# Version 7: the name of each observed agent; `agent` is its session or process. `looked_at` is the moment at which a
# person looked at its death or failure; `name` is NULL for a session that was over when imi first saw it.
_AGENT_NAMES = """
CREATE TABLE agent_names (
    host TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT,
    pid INTEGER,
    pid_started TEXT,
    given_at TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    looked_at TEXT,
    PRIMARY KEY (host, agent)
) WITHOUT ROWID;
CREATE UNIQUE INDEX agent_names_by_name ON agent_names (host, name);
"""

# Version 8: runs, the agents that imi started. `status` is the life of a run, `state` what its agent does; `session` is the
# program's own id. pid is the agent's; while a run is starting, that of the process that starts it. `launch` is JSON: all
# that a resume needs. An ask is a question of an agent; `position` is the place of its record in the run's output.
# `run_offsets` says how much of the output is in the registry: it moves in the transaction that records what was read.
_RUNS = """
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    host TEXT NOT NULL,
    program TEXT NOT NULL,
    way TEXT NOT NULL,
    status TEXT NOT NULL,
    state TEXT,
    detail TEXT,
    agent_id TEXT NOT NULL,
    user TEXT NOT NULL,
    session TEXT,
    repo_name TEXT,
    worktree_name TEXT,
    epoch INTEGER,
    cwd TEXT NOT NULL,
    folder TEXT NOT NULL,
    launch TEXT NOT NULL,
    prompt TEXT,
    boot TEXT,
    pid INTEGER,
    pid_started TEXT,
    stop_by TEXT,
    stop_at TEXT,
    exit_code INTEGER,
    resumed_from TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    active_at TEXT,
    ended_at TEXT
);
CREATE INDEX runs_by_status ON runs (status, seq);
CREATE INDEX runs_by_session ON runs (session);
CREATE TABLE run_offsets (
    run INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    lines INTEGER NOT NULL
);
CREATE TABLE asks (
    run INTEGER NOT NULL,
    id TEXT NOT NULL,
    tool TEXT NOT NULL,
    text TEXT,
    position INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT,
    answered_at TEXT,
    closed_at TEXT,
    PRIMARY KEY (run, id)
) WITHOUT ROWID;
"""

# Version 9: the pull requests that a forge listed last. `project` is host/owner/name, `pulls` JSON. One process asks at a
# time: it sets `asked_at` first. `again_at` is the end of a rate limit.
_FORGES = """
CREATE TABLE forges (
    project TEXT PRIMARY KEY,
    via TEXT,
    asked_at TEXT,
    read_at TEXT,
    total INTEGER NOT NULL DEFAULT 0,
    pulls TEXT NOT NULL DEFAULT '[]',
    problem TEXT,
    problem_since TEXT,
    again_at TEXT
) WITHOUT ROWID;
"""

# Version 10: what a person has read of the diffs, by content (see `model.review_progress`), and the notes of a worktree. A
# note's `kind` is review (on a line of a diff), intent, milestone or lesson. `part` is the hunk and `excerpt` the line it was
# made on; `round` numbers what was sent to an agent together.
_REVIEWS = """
CREATE TABLE read_parts (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    path TEXT NOT NULL,
    part TEXT NOT NULL,
    read_at TEXT NOT NULL,
    PRIMARY KEY (repo_name, worktree_name, path, part)
) WITHOUT ROWID;
CREATE TABLE notes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    made_at TEXT NOT NULL,
    path TEXT,
    side TEXT,
    line INTEGER,
    part TEXT,
    excerpt TEXT,
    round INTEGER,
    sent_to TEXT,
    sent_at TEXT,
    answer TEXT,
    answered_by TEXT,
    answered_at TEXT,
    done_by TEXT,
    done_at TEXT
);
CREATE INDEX notes_by_worktree ON notes (repo_name, worktree_name, seq);
"""

# Version 11: checkpoints of runs. `position` is the place in the run's output; `state` is JSON: what a new session needs.
_CHECKPOINTS = """
CREATE TABLE checkpoints (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    position INTEGER NOT NULL,
    state TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
"""

# Version 12: what belongs to a terminal. `place` is the running terminal (a multiplexer's session, or a terminal's shell),
# `name` what people call it; `layout` is JSON: its tabs and panes. `sent` is the revision that the team's Redis has. An intent,
# milestone or lesson is a note with its `context`; repo_name and worktree_name are empty outside of a worktree.
_CONTEXTS = """
ALTER TABLE notes ADD COLUMN context TEXT;
ALTER TABLE notes ADD COLUMN artifacts TEXT;
CREATE INDEX notes_by_context ON notes (context, seq);
CREATE TABLE contexts (
    id TEXT PRIMARY KEY,
    place TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    name TEXT,
    folder TEXT,
    layout TEXT,
    saved_at TEXT,
    began_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    settled_at TEXT,
    revision INTEGER NOT NULL,
    sent INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
"""

# Version 13: items, on the board. `position` orders those of one priority; `batch` is the file they are from, `kind` its type;
# `source` the place in it and `source_sha256` the content there; `run_id` the last run, `session_id` that of the batch.
_ITEMS = """
CREATE TABLE items (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    text TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL,
    priority TEXT NOT NULL,
    position REAL NOT NULL,
    batch TEXT,
    kind TEXT,
    source TEXT,
    source_sha256 TEXT,
    external_id TEXT UNIQUE,
    correlation_id TEXT,
    team TEXT,
    agent_id TEXT,
    repo_name TEXT,
    worktree_name TEXT,
    session_id TEXT,
    run_id TEXT,
    error TEXT,
    retries INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    updated_at TEXT NOT NULL
);
CREATE INDEX items_by_status ON items (status);
CREATE INDEX items_by_run ON items (run_id) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX items_by_content ON items (coalesce(repo_name, ''), coalesce(batch, ''), source_sha256)
    WHERE source_sha256 IS NOT NULL;
CREATE INDEX tasks_by_task ON tasks (task_id);
"""

# Version 14: what runs have used by day, the budgets of the days, and the archive of a run's folder.
_RUN_USAGE = """
CREATE TABLE run_usage (
    run INTEGER NOT NULL,
    day TEXT NOT NULL,
    usd REAL,
    tokens INTEGER,
    seconds REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (run, day)
) WITHOUT ROWID;
CREATE INDEX run_usage_by_day ON run_usage (day);
CREATE TABLE day_budgets (
    day TEXT NOT NULL,
    unit TEXT NOT NULL,
    granted INTEGER NOT NULL DEFAULT 0,
    warned REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (day, unit)
) WITHOUT ROWID;
ALTER TABLE runs ADD COLUMN archive TEXT;
"""

# Version 15: sinks, the receivers of events. `seq` is the last event that the sink has; `active` says that it is configured;
# `dropped` counts events that were deleted before it had them. A parked event is one that the sink refuses: it is tried again,
# and the cursor goes on. `recorded_commits` makes each commit one event; `commit_positions` is where each worktree's reflog was
# read to. `metrics` has one row per ended session, and is kept when the session is deleted.
_SINKS = """
CREATE TABLE sinks (
    name TEXT PRIMARY KEY,
    seq INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1,
    sent_at TEXT,
    problem TEXT,
    problem_since TEXT,
    dropped INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE parked (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    why TEXT NOT NULL,
    tries INTEGER NOT NULL,
    tried_at TEXT NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
CREATE TABLE recorded_commits (
    repo_name TEXT NOT NULL,
    sha TEXT NOT NULL,
    PRIMARY KEY (repo_name, sha)
) WITHOUT ROWID;
CREATE TABLE commit_positions (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    head TEXT NOT NULL,
    read_at TEXT NOT NULL,
    PRIMARY KEY (repo_name, worktree_name)
) WITHOUT ROWID;
CREATE TABLE metrics (
    host TEXT NOT NULL,
    session TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    repo_name TEXT,
    worktree_name TEXT,
    agent_id TEXT NOT NULL,
    cli TEXT NOT NULL,
    outcome TEXT NOT NULL,
    seconds REAL,
    working_seconds REAL,
    turns INTEGER,
    tools INTEGER,
    failures INTEGER,
    tokens_in INTEGER,
    tokens_out INTEGER,
    cost_usd REAL,
    PRIMARY KEY (host, session)
) WITHOUT ROWID;
CREATE INDEX metrics_by_time ON metrics (ended_at);
"""

# Version 16: contained workspaces. `contained_workspaces` has one row for each life of one, from its first file to its clean-up;
# `file_log` is the audit log of their files; `deliveries` are the files that go elsewhere, `allowed` beforehand or not.
_CONTAINED = """
CREATE TABLE contained_workspaces (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ended_at TEXT,
    trash_path TEXT,
    why TEXT
);
CREATE INDEX contained_by_path ON contained_workspaces (path);
CREATE TABLE file_log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    run TEXT,
    agent_id TEXT,
    op TEXT NOT NULL,
    name TEXT NOT NULL,
    target TEXT,
    size INTEGER,
    sha256 TEXT,
    why TEXT,
    at TEXT NOT NULL
);
CREATE INDEX file_log_by_path ON file_log (path, seq);
CREATE TABLE deliveries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    run TEXT,
    agent_id TEXT,
    name TEXT NOT NULL,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    allowed INTEGER NOT NULL,
    why TEXT,
    at TEXT NOT NULL,
    done_at TEXT
);
CREATE INDEX deliveries_by_path ON deliveries (path, state);
"""

# Claims between homes. A lease is a claim of an owner in another home, renewed by that home; the time is that of this
# boot. `answers` keeps what was decided, so that a question that is read twice has one effect. `remote_claims` are the claims
# of this home's agents in other homes, good until a moment of this boot. A waiter of another home has its `question`, which is
# asked again and again, and the number of the last time.
_TEAM_CLAIMS = """
ALTER TABLE claim_queue ADD COLUMN question TEXT;
ALTER TABLE claim_queue ADD COLUMN asked INTEGER;
CREATE TABLE leases (
    repo_name TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    home TEXT NOT NULL,
    seconds REAL NOT NULL,
    renewed_uptime REAL NOT NULL,
    boot TEXT NOT NULL,
    PRIMARY KEY (repo_name, worktree_name)
) WITHOUT ROWID;
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    question TEXT NOT NULL UNIQUE,
    answer TEXT NOT NULL
);
CREATE TABLE remote_claims (
    home TEXT NOT NULL,
    repo TEXT NOT NULL,
    worktree_name TEXT NOT NULL,
    label TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    task_id TEXT,
    claimed_at TEXT NOT NULL,
    seconds REAL NOT NULL,
    good_until REAL NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER,
    pid_started TEXT,
    ended TEXT,
    ended_at TEXT,
    PRIMARY KEY (home, repo, worktree_name)
) WITHOUT ROWID;
CREATE TABLE reservations (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    agent_id TEXT,
    good_until REAL,
    boot TEXT,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
"""

# The present intent of each worktree is read with each change of the registry.
_INTENTS = """
CREATE INDEX notes_by_kind ON notes (kind, repo_name, worktree_name, seq);
"""

# Index + 1 is the version after a migration. Never change the statements of a released one: add another.
MIGRATIONS: tuple[str, ...] = (
    _IMI_TABLES + _IMI_COLUMNS + _OUR_TABLES,
    _SESSIONS,
    _LEANER,
    _TASKS,
    _IDENTITY,
    _HOLDERS,
    _AGENT_NAMES,
    _RUNS,
    _FORGES,
    _REVIEWS,
    _CHECKPOINTS,
    _CONTEXTS,
    _ITEMS,
    _RUN_USAGE,
    _SINKS,
    _CONTAINED,
    _TEAM_CLAIMS,
    _INTENTS,
)

VERSION = len(MIGRATIONS)
# "iMi+" in `PRAGMA application_id`: user_version 1 alone could be any program's file.
APPLICATION_ID = 0x694D692B


def statements(script: str) -> list[str]:
    """The script's statements, for `execute`: `executescript` would commit the surrounding transaction first."""
    from sqlite3 import complete_statement

    found: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    if pending.strip():
        raise ValueError(f"the script ends in the middle of a statement: {pending.strip()[:60]}")
    return found
