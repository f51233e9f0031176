"""`imi serve --http` as a program: its routes, and what foreign pages, other users and slow readers can do."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from imi_monitor.cli import http_routes, http_server, loopback_server
from tests.helpers import Repo, imi, imi_argv, wait_for
from tests.limits import LIMIT
from tests.runs.conftest import world as world
from tests.runs.run_kit import RunWorld


@contextmanager
def served() -> Iterator[tuple[int, str]]:
    """(port, token) of a server of its own."""
    argv = imi_argv("serve", "--http", "--port", "0")
    said = Path.home() / "serve.log"
    with said.open("w") as log:
        process = subprocess.Popen(argv, stderr=log)
    try:
        wait_for(lambda: said.read_text().endswith("\n"))
        line = said.read_text()
        assert line.startswith("imi: http://127.0.0.1:"), line
        yield int(line.split(":")[3].split("/")[0]), Path(http_server.token_file()).read_text().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(LIMIT)
    assert status == 0 and said.read_text() == line


def raw(port: int, request: bytes, seconds: float = LIMIT, most: int = 1 << 24) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        found = b""
        while len(found) < most and (part := connection.recv(1 << 16)):
            found += part
        return found


def get(port: int, token: str | None, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    given = {"Host": f"127.0.0.1:{port}", **({"Authorization": f"Bearer {token}"} if token else {})}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    head, _, body = raw(port, f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()).partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def test_the_routes_answer_what_the_verbs_say(world: RunWorld) -> None:  # S4.13 S4.25 S4.33
    world.repo.write("tasks/mail.json", '{"type": "marketing-campaign", "deliverables": ["mail", "fail [[die]]"]}')
    world.imi("batch", "tasks/mail.json", "--agent", "claude", cwd=world.repo.path)
    rows = world.imi("query", "SELECT id, session_id, run_id, agent_id FROM tasks ORDER BY id", "--json").data["rows"]
    batch, run, agent = rows[0][1], rows[0][2], rows[0][3]
    with served() as (port, token):

        def data(path: str) -> dict[str, object]:
            status, body = get(port, token, path)
            assert status == 200, (path, body)
            found: dict[str, object] = json.loads(body)
            return found

        assert data("/api/tasks")["count"] == 2 and data("/api/tasks?status=failed")["count"] == 1
        assert data(f"/api/tasks?session_id={batch}&agent_id={agent}")["count"] == 1
        assert data("/api/agents")["count"] == 2 and int(str(data("/api/sessions")["count"])) >= 2
        campaigns = data("/api/data/campaigns")["campaigns"]
        assert (
            isinstance(campaigns, list) and campaigns[0]["completed"] == 1 and campaigns[0]["id"] == "tasks/mail.json"
        )
        for ident in (run, run[:8], agent, batch):
            status, body = get(port, token, f"/api/logs/{ident}")
            assert status == 200 and (b"mail" in body), (ident, body)
        job = next((world.repo.path.parent / "app.worktrees" / "logs" / "running-jobs").glob("job-*.json"))
        assert get(port, token, f"/api/logs/{job.stem}")[0] == 200
        asked = world.start("[[ask]]", "claude")
        world.wait(asked, "asks")
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as stream:
            head = f"GET /api/stream/{asked}?token={token} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"
            stream.sendall(head.encode())
            world.imi("answer", asked, "yes")
            found = b""
            while b"allowed" not in found:
                found += stream.recv(1 << 16)
        assert b"Content-Type: text/event-stream" in found and b"event: session\ndata: {" in found
        world.imi("stop", asked)
        status, body = get(port, token, f"/api/logs/{asked}?follow=1")
        assert status == 200 and b"allowed" in body, "it ends with the run"


def test_foreign_pages_hosts_users_and_paths_get_nothing(repo: Repo) -> None:
    imi("item", "add", "secret", cwd=repo.path)
    with served() as (port, token):
        own = f"127.0.0.1:{port}"
        assert get(port, token, "/api/tasks")[0] == 200
        for status, headers in (
            (403, {"Host": "evil.example"}),
            (403, {"Host": f"evil.example:{port}"}),
            (403, {"Host": "127.0.0.1"}),
            (403, {"Origin": "http://evil.example"}),
            (403, {"Origin": "null"}),
            (403, {"Sec_Fetch_Site": "cross-site"}),
            (401, {"Authorization": "Bearer wrong"}),
            (401, {"Authorization": ""}),
            (200, {"Origin": f"http://{own}", "Sec_Fetch_Site": "same-origin"}),
        ):
            found, body = get(port, token, "/api/tasks", **headers)
            assert found == status and (b"secret" in body) == (status == 200), headers
        assert get(port, None, "/api/tasks")[0] == 401 and get(port, None, "/api/tasks?token=")[0] == 401
        assert get(port, None, f"/api/tasks?token={token}")[0] == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"):
            assert get(port, token, "/api/tasks", method)[0] == 405
        for path in (
            "/",
            "/api",
            "/api/tasks/",
            "/api/logs/",
            "/api/logs/..",
            "/api/logs/../../etc/passwd",
            "/api/logs/%2e%2e%2fetc%2fpasswd",
            "/api/logs//etc/passwd",
            "/api/logs/session-1",
            "/api/logs/x%00",
            "/api/stream/nothing",
            "//api/tasks",
            "/api/data/rewards",
            "/api/logs/" + "x" * 5000,
        ):
            assert get(port, token, path)[0] == 404, path
        for request in (
            b"GET\r\n\r\n",
            b"\r\n\r\n",
            b"GET / HTTP/9\r\n\r\n",
            b"GET /api/tasks HTTP/1.1\r\nHost : x\r\n\r\n",
        ):
            assert raw(port, request).split()[1] == b"400"
        body = f"GET /api/tasks HTTP/1.1\r\nHost: {own}\r\nContent-Length: 5\r\n\r\nhello"
        twice = f"GET /api/tasks HTTP/1.1\r\nHost: {own}\r\nHost: evil\r\n\r\n"
        assert raw(port, body.encode()).split()[1] == raw(port, twice.encode()).split()[1] == b"400"
        assert raw(port, b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 40_000).split()[1] == b"431"
        mode = os.stat(http_server.token_file()).st_mode
        assert stat.S_IMODE(mode) == 0o600
        with socket.socket() as other:
            other.settimeout(1)
            address = next((one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)), "")
            if not str(address).startswith("127."):
                assert other.connect_ex((str(address), port)) != 0, "it listens on loopback alone"
    os.chmod(http_server.token_file(), 0o644)
    refused = imi("serve", "--http", "--port", "0")
    assert refused.code == 1 and "can be read by others" in refused.err


def test_a_thousand_slow_readers_stop_nobody(repo: Repo) -> None:
    imi("item", "add", "page", cwd=repo.path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1500:
        pytest.skip("this user may not open 1,500 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1500), hard))
    with served() as (port, token):
        slow = []
        for number in range(1000):
            connection = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
            connection.sendall(b"GET /api/tasks HTTP/1.1\r\n" if number % 2 else b"G")
            slow.append(connection)
            if number % 250 == 249:
                begun = time.monotonic()
                assert get(port, token, "/api/tasks")[0] == 200
                assert time.monotonic() - begun < 10
        for connection in slow:
            connection.close()


def test_heads_and_ids() -> None:
    parsed = loopback_server.parse(b"GET /api/tasks?a=1&a=2&b=%20 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert parsed is not None and (parsed.path, parsed.values) == ("/api/tasks", {"a": "1", "b": " "})
    for head in (b"\xff", b"GET  / HTTP/1.1", b"GET http://x/ HTTP/1.1", b"GET / HTTP/1.1\r\n x: y"):
        head += b"\r\n\r\n"
        assert loopback_server.parse(head) is None
    assert (
        loopback_server.parse(b"GET /?" + b"&".join(b"a%d=1" % number for number in range(100)) + b" HTTP/1.1\r\n\r\n")
        is None
    )
    plain = [one for one in ("job-1", "claude:1", "../x", ".x", "", "a/b", "x" * 121) if http_routes.is_plain(one)]
    assert plain == ["job-1", "claude:1"]
