"""Agents we have met: who, of what kind, on which machine, when first and last; and what a person says of them."""

from __future__ import annotations

from imi_monitor.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_KINDS = ("claude", "codex", "gemini", "aider", "cursor", "copilot", "opencode", "amp", "goose", "qwen", "cline")


class KnownAgent:
    __slots__ = ("first_seen_at", "host", "kind", "last_seen_at", "name", "status")

    def __init__(self, row: tuple[object, ...]) -> None:
        self.name, self.kind, self.host, self.status, self.first_seen_at, self.last_seen_at = map(str, row)


class AgentDescription:
    """What a person says of an agent; None was not said. Foreign text, as others write into the registry too."""

    __slots__ = ("emoji", "role", "team")

    def __init__(self, emoji: str | None = None, role: str | None = None, team: str | None = None) -> None:
        self.emoji = emoji
        self.role = role
        self.team = team

    def data(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


NOT_DESCRIBED = AgentDescription()


def kind_of(agent: str) -> str:
    """`human:ann` is a human, `claude-1` is claude; a name that says nothing is an `agent`."""
    head, colon, _ = agent.partition(":")
    if colon and head.isalnum():
        return head.lower()
    lower = agent.lower()
    return next((kind for kind in _KINDS if lower.startswith(kind)), "agent")


def mark_seen(connection: sqlite3.Connection, agent: str, host: str, at: str, status: str | None = "active") -> None:
    """A sign of life at `at`; makes the agent known on its first. Without a status, what its session does still counts."""
    connection.execute(
        "INSERT INTO agents (name, kind, host, status, first_seen_at, last_seen_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET host = excluded.host,"
        " status = coalesce(?, CASE status WHEN 'idle' THEN 'active' ELSE status END),"
        " last_seen_at = max(last_seen_at, excluded.last_seen_at)",
        (agent, kind_of(agent), host, status or "active", at, at, status),
    )


def forget(connection: sqlite3.Connection, agent: str) -> None:
    """An entry that stood for one session alone, whose agent has a name now, or which is kept no longer."""
    connection.execute(
        "DELETE FROM agents WHERE name = ? AND NOT EXISTS (SELECT 1 FROM claim_history WHERE agent_id = ?)",
        (agent, agent),
    )


def list_agents(connection: sqlite3.Connection) -> list[KnownAgent]:
    rows = connection.execute("SELECT name, kind, host, status, first_seen_at, last_seen_at FROM agents ORDER BY name")
    return [KnownAgent(row) for row in rows]


def mark_idle(connection: sqlite3.Connection, agent: str) -> None:
    """The agent gave up a claim, or lost it: without another one it is idle."""
    connection.execute(
        "UPDATE agents SET status = 'idle' WHERE name = ? AND NOT EXISTS (SELECT 1 FROM claims WHERE agent_id = ?)",
        (agent, agent),
    )


def list_descriptions(connection: sqlite3.Connection) -> dict[str, AgentDescription]:
    """What is said of each agent of whom anything is."""
    rows = connection.execute(
        "SELECT name, emoji, role, team FROM agents WHERE coalesce(emoji, role, team) IS NOT NULL"
    )
    return {str(name): AgentDescription(*said) for name, *said in rows}


def describe(connection: sqlite3.Connection, name: str, said: dict[str, str | None]) -> AgentDescription | None:
    """Note what is said of an agent, None taking it back; gives all that is said now, None when nobody is called so."""
    wanted = {column: said[column] for column in AgentDescription.__slots__ if column in said}
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
