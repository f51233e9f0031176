"""Agents that have claimed or were observed: kind, machine, first and last sign, and a person's description."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_KINDS = (
    *("claude", "codex", "gemini", "aider", "cursor", "copilot", "opencode", "amp", "goose", "qwen", "cline", "crush"),
    *("droid", "kimi", "kiro"),
)


class KnownAgent(Row):
    name: str
    kind: str
    host: str
    status: str
    first_seen_at: str
    last_seen_at: str


class AgentDescription:
    """A person's description of an agent; None: not given. Untrusted text: other programs write the registry too."""

    __slots__ = ("emoji", "role", "team")

    def __init__(self, emoji: str | None = None, role: str | None = None, team: str | None = None) -> None:
        self.emoji = emoji
        self.role = role
        self.team = team

    def data(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


NOT_DESCRIBED = AgentDescription()


def kind_of(agent: str) -> str:
    """The kind by the name: `human:ann` is human, `claude-1` is claude, any other name is an agent."""
    head, colon, _ = agent.partition(":")
    if colon and head.isalnum():
        return head.lower()
    lower = agent.lower()
    return next((kind for kind in _KINDS if lower.startswith(kind)), "agent")


def mark_seen(
    connection: sqlite3.Connection, agent: str, host_name: str, at: str, status: str | None = "active"
) -> None:
    """Record that the agent was active at `at`, and add it if it is new. Without `status` its session's status stays."""
    connection.execute(
        "INSERT INTO agents (name, kind, host, status, first_seen_at, last_seen_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET host = excluded.host,"
        " status = coalesce(?, CASE status WHEN 'idle' THEN 'active' ELSE status END),"
        " last_seen_at = max(last_seen_at, excluded.last_seen_at)",
        (agent, kind_of(agent), host_name, status or "active", at, at, status),
    )


def forget(connection: sqlite3.Connection, agent: str) -> None:
    """Delete the entry of a single session whose agent has a name now, or which is no longer kept."""
    connection.execute(
        "DELETE FROM agents WHERE name = ? AND NOT EXISTS (SELECT 1 FROM claim_history WHERE agent_id = ?)",
        (agent, agent),
    )


def forget_described(connection: sqlite3.Connection, name: str) -> bool:
    """Delete an agent's entry with its description; what it did stays. False if there is none."""
    gone = connection.execute("DELETE FROM agents WHERE name = ?", (name,)).rowcount
    if gone:
        events.record(connection, "agent.forgotten", agent_id=name)
    return bool(gone)


def list_teams(connection: sqlite3.Connection) -> list[tuple[str, list[str], int, int, int]]:
    """(team, its agents, items, completed, failed), of agents and items, by name."""
    members: dict[str, list[str]] = {}
    for team, name in connection.execute("SELECT team, name FROM agents WHERE team IS NOT NULL ORDER BY name"):
        members.setdefault(str(team), []).append(str(name))
    counted = {
        str(row[0]): (int(row[1]), int(row[2]), int(row[3]))
        for row in connection.execute(
            "SELECT coalesce(i.team, a.team), count(*), sum(i.status = 'completed'), sum(i.status = 'failed')"
            " FROM items AS i LEFT JOIN agents AS a ON a.name = i.agent_id"
            " WHERE coalesce(i.team, a.team) IS NOT NULL GROUP BY 1"
        )
    }
    return [(team, members.get(team, []), *counted.get(team, (0, 0, 0))) for team in sorted({*members, *counted})]


def list_agents(connection: sqlite3.Connection) -> list[KnownAgent]:
    rows = connection.execute("SELECT name, kind, host, status, first_seen_at, last_seen_at FROM agents ORDER BY name")
    return [KnownAgent(row) for row in rows]


def mark_idle(connection: sqlite3.Connection, agent: str) -> None:
    """Mark the agent as idle after a claim ended, unless it holds another one."""
    connection.execute(
        "UPDATE agents SET status = 'idle' WHERE name = ? AND NOT EXISTS (SELECT 1 FROM claims WHERE agent_id = ?)",
        (agent, agent),
    )


def list_descriptions(connection: sqlite3.Connection) -> dict[str, AgentDescription]:
    """The descriptions of the agents that have one."""
    rows = connection.execute(
        "SELECT name, emoji, role, team FROM agents WHERE coalesce(emoji, role, team) IS NOT NULL"
    )
    return {str(name): AgentDescription(*texts) for name, *texts in rows}


def describe(
    connection: sqlite3.Connection, name: str, changes: dict[str, str | None], *, new: bool = False
) -> AgentDescription | None:
    """Change an agent's description, None deletes a text; returns the new one, or None for an unknown agent.

    With `new` an agent that never claimed is added, as idle.
    """
    wanted = {column: changes[column] for column in AgentDescription.__slots__ if column in changes}
    if new:
        at = times.stamp()
        connection.execute(
            "INSERT OR IGNORE INTO agents (name, kind, host, status, first_seen_at, last_seen_at) VALUES (?, ?, ?, 'idle', ?, ?)",
            (name, kind_of(name), host.hostname(), at, at),
        )
    row = connection.execute("SELECT emoji, role, team FROM agents WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    now = AgentDescription(**{**dict(zip(AgentDescription.__slots__, row, strict=True)), **wanted})
    if now.data() != AgentDescription(*row).data():
        connection.execute(
            "UPDATE agents SET emoji = ?, role = ?, team = ? WHERE name = ?", (now.emoji, now.role, now.team, name)
        )
        events.record(connection, "agent.described", agent_id=name, data=now.data())
    return now
