"""The registry under the names of be-agents-service: views of items, agents, teams, sessions and metrics for `imi query`.

Moments are in the form of SQLite's own functions, so that `started_at > datetime('now', '-7 days')` is right.
"""

from __future__ import annotations

_SECONDS = "round((julianday(ended_at) - julianday(started_at)) * 86400, 3)"
_STATUS = (
    "CASE status WHEN 'planning' THEN 'pending' WHEN 'running' THEN 'in_progress' WHEN 'waiting_for_input' THEN 'blocked'"
    " ELSE status END"
)

# an ended session leaves its figures in `main.metrics`, and they stay when the session is deleted
_ENDED_METRICS = " UNION ALL ".join(
    f"SELECT 'session' AS entity_type, session AS entity_id, '{name}' AS metric_name, {column} AS value, cli AS context,"
    f" datetime(ended_at) AS recorded_at FROM main.metrics WHERE {column} IS NOT NULL"
    for name, column in (
        ("duration_seconds", "seconds"),
        ("working_seconds", "working_seconds"),
        ("turns", "turns"),
        ("tool_calls", "tools"),
        ("tool_failures", "failures"),
        ("tokens_in", "tokens_in"),
        ("tokens_out", "tokens_out"),
        ("cost_usd", "cost_usd"),
    )
)
# open sessions, and those of other programs, have no metrics of their own: the figures of their row
_OTHER_METRICS = " UNION ALL ".join(
    f"SELECT 'session', id, '{name}', {value}, cli, datetime(updated_at) FROM main.sessions AS s WHERE {value} IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM main.metrics AS m WHERE m.host = s.host AND m.session = s.id)"
    for name, value in (
        ("duration_seconds", _SECONDS),
        ("tokens_in", "tokens_in"),
        ("tokens_out", "tokens_out"),
        ("cost_usd", "cost_usd"),
    )
)

VIEWS = f"""
CREATE TEMP VIEW tasks AS
    SELECT id, session_id, agent_id, title AS description, status, priority, NULL AS llm_used,
        datetime(started_at) AS started_at, datetime(ended_at) AS completed_at, {_SECONDS} AS duration_seconds,
        error AS error_message, retries AS retry_count, text, team AS team_id, batch, source, external_id, repo_name,
        worktree_name, run_id, datetime(created_at) AS created_at
    FROM main.items
    UNION ALL
    SELECT t.task_id, NULL, g.agent_id, t.task_id,
        coalesce(t.outcome, CASE WHEN coalesce(t.ended_at, g.released_at) IS NULL THEN 'in_progress' ELSE 'unknown' END),
        'medium', NULL, datetime(t.started_at), datetime(coalesce(t.ended_at, g.released_at)),
        round((julianday(coalesce(t.ended_at, g.released_at)) - julianday(t.started_at)) * 86400, 3), g.reason, 0, '',
        NULL, NULL, NULL, t.task_id, t.repo_name, t.worktree_name, NULL, datetime(t.started_at)
    FROM main.tasks AS t JOIN main.claim_history AS g USING (repo_name, worktree_name, epoch)
    WHERE NOT EXISTS (SELECT 1 FROM main.items AS i WHERE t.task_id IN (i.id, i.external_id));
CREATE TEMP VIEW agents AS
    SELECT n.name AS id, a.team AS team_id, n.name AS name, a.role AS role, a.emoji AS emoji, NULL AS llm_preference,
        CASE WHEN done.over > 0 THEN round(1.0 * done.completed / done.over, 3) END AS success_rate,
        coalesce(done.completed, 0) AS total_tasks_completed, coalesce(done.failed, 0) AS total_tasks_failed,
        done.seconds AS avg_duration_seconds, coalesce(a.status = 'active', 0) AS is_active, a.kind AS kind, a.host AS host,
        a.status AS status, datetime(a.last_seen_at) AS last_seen_at
    FROM (SELECT name FROM main.agents UNION SELECT agent_id FROM main.items WHERE agent_id IS NOT NULL) AS n
    LEFT JOIN main.agents AS a ON a.name = n.name
    LEFT JOIN (SELECT agent_id, sum(status = 'completed') AS completed, sum(status = 'failed') AS failed,
        sum(status IN ('completed', 'failed')) AS over, round(avg({_SECONDS}), 3) AS seconds
        FROM main.items GROUP BY agent_id) AS done ON done.agent_id = n.name;
CREATE TEMP VIEW teams AS
    SELECT DISTINCT team AS id, team AS name, NULL AS domain, NULL AS description FROM main.agents WHERE team IS NOT NULL
    UNION SELECT DISTINCT team, team, NULL, NULL FROM main.items WHERE team IS NOT NULL;
CREATE TEMP VIEW sessions AS
    SELECT id, (SELECT team FROM main.agents AS a WHERE a.name = s.agent_id) AS team_id, {_STATUS} AS status,
        coalesce(json_extract(metadata, '$.target_repo'), repo_name) AS target_repo,
        json_extract(metadata, '$.priority_file') AS priority_file, branch AS branch_name,
        json_extract(metadata, '$.pr_url') AS pr_url, NULL AS iteration_count, datetime(started_at) AS started_at,
        datetime(ended_at) AS completed_at, {_SECONDS} AS duration_seconds,
        (SELECT exit_code FROM main.runs AS r WHERE r.id = json_extract(s.metadata, '$.run')) AS exit_code, agent_id, cli,
        host, repo_name, worktree_name, model, tokens_in, tokens_out, cost_usd, prompt
    FROM main.sessions AS s;
CREATE TEMP VIEW metrics AS
    {_ENDED_METRICS}
    UNION ALL {_OTHER_METRICS}
    UNION ALL SELECT 'task', id, 'duration_seconds', {_SECONDS}, batch, datetime(ended_at) FROM main.items
        WHERE ended_at IS NOT NULL AND started_at IS NOT NULL
    UNION ALL SELECT 'task', id, 'retries', retries, batch, datetime(updated_at) FROM main.items;
CREATE TEMP VIEW campaigns AS
    SELECT batch AS id, batch AS name, max(kind) AS type, count(*) AS tasks, sum(status = 'completed') AS completed,
        sum(status = 'failed') AS failed, datetime(min(created_at)) AS created_at, datetime(max(updated_at)) AS updated_at
    FROM main.items WHERE kind LIKE '%campaign' GROUP BY repo_name, batch;
"""

NAMED = {
    "failed": "SELECT agent_id, id, description, error_message, completed_at FROM tasks WHERE status = 'failed'"
    " ORDER BY agent_id, completed_at DESC",
    "performance": "SELECT agent_id, COUNT(*) AS total, SUM(status = 'completed') AS completed,"
    " SUM(status = 'failed') AS failed, round(AVG(duration_seconds), 1) AS seconds FROM tasks GROUP BY agent_id"
    " ORDER BY total DESC",
    "week": "SELECT id, agent_id, description, error_message, started_at FROM tasks WHERE status = 'failed'"
    " AND started_at > datetime('now', '-7 days') ORDER BY started_at DESC",
    "by-team": "SELECT coalesce(a.team_id, t.team_id, '-') AS team, COUNT(*) AS tasks, SUM(t.status = 'completed') AS"
    " completed, SUM(t.status = 'failed') AS failed FROM tasks AS t LEFT JOIN agents AS a ON t.agent_id = a.id"
    " GROUP BY team ORDER BY tasks DESC",
    "by-session": "SELECT t.session_id, t.id, t.description, t.status, a.name, a.emoji FROM tasks AS t"
    " LEFT JOIN agents AS a ON t.agent_id = a.id WHERE t.session_id IS NOT NULL ORDER BY t.session_id DESC, t.id",
}
"""Queries that have a name, each with its SQL."""
