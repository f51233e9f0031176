"""`imi serve`: the engine without a screen, which has the duties of this home where no dashboard is open."""

from __future__ import annotations

from imi_monitor.actions.action import Option, Outcome
from imi_monitor.cli.front_end import FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.engine import Engine

_UNIT = """\
[Unit]
Description=imi: this machine's worktrees and agents for the team

[Service]
ExecStart={program} serve
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target"""


class ServeVerb(FrontEndVerb):
    words = ("serve",)
    group = "Setup"
    label = "Serve"
    examples = (("imi serve --unit", "print what systemd needs to start it with the machine"),)
    help = "archive events and publish this home to the team without a dashboard, until Ctrl-C"
    more = """
    Any open dashboard does the same, so it is for machines on which agents run and no dashboard is open. One process of a
    home has the duties at a time: a second `imi serve` is refused, and a dashboard continues when `imi serve` ends.
    --http serves read-only, beside a dashboard too, with the token of ~/.local/state/imi/http-token as `Authorization:
    Bearer TOKEN` or `?token=TOKEN`. Each answer is JSON, logs are text, and streams are server-sent events.
    """
    options = (
        Option("unit", "print a unit for systemd instead of serving"),
        Option(
            "http", "answer GET /api/tasks, sessions, agents, logs/ID, data/campaigns and stream/ID on this machine"
        ),
        Option(
            "port", "the port of --http (default: 8683; 0: any free one)", value="N", number=True, goes_with=("http",)
        ),
    )

    def show(self, parsed: ParsedCommandLine) -> Outcome | int:
        if parsed.request.flag("unit"):
            return _unit()
        if parsed.request.flag("http"):
            return _serve_http(parsed)
        import asyncio

        from imi_monitor.actions.context import Context
        from imi_monitor.cli import output, snapshot_stream
        from imi_monitor.links import redis_url

        with Context(database=parsed.option("db")) as context:
            settings, database = context.settings, context.database
            if settings.text("servers.redis_url"):
                redis_url.parse(settings.text("servers.redis_url"), insecure=settings.flag("team.insecure"))
            if context.registry_problem is not None:
                raise context.registry_problem
        _refuse_second(database)
        output.note("imi: serving this home; Ctrl-C ends it")
        return asyncio.run(snapshot_stream.run_engine(database, None, settings, _report_failures, None, False))


ACTIONS = (ServeVerb(),)


def _serve_http(parsed: ParsedCommandLine) -> int:
    """Answer until a signal comes. The duties of the home are left to the process that has them."""
    import asyncio
    import signal

    from imi_monitor.actions.context import Context
    from imi_monitor.cli import http_server, loopback_server, output

    with Context(database=parsed.option("db")) as context:
        database = context.database
        if context.registry_problem is not None:
            raise context.registry_problem
    port = loopback_server.port_of(parsed.request.number("port"), http_server.DEFAULT_PORT)
    token = http_server.read_token()

    async def serve() -> None:
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        served = http_server.HttpServer(lambda: Context(database=database), token)
        server = await served.open(port)
        output.note(
            f"imi: http://{loopback_server.ADDRESS}:{served.port}/api/tasks; token in {http_server.token_file()}"
        )
        await ended.wait()
        server.close()

    asyncio.run(serve())
    return 0


def _refuse_second(database: str) -> None:
    from imi_monitor import host
    from imi_monitor.model.errors import Refused
    from imi_monitor.model.text import safe
    from imi_monitor.store.duty_lock import DutyLock

    lock = DutyLock(database)
    if lock.acquire():
        lock.release()
        return
    pid = lock.holder()
    name = host.process_name(pid) if pid is not None else None
    holder = f"process {pid}{f' ({safe(name)})' if name else ''}" if pid is not None else "another process"
    raise Refused(f"{holder} already has the duties of this home: end it first, or leave it to that one", code="served")


async def _report_failures(engine: Engine) -> None:
    """Write each new failure, and its end, on stderr."""
    from imi_monitor.cli import output
    from imi_monitor.model.text import safe

    failing: dict[str, str] = {}
    async for snapshot in engine.snapshots():
        for one in snapshot.health:
            why = safe(f"{one.failure.what}: {one.failure.why}", 300) if one.failure is not None else ""
            if why != failing.get(one.source, ""):
                output.note(f"imi: {why or f'{one.source} works again'}")
                failing[one.source] = why


def _unit() -> Outcome:
    import os
    import sys

    program = os.path.join(os.path.dirname(sys.executable), "imi")
    unit = _UNIT.format(program=program if os.path.exists(program) else f"{sys.executable} -m imi_monitor")
    notes = [
        "enable it with `systemctl --user enable --now imi.service`;"
        " `loginctl enable-linger` lets it run while you are logged out"
    ]
    return Outcome(unit.split("\n"), {"unit": unit, "notes": notes}, warnings=notes)
