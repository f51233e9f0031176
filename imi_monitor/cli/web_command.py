"""`imi web`: the dashboard in a browser of this machine."""

from __future__ import annotations

from imi_monitor.actions.action import Option
from imi_monitor.cli.front_end import REPOSITORIES, FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine

_IDLE_MINUTES = 60.0


class WebVerb(FrontEndVerb):
    words = ("web",)
    group = "Status"
    label = "Browser"
    examples = (("imi web --write", "a dashboard in the browser that can change something"),)
    help = "show the dashboard in a browser of this machine, until Ctrl-C"
    more = """
    Open the address that it prints; the token in it is new with each start. It serves this machine only. Each of at most
    four viewers has a dashboard of its own, which goes on for a minute when the connection is cut. Shell, editor and attach
    need a terminal and are dimmed. From another machine: `ssh -L 8684:127.0.0.1:8684 HOST`, with the same port on both sides.
    It needs `pip install 'imi-monitor[web]'`.
    """
    arguments = (REPOSITORIES,)
    options = (
        Option("write", "let the dashboard change something; otherwise it is read-only"),
        Option("port", "the port (default: 8684; 0: any free one)", value="N", number=True),
        Option(
            "idle",
            "end a dashboard after so many minutes without a key (default: 60; 0: never)",
            value="MINUTES",
            number=True,
        ),
    )

    def show(self, parsed: ParsedCommandLine) -> int:
        import asyncio

        from imi_monitor.cli import loopback_server
        from imi_monitor.model.errors import Refused

        if parsed.flag("read-only") and parsed.request.flag("write"):
            from imi_monitor.model.errors import UsageError

            raise UsageError("--write and --read-only exclude each other", code="bad-option")
        try:
            from imi_monitor.cli.web import web_server
        except ImportError as error:
            raise Refused(
                f"a library of imi web is missing ({error.name}): `pip install 'imi-monitor[web]'`",
                code="missing-library",
            ) from error
        port = loopback_server.port_of(parsed.request.number("port"), web_server.DEFAULT_PORT)
        minutes = parsed.request.number("idle")
        idle = 60 * (_IDLE_MINUTES if minutes is None else minutes)
        _check_repositories(parsed)
        return asyncio.run(_serve(_dashboard_argv(parsed), port, idle))


ACTIONS = (WebVerb(),)


async def _serve(argv: list[str], port: int, idle: float) -> int:
    import asyncio
    import secrets
    import signal

    from imi_monitor.cli import loopback_server, output
    from imi_monitor.cli.web.browser_session import SessionLimits
    from imi_monitor.cli.web.web_server import WebServer

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    token = secrets.token_urlsafe(24)
    served = WebServer(token, argv, SessionLimits(idle))
    server = await served.open(port)
    output.note(f"imi: http://{loopback_server.ADDRESS}:{served.port}/{token}/")
    await ended.wait()
    server.close()
    await served.end_all()
    return 0


def _check_repositories(parsed: ParsedCommandLine) -> None:
    """Refuse names of no repository here, and not in each browser."""
    from imi_monitor.actions.context import Context

    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        context.needs_registry = False
        for word in parsed.request.rest("repo"):
            context.named_repository(word)


def _dashboard_argv(parsed: ParsedCommandLine) -> list[str]:
    """The command of a viewer's dashboard, with the options of this one."""
    import sys

    flags = [] if parsed.request.flag("write") else ["--read-only"]
    flags += ["--ascii"] if parsed.flag("ascii") else []
    for name in ("db", "repo"):
        value = parsed.option(name)
        flags += [f"--{name}", value] if value else []
    return [sys.executable, "-P", "-m", "imi_monitor", "monitor", *flags, "--", *parsed.request.rest("repo")]
