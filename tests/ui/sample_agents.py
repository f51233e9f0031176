"""Hand-written snapshots with agents: at work, asking, intruding, failed, dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from zlib import crc32

from imi_monitor.model import agent as states
from imi_monitor.model import session_record, times
from imi_monitor.model.agent import Agent, AgentEvent, Evidence, RejectedEvidence, SessionFacts, ToolCall, Truth
from imi_monitor.model.agent_names import GivenName, name_agents, name_key
from imi_monitor.model.snapshot import ClaimState, Collision, Key, Snapshot
from imi_monitor.store import db, session_writer
from tests.ui import sample_snapshots
from tests.ui.sample_snapshots import ago, key

PERMISSION = "permission prompt"


def pid(text: str) -> int:
    """A distinct process id for each text."""
    return 5000 + crc32(text.encode()) % 20_000


def agent(
    cli: str,
    place: str | None,
    state: str,
    *,
    since: float | None = 48,
    detail: str | None = None,
    tool: ToolCall | None = None,
    source: str | None = "registry",
    confidence: str = states.EXACT,
    ended: bool = False,
    used: tuple[Evidence, ...] = (),
    rejected: tuple[RejectedEvidence, ...] = (),
    facts: SessionFacts | None = None,
    session: str = "",
    **other: Any,
) -> Agent:
    """`session` distinguishes several agents of one program; `other` are fields of the agent."""
    truth = Truth(state, None if since is None else ago(since), source, confidence, detail, tool, used, rejected, ended)
    number = session or f"{cli}-{place}"
    made = Agent(
        f"{cli}:{number}",
        cli,
        cli,
        None if place is None else key(place),
        f"/home/ada/code/app/{place}",
        number,
        pid(number),
        "1",
        truth,
        facts or SessionFacts(started_at=ago(4000)),
        ago(2),
    )
    return replace(made, **other)


def with_agents(world: Snapshot, *agents: Agent) -> Snapshot:
    """The snapshot with these agents, named and compared with the claims as the engine does it."""
    claims = {tree.key: tree.claim for tree in world.worktrees if tree.claim}
    return replace(world, agents=name_agents(agents, claims, given_names(agents, claims)))


def given_names(agents: Sequence[Agent], claims: Mapping[Key, ClaimState]) -> dict[str, GivenName]:
    """Names as the registry gives them, the oldest living agent first; none that a claim has."""
    taken, names = {claim.agent for claim in claims.values()}, {}
    for one in name_agents(agents, claims):
        if one.name == one.label:
            name = next(name for number in count(1) if (name := f"{one.cli}-{number}") not in taken)
            taken.add(name)
            names[name_key(one)] = GivenName(name)
    return names


CLAUDE = SessionFacts(
    version="2.1.326",
    model="claude-opus-4-5",
    title="Token refresh",
    branch="feat/api",
    started_at=ago(5400),
    turn_at=ago(300),
    prompt="add the token refresh and its tests",
    last_message="The refresh works. Now its tests.",
    tokens_in=48_210,
    tokens_out=13_377,
    tokens_cached=912_400,
    cost_usd=1.37,
    context_used=118_000,
    context_size=200_000,
    files=("/home/ada/code/app/feat-api/src/api.ts", "/home/ada/code/app/feat-api/src/db.ts"),
    subagents=2,
    tmux="%7",
)
EDITS = agent(
    "claude",
    "feat-api",
    states.RUNNING,
    tool=ToolCall("Edit", "src/api.ts"),
    facts=CLAUDE,
    used=(
        Evidence("registry", states.RUNNING, ago(50), "sessions/4711.json says busy", standing=True),
        Evidence(
            "transcript",
            states.RUNNING,
            ago(48),
            "the last record is a call of Edit",
            tool=ToolCall("Edit", "src/api.ts"),
            or_else=frozenset({states.WAITING}),
        ),
    ),
    rejected=(
        RejectedEvidence(
            Evidence("hook", states.COMPLETED, ago(400), "Stop was the last hook"),
            "something newer, or a better source, says otherwise",
        ),
        RejectedEvidence(
            Evidence("title", states.RUNNING, ago(3), "the pane's title is '✳ Claude Code'", standing=True),
            "it says the same",
        ),
    ),
)
ASKS = agent(
    "gemini",
    "feat-ui",
    states.WAITING,
    since=130,
    detail=PERMISSION,
    tool=ToolCall("Bash", "npm test -- --watch=false"),
    source="title",
    confidence=states.LIKELY,
    facts=SessionFacts(started_at=ago(3000), tokens_in=9_000, tokens_out=3_500),
)
TESTS = agent(
    "codex",
    "fix-bug",
    states.RUNNING,
    since=3,
    tool=ToolCall("Bash", "pytest -q"),
    source="socket",
    facts=SessionFacts(started_at=ago(900), tokens_in=12_000),
)
UNCLAIMED = agent(
    "claude",
    "review-123",
    states.PLANNING,
    since=75,
    session="second",
    facts=SessionFacts(started_at=ago(100), prompt="review this pull request", tokens_in=2_100),
)
GUESSED = agent(
    "aider",
    "devops-ci",
    states.UNKNOWN,
    since=None,
    detail="nothing tells what it does",
    source="process",
    confidence=states.GUESS,
    facts=SessionFacts(started_at=ago(7000)),
)
INTRUDER = agent(
    "codex",
    "feat-api",
    states.RUNNING,
    since=20,
    session="other",
    tool=ToolCall("apply_patch", "src/db.ts"),
    source="socket",
    facts=SessionFacts(started_at=ago(60)),
)
FAILED = agent(
    "claude",
    "devops-ci",
    states.FAILED,
    since=600,
    session="third",
    source="transcript",
    detail="API Error: 529 overloaded, limit reached",
    facts=SessionFacts(started_at=ago(2000)),
)
DEAD = agent(
    "opencode",
    "fix-bug",
    states.DEAD,
    since=1900,
    source="process",
    detail="its process is gone",
    ended=True,
    tool=ToolCall("bash", "cargo test"),
    facts=SessionFacts(started_at=ago(5000)),
)
DONE = agent(
    "copilot",
    "trunk-main",
    states.COMPLETED,
    since=4000,
    source="transcript",
    facts=SessionFacts(started_at=ago(9000), last_message="All 12 tests pass; the change log has an entry."),
)
ENDED = agent(
    "gemini",
    "review-123",
    states.COMPLETED,
    since=7300,
    session="old",
    source="transcript",
    ended=True,
    facts=SessionFacts(started_at=ago(9000), ended_at=ago(7300)),
)


def at_work() -> Snapshot:
    """One agent asks, three work, one is unknown."""
    return with_agents(sample_snapshots.busy(), EDITS, ASKS, TESTS, UNCLAIMED, GUESSED)


def trouble() -> Snapshot:
    """Everything an agent can be: two ask, one intrudes, one failed, one died, others work, are done or gone."""
    second = replace(
        ASKS,
        id="codex:asks",
        cli="codex",
        name="codex",
        key=key("review-123"),
        truth=replace(
            ASKS.truth, since=ago(660), detail="question", tool=None, source="socket", confidence=states.EXACT
        ),
    )
    return with_agents(
        sample_snapshots.busy(), EDITS, ASKS, TESTS, GUESSED, INTRUDER, FAILED, DEAD, DONE, ENDED, second
    )


def asking() -> Snapshot:
    """What `at_work` is a moment later: codex asks too, and claude is done."""
    now_asks = replace(TESTS, truth=replace(TESTS.truth, state=states.WAITING, since=ago(0), detail=PERMISSION))
    done = replace(EDITS, truth=replace(EDITS.truth, state=states.COMPLETED, since=ago(0), tool=None))
    return replace(with_agents(sample_snapshots.busy(), done, ASKS, now_asks, UNCLAIMED, GUESSED), seq=2)


def rich() -> Snapshot:
    """`worlds.rich` with every kind of agent, of which everything is known that can be."""
    known = replace(CLAUDE, zellij="one:3", parent="before", format_note="unknown (format)", ended_at=None)
    agents = [
        replace(
            one,
            key=replace(one.key, worktree=f"{one.key.worktree}0") if one.key else None,
            facts=replace(known, ended_at=one.facts.ended_at),
        )
        for one in (*trouble().agents, replace(DONE, id="lost", key=None))
    ]
    return replace(sample_snapshots.rich(), agents=tuple(agents))


def demo(world: Snapshot) -> Snapshot:
    """The demonstration's worktrees with agents in them: its own come and go with their processes, these stand still."""

    def there(agent: Agent, place: str, cli: str, **truth: Any) -> Agent:
        tree = next(tree for tree in world.worktrees if tree.key.worktree == place)
        return replace(
            agent, id=f"{cli}:demo", cli=cli, key=tree.key, cwd=tree.path, truth=replace(agent.truth, **truth)
        )

    return with_agents(
        world,
        there(EDITS, "feat-api", "claude", tool=ToolCall("Edit", "src/api.py"), since=ago(20)),
        there(TESTS, "fix-bug", "codex", since=ago(3)),
        there(ASKS, "feat-ui", "gemini", tool=ToolCall("Bash", "npm test"), since=ago(70)),
    )


def crowd(number: int = 40) -> Snapshot:
    """A lead's morning."""
    world = sample_snapshots.many(number)
    kinds = (EDITS, ASKS, TESTS, UNCLAIMED, GUESSED, DONE, EDITS, TESTS)
    agents = [
        replace(
            kinds[index % 8],
            id=f"{kinds[index % 8].cli}:{index}",
            key=tree.key,
            session=f"s{index}",
            truth=replace(kinds[index % 8].truth, since=ago(37 * index + 5)),
        )
        for index, tree in enumerate(world.worktrees)
    ]
    return with_agents(world, *agents)


def swarm() -> Snapshot:
    """Forty agents in twenty worktrees, of which many collide."""
    areas = ("billing-invoices-eu", "cart-rules", "user-auth", "inventory-sync", "reports-export-csv", "search")
    kinds = (EDITS, ASKS, TESTS, UNCLAIMED, GUESSED, DONE, EDITS, TESTS)
    trees = [
        sample_snapshots.tree(
            name,
            kind,
            git=sample_snapshots.git(
                f"{kind}/{areas[index % 6]}",
                sample_snapshots.files((".M", "src/a.ts"), ("??", "b")),
                up=(index % 13, 2),
            ),
            claim=sample_snapshots.claim(name, f"claude-{index}", task=f"T-{index}") if index % 3 == 0 else None,
            last_change=sample_snapshots.change(name, f"src/{areas[index % 6]}/index.ts", 9 * index),
        )
        for index in range(19)
        for kind in [("feat", "fix", "review", "devops")[index // 6]]
        for name in [f"{kind}-{areas[index % 6]}"]
    ]
    trees.append(sample_snapshots.tree("trunk-main", "trunk", is_main=True, branch="main"))
    pairs = [(trees[0], other) for other in trees[1:13]] + [(trees[2], trees[3])]
    world = sample_snapshots.snapshot(
        trees,
        collisions=tuple(Collision(one.key, two.key, ("src/a.ts",), ("src/a.ts",), ago(9)) for one, two in pairs),
        changes=tuple(one.last_change for one in reversed(trees) if one.last_change),
    )
    agents = []
    for index in range(40):
        kind = kinds[index % 8]
        truth = replace(kind.truth, since=ago(37 * index + 5))
        place = trees[index % 20].key
        agents.append(replace(kind, id=f"{kind.cli}:{index}", key=place, session=f"s{index}", truth=truth))
    return with_agents(world, *agents)


# -- what the registry keeps of them ------------------------------------------------------------------------------------


def acts() -> list[AgentEvent]:
    """What claude-1 did in feat-api: asked, thought, looked, wrote, tested, was refused, went on."""
    test = ToolCall("Bash", "npm test -- auth", "c3")
    return [
        AgentEvent("started", "s", ago(5400), "startup"),
        AgentEvent("prompt", "p1", ago(300), CLAUDE.prompt),
        AgentEvent("message", "m1", ago(290), "I will look at how tokens are kept first."),
        AgentEvent("tool_started", "t1", ago(288), tool=ToolCall("Read", "src/auth/token.ts", "c1")),
        AgentEvent(
            "tool_finished",
            "t1e",
            ago(286),
            "export class Token",
            tool=ToolCall("Read", "src/auth/token.ts", "c1"),
            ok=True,
        ),
        AgentEvent("plan", "pl", ago(270), "1. refresh before it ends\n2. one retry\n3. tests for both"),
        AgentEvent("waits", "w1", ago(265), "may it run npm test?", tool=test),
        AgentEvent("answered", "a1", ago(220), "yes"),
        AgentEvent("tool_started", "t3", ago(219), "npm test -- auth", tool=test),
        AgentEvent("tool_finished", "t3e", ago(170), "1 failing", tool=test, ok=False),
        AgentEvent(
            "message",
            "m2",
            ago(120),
            "One test fails: the clock of the fake server stands still. I will let it go on "
            "by a second at each request, which is what the real one does, and refresh two seconds before the end.",
        ),
        AgentEvent("tool_started", "t4", ago(90), tool=ToolCall("Edit", "src/db.ts", "c4")),
        AgentEvent(
            "tool_finished",
            "t4e",
            ago(89),
            "ok",
            tool=ToolCall("Edit", "src/db.ts", "c4"),
            ok=True,
            files=("/home/ada/code/app/feat-api/src/db.ts",),
        ),
        AgentEvent("message", "m3", ago(60), CLAUDE.last_message),
        AgentEvent("tool_started", "t5", ago(48), tool=ToolCall("Edit", "src/api.ts", "c5")),
    ]


def keep(database: str, snapshot: Snapshot, *, told: Sequence[AgentEvent] = ()) -> None:
    """The sessions of a world in a registry; what is told is claude's in feat-api."""
    connection = db.connect(database)
    now = times.now()
    for agent in snapshot.agents:
        seen = session_record.session_state(agent, sample_snapshots.HOST, "boot/ns", now)
        mine = told if agent.id == EDITS.id else ()
        kept = session_record.session_record(seen, agent.cwd, mine, now, lambda path, inside: None)
        db.transact(connection, session_writer.record, [kept])
    connection.close()
