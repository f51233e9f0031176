"""Delivers notifications outside the terminal: to a command of the user, and to a webhook (ntfy, Slack, or plain JSON).

Both are the user's own settings, never a repository's. A delivery returns None, or the end of a sentence that says what went
wrong, without the webhook's address, which is a secret.
"""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from imi_monitor import programs
from imi_monitor.model.alert import Alert
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TIMEOUT = 10.0
_MOST_LINES = 20

SHAPES = ("auto", "ntfy", "slack", "json")


def deliver(command: str, webhook: str, shape: str, alerts: Sequence[Alert], report: Callable[[str], None]) -> None:
    """Deliver in a thread that does not delay the end of the program; `report` gets each failure there."""
    threading.Thread(target=_deliver, args=(command, webhook, shape, tuple(alerts), report), daemon=True).start()


def _deliver(command: str, webhook: str, shape: str, alerts: Sequence[Alert], report: Callable[[str], None]) -> None:
    shown = [Alert(one.kind, one.about, redact(one.text)) for one in alerts]
    if command and (problem := run_command(command, shown)) is not None:
        report(f"notify.command {problem}")
    if webhook and (problem := post(webhook, shape, shown)) is not None:
        report(f"notify.webhook {problem}")


def run_command(command: str, alerts: Sequence[Alert]) -> str | None:
    """Run the shell command: IMI_NOTIFY_TEXT and IMI_NOTIFY_KIND are the first alert's, stdin has a line for each."""
    shell = programs.find("sh")
    if shell is None:
        return f"cannot run: sh {programs.why_missing('sh')}"
    env = {**programs.environment(), "IMI_NOTIFY_TEXT": alerts[0].text, "IMI_NOTIFY_KIND": alerts[0].kind}
    lines = "".join(f"{one.text}\n" for one in alerts[:_MOST_LINES])
    try:
        done = subprocess.run(
            [shell, "-c", command],
            input=lines.encode(),
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"was stopped after {TIMEOUT:g} s"
    except OSError as error:
        return f"cannot run: {error.strerror}"
    return f"ended with status {done.returncode}" if done.returncode else None


def post(url: str, shape: str, alerts: Sequence[Alert]) -> str | None:
    """Send the alerts as one message; a redirection is not followed."""
    body, headers = _message(url, shape, alerts)
    request = urllib.request.Request(url, data=body, headers={**headers, "User-Agent": "imi"}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT):
            return None
    except HTTPError as error:
        return f"was answered with status {error.code}"
    except URLError as error:
        return f"cannot be reached: {safe(str(error.reason), 120)}"
    except (OSError, HTTPException, ValueError) as error:
        return f"failed: {safe(getattr(error, 'strerror', None) or type(error).__name__, 120)}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Refuse: the message would go to another place than the one in the settings."""


def _message(url: str, shape: str, alerts: Sequence[Alert]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the request."""
    text = "\n".join(one.text for one in alerts[:_MOST_LINES])
    shape = _guess_shape(url) if shape == "auto" else shape
    if shape == "ntfy":
        priority = "high" if alerts[0].kind in ("asking", "intruder", "claim_lost") else "default"
        return text.encode(), {"Title": "imi", "Priority": priority, "Content-Type": "text/plain; charset=utf-8"}
    found = [{"kind": one.kind, "text": one.text} for one in alerts[:_MOST_LINES]]
    data: dict[str, object] = {"text": _slack_text(text)} if shape == "slack" else {"text": text, "alerts": found}
    return json.dumps(data).encode(), {"Content-Type": "application/json"}


def _slack_text(text: str) -> str:
    """Escape what Slack would read as a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _guess_shape(url: str) -> str:
    host = urlsplit(url).hostname or ""
    if host == "hooks.slack.com":
        return "slack"
    return "ntfy" if "ntfy" in host.split(".") else "json"
