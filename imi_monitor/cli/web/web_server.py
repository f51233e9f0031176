"""The server of `imi web`: the page, its files, and a WebSocket for each viewer's dashboard.

The token is the first part of every path: the page's relative links have it by themselves, and nothing is served without it.
xterm.js and its fonts are files of the library textual-serve, which is not imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
from collections.abc import Sequence

from imi_monitor.cli.loopback_server import HttpRequest, LoopbackServer, RouteAnswer, failure
from imi_monitor.cli.web.browser_session import UNSEEN, BrowserSession, SessionLimits
from imi_monitor.cli.web.viewer_connection import ViewerConnection
from imi_monitor.model.errors import Refused

DEFAULT_PORT = 8684
MOST_VIEWERS = 4
REFUSED = 4001
_HTML, _CSS, _SCRIPT, _FONT = "text/html; charset=utf-8", "text/css", "text/javascript; charset=utf-8", "font/ttf"
_OWN = {"": ("page.html", _HTML), "page.css": ("page.css", _CSS), "page.js": ("page.js", _SCRIPT)}
_LIBRARY = {
    "xterm.css": ("css/xterm.css", _CSS),
    "textual.js": ("js/textual.js", _SCRIPT),
    "mono.ttf": ("fonts/RobotoMono-VariableFont_wght.ttf", _FONT),
    "mono-italic.ttf": ("fonts/RobotoMono-Italic-VariableFont_wght.ttf", _FONT),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src data:;"
    " connect-src 'self' {sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class WebServer(LoopbackServer):
    """`argv` starts a dashboard."""

    most_admitted = 32  # beside the terminals; each may hold a file of half a megabyte

    def __init__(self, token: str, argv: Sequence[str], limits: SessionLimits) -> None:
        super().__init__(token)
        self._argv = argv
        self._limits = limits
        self._files = _find_files()
        self.sessions: dict[str, BrowserSession] = {}

    def token_of(self, request: HttpRequest) -> str:
        return request.path.split("/", 2)[1]

    async def respond(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = request.path.removeprefix(f"/{self._token}/")
        if name == "terminal":
            await self._show_terminal(request, reader, writer)
        elif name in self._files:
            path, kind = self._files[name]
            body = await asyncio.to_thread(_read, path)
            await self.send(writer, RouteAnswer(200, kind, body, headers=self._headers()))
        else:
            await self.send(writer, failure(404, "there is no such page: the address ends in /"))

    def _headers(self) -> tuple[str, ...]:
        sockets = " ".join(origin.replace("http", "ws", 1) for origin in self.origins)
        return (
            f"Content-Security-Policy: {_POLICY.format(sockets=sockets)}",
            "Referrer-Policy: no-referrer",
            "Cross-Origin-Opener-Policy: same-origin",
            "Cross-Origin-Resource-Policy: same-origin",
        )

    # -- terminals --------------------------------------------------------------------------------------------------

    async def _show_terminal(
        self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if "origin" not in request.headers:  # every browser sends it with a WebSocket
            await self.send(writer, failure(403, "a terminal is shown to the page of imi web alone"))
            return
        viewer = ViewerConnection(reader, writer, self.drain)
        if not await viewer.accept(request):
            return
        self.admitted.leave(writer)  # sessions have a limit of their own
        width, height = _number(request, "width", 80), _number(request, "height", 24)
        session = self.sessions.get(request.values.get("session", ""))
        try:
            if session is None or session.is_ending:
                session = await self._open_session(width, height)
        except Refused as error:
            await viewer.close(REFUSED, error.sentence)
            return
        await viewer.tell(json.dumps(["session", session.id]))
        await session.show_to(viewer, width, height)

    async def _open_session(self, width: int, height: int) -> BrowserSession:
        """A new dashboard. One without a viewer makes room for it; Refused when all are looked at."""
        going_on = [one for one in self.sessions.values() if not one.is_ending]
        if len(going_on) >= MOST_VIEWERS:
            unseen = next((one for one in going_on if one.viewer is None), None)
            if unseen is None:
                raise Refused(f"{MOST_VIEWERS} dashboards are open in browsers: close one", code="viewers")
            await unseen.end(UNSEEN)
        session = BrowserSession(secrets.token_urlsafe(16), self._argv, self._limits, self._forget)
        self.sessions[session.id] = session
        try:
            await session.start(width, height)
        except OSError as error:
            del self.sessions[session.id]
            why = os.strerror(error.errno or 0)
            raise Refused(f"no dashboard can be started: {why}", code="system") from error
        return session

    def _forget(self, session: BrowserSession) -> None:
        self.sessions.pop(session.id, None)

    async def end_all(self) -> None:
        """End all dashboards, also those that are ending."""
        await asyncio.gather(*(one.end("imi web has ended") for one in list(self.sessions.values())))


def _number(request: HttpRequest, name: str, usual: int) -> int:
    with contextlib.suppress(ValueError):
        return int(request.values.get(name, "")[:6])
    return usual


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _find_files() -> dict[str, tuple[str, str]]:
    """name in the address -> (path, type)."""
    found = importlib.util.find_spec("textual_serve")  # finds it without an import
    library = os.path.dirname(found.origin) if found is not None and found.origin is not None else ""
    here = os.path.dirname(os.path.abspath(__file__))
    own = {name: (os.path.join(here, file), kind) for name, (file, kind) in _OWN.items()}
    foreign = {name: (os.path.join(library, "static", file), kind) for name, (file, kind) in _LIBRARY.items()}
    if not library or not all(os.path.isfile(path) for path, _ in foreign.values()):
        raise Refused(
            "the files of textual-serve are missing: `pip install 'imi-monitor[web]'`", code="missing-library"
        )
    return own | foreign
