"""Notifications to a command and to a webhook: the shapes, the limits, and nothing secret in them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from imi_monitor import config, paths
from imi_monitor.links import notification_delivery as delivery
from imi_monitor.model.alert import Alert
from imi_monitor.model.errors import UsageError
from tests.helpers import imi

SECRET = "ghp_" + "a1B2" * 9
ALERTS = [Alert("asking", ("1",), "claude-1 asks in feat-api"), Alert("dead", ("2",), "codex-1 died in <feat-x>")]


class Received:
    """A web server of the test that keeps what it gets and answers with `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[dict[str, str], str]] = []
        received = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                received.requests.append((dict(self.headers), body))
                self.send_response(received.status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-topic"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()


@pytest.fixture
def received() -> Iterator[Received]:
    made = Received()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join(60)


def test_the_shapes_of_webhooks(received: Received) -> None:
    for shape in ("ntfy", "slack", "json", "auto"):
        assert delivery.post(received.url, shape, ALERTS) is None
    (headers, ntfy), (_, slack), (_, plain), (_, guessed) = received.requests
    assert ntfy == "claude-1 asks in feat-api\ncodex-1 died in <feat-x>"
    assert (headers["Title"], headers["Priority"]) == ("imi", "high")
    assert json.loads(slack) == {"text": "claude-1 asks in feat-api\ncodex-1 died in &lt;feat-x&gt;"}
    assert json.loads(plain)["alerts"][1] == {"kind": "dead", "text": "codex-1 died in <feat-x>"}
    assert guessed == plain


@pytest.mark.parametrize(
    ("url", "shape"),
    [
        ("https://ntfy.sh/x", "ntfy"),
        ("https://hooks.slack.com/services/T/B/x", "slack"),
        ("https://example.org", "json"),
    ],
)
def test_the_shape_is_guessed_from_the_address(url: str, shape: str) -> None:
    assert delivery._message(url, "auto", ALERTS) == delivery._message(url, shape, ALERTS)


def test_failures_are_sentences_without_the_address(received: Received) -> None:
    for status in (302, 500):
        received.status = status
        assert delivery.post(received.url, "json", ALERTS) == f"was answered with status {status}"
    unreachable = delivery.post("http://127.0.0.1:1/secret-topic", "json", ALERTS)
    assert unreachable is not None and "cannot be reached" in unreachable and "secret" not in unreachable


def test_a_command_gets_the_alerts(tmp_path: Path) -> None:
    command = f'echo "$IMI_NOTIFY_KIND: $IMI_NOTIFY_TEXT" > {tmp_path}/first; cat > {tmp_path}/all'
    assert delivery.run_command(command, ALERTS) is None
    assert (tmp_path / "first").read_text() == "asking: claude-1 asks in feat-api\n"
    assert (tmp_path / "all").read_text() == "claude-1 asks in feat-api\ncodex-1 died in <feat-x>\n"
    assert delivery.run_command("exit 3", ALERTS) == "ended with status 3"


def test_secrets_are_redacted_and_failures_reported(received: Received, tmp_path: Path) -> None:
    received.status = 500
    problems: list[str] = []
    both = threading.Event()

    def report(problem: str) -> None:
        problems.append(problem)
        if len(problems) == 2:
            both.set()

    leaking = [Alert("asking", (), f"claude-1 asks: curl -H 'Authorization: Bearer {SECRET}'")]
    delivery.deliver(f"cat > {tmp_path}/all; exit 1", received.url, "json", leaking, report)
    assert both.wait(60)
    assert problems == ["notify.command ended with status 1", "notify.webhook was answered with status 500"]
    assert SECRET not in (tmp_path / "all").read_text() + received.requests[0][1]


def test_only_the_users_own_config_may_set_them(tmp_path: Path) -> None:
    for key in ("command", "webhook", "webhook_shape"):
        foreign = tmp_path / "config.toml"
        foreign.write_text(f'[notify]\n{key} = "https://x"\n')
        with pytest.raises(UsageError, match=f"notify.{key} is not allowed"):
            config.load(str(foreign))
    mine = Path(paths.config_file())
    mine.parent.mkdir(parents=True)
    mine.write_text('[notify]\nwebhook = "https://ntfy.sh/my-secret-topic"\n')
    shown = imi("config", "notify.webhook").out
    assert "https://ntfy.sh/***" in shown and "my-secret-topic" not in shown
    mine.write_text('[notify]\nwebhook = "file:///etc/passwd"\n')
    with pytest.raises(UsageError, match="must be an address that begins with https:// or http://"):
        config.load()
