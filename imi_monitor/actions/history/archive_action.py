"""`imi archive`: delivers at once what waits for the archive and for the servers, and says how far each is."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.model import sink_words, times
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_TIMER = """\
# ~/.config/systemd/user/imi-archive.service
[Unit]
Description=imi: archive what happened

[Service]
Type=oneshot
ExecStart={program} archive --quiet

# ~/.config/systemd/user/imi-archive.timer
[Timer]
OnCalendar=daily
Persistent=true

[Install]
WantedBy=timers.target

# or one line of `crontab -e`
17 4 * * * {program} archive --quiet"""


class ArchiveAction(Action):
    words = ("archive",)
    group = "Setup"
    label = "Archive now"
    help = "deliver the waiting events to the archive and to the servers of events now"
    more = """
    A dashboard, `imi watch` and `imi serve` do it all the time; this is for machines on which none of them runs, and for a
    timer, which `--timer` prints. The exit status is 1 if something still waits. Events that a server refuses are tried
    again; they are counted as parked.
    """
    examples = (("imi archive --timer", "print what systemd or cron needs to run it every day"),)
    options = (
        Option("timer", "print a unit with a timer, and a line for cron, instead of archiving"),
        Option("status", "only show how far each receiver of events is"),
        Option("init", "make the tables of servers.postgres_url, and a role that can only read them; then archive"),
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        if request.flag("timer"):
            return _timer()
        from imi_monitor import sinks

        notes = _make_schema(context) if request.flag("init") else []
        wanted = sinks.wanted(context.settings)
        if not wanted:
            return Outcome(["nothing is archived: history.enabled is off, and no server is set"], {"sinks": []})
        _configure(context, wanted)
        delivered, problems = ({}, {}) if request.flag("status") else _deliver(context, wanted)
        outcome = _report(context, delivered, problems)
        outcome.warnings += notes
        return outcome


def _make_schema(context: Context) -> list[str]:
    """Make the tables in PostgreSQL; returns what could not be done and need not be."""
    from imi_monitor.links import server_url
    from imi_monitor.sinks import postgres_sink

    url = context.settings.text("servers.postgres_url")
    if not url:
        raise Refused("this home has no PostgreSQL: set servers.postgres_url in the config file", code="no-database")
    address = server_url.parse_postgres(url, insecure=context.settings.flag("team.insecure"))
    try:
        from imi_monitor.links import postgres_link
    except ImportError as error:
        raise UsageError(postgres_sink.MISSING, code="no-library") from error
    try:
        return postgres_link.make_schema(address)
    except postgres_link.FAULTS as error:
        raise Refused(f"PostgreSQL at {address.shown} {postgres_link.fault_of(error)}", code="no-schema") from error


def update_history(context: Context) -> str | None:
    """Deliver to the local archive what it does not have yet; returns why it could not, None if it has everything."""
    from imi_monitor import sinks
    from imi_monitor.sinks import history_sink

    wanted = sinks.wanted(context.settings)
    if history_sink.NAME not in wanted:
        return None
    _configure(context, wanted)
    cursor = db.read(context.connection, sink_cursors.find, history_sink.NAME)
    if cursor is not None and not cursor.backlog:
        return None
    return _deliver(context, {history_sink.NAME: wanted[history_sink.NAME]})[1].get(history_sink.NAME)


def _configure(context: Context, wanted: dict[str, ModuleType]) -> None:
    from imi_monitor import sinks

    if not db.read(context.connection, sink_cursors.is_configured, wanted):
        db.transact(context.connection, sink_cursors.configure, sinks.beginnings(wanted))


def _deliver(context: Context, receivers: dict[str, ModuleType]) -> tuple[dict[str, int], dict[str, str]]:
    """Deliver to these sinks at the same time; returns how many each got, and why it could not get more."""
    import asyncio

    from imi_monitor.sinks.relay import Relay
    from imi_monitor.store.async_registry import AsyncRegistry, open_registry

    delivered: dict[str, int] = {}
    problems: dict[str, str] = {}

    async def one(name: str, registry: AsyncRegistry) -> None:
        try:
            sink = receivers[name].make_sink(context.settings, context.database)
        except ImiError as error:
            problems[name] = error.sentence
            return
        relay = Relay(sink, registry, unhurried=False)
        try:
            if not await relay.drain(parked=True):
                problems[name] = relay.problem or "it failed"
        finally:
            delivered[name] = relay.delivered
            await sink.close()

    async def all_of_them() -> None:
        async with open_registry(context.database) as registry, asyncio.TaskGroup() as group:
            for name in receivers:
                group.create_task(one(name, registry))

    asyncio.run(all_of_them())
    return delivered, problems


def _report(context: Context, delivered: dict[str, int], problems: dict[str, str]) -> Outcome:
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for one in db.read(context.connection, sink_cursors.list_sinks):
        problem = problems.get(one.name) or one.problem
        got = f"{count(delivered[one.name], 'event')} delivered, " if delivered.get(one.name) else ""
        says = sink_words.sentence(sink_cursors.to_model(one), times.now(), problem)
        lines.append(f"{sink_words.name(one.name)}: {got}{says}")
        for seq, why, tries in db.read(context.connection, sink_cursors.why_parked, one.name)[:5]:
            lines.append(f"  event {seq} is refused, tried {count(tries, 'time')}: {safe(why, 200)}")
        rows.append(
            {
                "name": one.name,
                "delivered": delivered.get(one.name, 0),
                "backlog": one.backlog,
                "waiting_since": one.waiting_since,
                "parked": one.parked,
                "dropped": one.dropped,
                "sent_at": one.sent_at,
                "problem": problem,
            }
        )
    unfinished = any(row["backlog"] or row["problem"] for row in rows)
    return Outcome(lines, {"sinks": rows}, exit_status=1 if unfinished else 0)


def _timer() -> Outcome:
    import os
    import sys

    program = os.path.join(os.path.dirname(sys.executable), "imi")
    text = _TIMER.format(program=program if os.path.exists(program) else f"{sys.executable} -m imi_monitor")
    notes = [
        "nothing was installed: put the two parts into these files, then `systemctl --user enable --now imi-archive.timer`"
    ]
    return Outcome(text.split("\n"), {"timer": text, "notes": notes}, warnings=notes)


ACTIONS = (ArchiveAction(),)
