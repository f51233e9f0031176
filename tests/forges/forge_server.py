"""A stand-in for GitHub and GitLab on this machine: answers what the real `gh` and `glab` ask, over HTTP.

`gh` reaches it through a Unix socket (its setting `http_unix_socket`) under any host name, `glab` at a port of the loopback.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.limits import join

REAL_GH, REAL_GLAB = shutil.which("gh"), os.environ.get("IMI_TEST_GLAB") or shutil.which("glab")
SHA = "a" * 40


def pull(number: int, **changes: Any) -> dict[str, Any]:
    """A pull request as GitHub answers it."""
    ci = changes.pop("ci", "SUCCESS")
    return {
        "number": number,
        "title": f"Change {number}",
        "author": {"login": "alice"},
        "baseRefName": "main",
        "headRefName": f"feat/n{number}",
        "headRefOid": SHA,
        "isDraft": False,
        "isCrossRepository": False,
        "headRepository": {"name": "app", "owner": {"login": "acme"}},
        "maintainerCanModify": False,
        "url": f"https://github.com/acme/app/pull/{number}",
        "state": "OPEN",
        "reviewDecision": "APPROVED",
        "updatedAt": "2026-11-19T10:00:00Z",
        "mergeCommit": None,
        "commits": {"nodes": [{"commit": {"statusCheckRollup": {"state": ci} if ci else None}}]},
    } | changes


def merge_request(number: int, **changes: Any) -> dict[str, Any]:
    """A merge request as GitLab answers it."""
    return {
        "iid": str(number),
        "title": f"Change {number}",
        "author": {"username": "alice"},
        "targetBranch": "main",
        "sourceBranch": f"feat/n{number}",
        "diffHeadSha": SHA,
        "draft": False,
        "webUrl": f"https://gitlab.example/acme/app/-/merge_requests/{number}",
        "state": "opened",
        "updatedAt": "2026-11-19T10:00:00Z",
        "mergeCommitSha": None,
        "approved": True,
        "approvedBy": {"nodes": [{"username": "bob"}]},
        "headPipeline": {"status": "SUCCESS"},
        "sourceProject": {"fullPath": "acme/app"},
        "allowCollaboration": True,
    } | changes


class ForgeServer:
    """`pulls` and `merge_requests` are what it lists; `fails` is (status, message) instead; `hold` makes it slow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pulls: list[dict[str, Any]] = []
        self.merge_requests: list[dict[str, Any]] = []
        self.fails: tuple[int, str] | None = None
        self.errors: list[dict[str, Any]] = []  # in an answer that is otherwise good
        self.hold = threading.Event()
        self.hold.set()
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []  # host, token, body

    def write_gh_config(self) -> Path:
        """Write gh's configuration; returns its folder, for GH_CONFIG_DIR."""
        made = self.folder / "gh"
        made.mkdir(exist_ok=True)
        (made / "config.yml").write_text(f"http_unix_socket: {self.folder / 'socket'}\n")
        return made

    def write_glab_config(self, host: str, port: int) -> Path:
        made = self.folder / "glab"
        made.mkdir(exist_ok=True)
        text = f"check_update: false\nhosts:\n  {host}:\n    token: t0ken\n    api_protocol: http\n"
        (made / "config.yml").write_text(f"{text}    api_host: 127.0.0.1:{port}\n")
        (made / "config.yml").chmod(0o600)
        return made

    def answer(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        if "pr_number" in given or "headRefName" in given:
            return self._viewed(given)
        named = [int(number) for number in re.findall(r"\bn(\d+):", query)]
        if "mergeRequests" in query:
            iids = re.findall(r'"(\d+)"', query)
            state = {"open": ("opened",), "merged": ("merged",)}
            parts: dict[str, Any] = {
                name: {"nodes": [one for one in self.merge_requests if one["state"] in wanted]}
                for name, wanted in state.items()
            }
            parts["open"]["count"] = len(parts["open"]["nodes"])
            parts["named"] = {"nodes": [one for one in self.merge_requests if one["iid"] in iids]}
            return {"data": {"project": parts}}
        opened = [one for one in self.pulls if one["state"] == "OPEN"]
        found: dict[str, Any] = {
            "open": {"totalCount": len(opened), "nodes": opened[:100]},
            "closed": {"nodes": [one for one in self.pulls if one["state"] != "OPEN"][:30]},
        }
        missing = []
        for number in named:
            found[f"n{number}"] = next((one for one in self.pulls if one["number"] == number), None)
            if found[f"n{number}"] is None:
                missing.append({"type": "NOT_FOUND", "path": ["repository", f"n{number}"], "message": f"no {number}"})
        errors = [*missing, *self.errors]
        return {"data": {"repository": found}} | ({"errors": errors} if errors else {})

    def _viewed(self, given: dict[str, Any]) -> dict[str, Any]:
        """What `gh pr view` asks about one pull request, by its number or by its branch."""
        found = [
            {
                **one,
                "id": f"PR_{one['number']}",
                "author": {**one["author"], "id": "U_1"},  # a bot has none
                "headRepositoryOwner": (one["headRepository"] or {}).get("owner"),
            }
            for one in self.pulls
            if given.get("pr_number", one["number"]) == one["number"]
            and given.get("headRefName", one["headRefName"]) == one["headRefName"]
        ]
        if "headRefName" in given:
            return {"data": {"repository": {"pullRequests": {"nodes": found}, "defaultBranchRef": {"name": "main"}}}}
        message = f"Could not resolve to a PullRequest with the number of {given['pr_number']}."
        errors = [{"type": "NOT_FOUND", "path": ["repository", "pullRequest"], "message": message}]
        answer = {"data": {"repository": {"pullRequest": found[0] if found else None}}}
        return answer if found else {**answer, "errors": errors}

    def handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class ForgeHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                token = self.headers.get("Authorization") or self.headers.get("Private-Token")
                server.requests.append((self.headers["Host"], token, body))
                server.hold.wait(60)
                status, message = server.fails or (200, "")
                answer = (
                    {"message": message} if server.fails else server.answer(body["query"], body.get("variables") or {})
                )
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def address_string(self) -> str:
                return "local"

            def log_message(self, format: str, *args: Any) -> None:
                return

        return ForgeHandler


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was stopped has closed its end."""


@contextmanager
def run_forge(folder: Path, *, tcp: bool = False) -> Iterator[tuple[ForgeServer, int]]:
    """A running server, and its port for `glab`."""
    made = ForgeServer(folder)
    server: socketserver.BaseServer
    if tcp:
        server = ThreadingHTTPServer(("127.0.0.1", 0), made.handler())
        port = int(server.server_address[1])
    else:
        here = os.open(folder, os.O_RDONLY)  # the path of a socket may have 107 characters only
        server, port = _UnixServer(f"/proc/self/fd/{here}/socket", made.handler()), 0
        os.close(here)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made, port
    finally:
        made.hold.set()
        server.shutdown()
        server.server_close()
        join(thread)


def link_program(folder: Path, real: str) -> str:
    """A folder for PATH that holds only this program."""
    folder.mkdir()
    (folder / os.path.basename(real)).symlink_to(real)
    return str(folder)
