"""`imi mcp`: the protocol in both eras, tools made from the actions, and the official client as the counterpart."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import command_table
from imi_monitor.cli import mcp_tools
from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT

CLIENT = Path(__file__).with_name("mcp_client.py")


class McpSession:
    """One `imi mcp` as an agent program uses it."""

    def __init__(self, cwd: Path, *options: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "imi_monitor", "mcp", *options],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        )
        self._number = 0

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        text = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(next(iter(self.process.stdout)))

    def post(self, method: str, **params: object) -> int:
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def ask(self, method: str, **params: object) -> Any:
        number = self.post(method, **params)
        answer = self.read()
        assert answer["id"] == number
        return answer

    def call(self, tool: str, **arguments: object) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)["result"]

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        try:
            return self.process.wait(timeout=LIMIT)
        finally:
            self.process.kill()
            self.process.stdout.close()


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-x")


Opener = Callable[..., McpSession]


@pytest.fixture
def opened() -> Iterator[Opener]:
    made: list[McpSession] = []

    def open_session(cwd: Path, *options: str, **env: str) -> McpSession:
        made.append(McpSession(cwd, *options, **env))
        return made[-1]

    yield open_session
    for one in made:
        one.end()


@pytest.fixture
def session(tree: Repo, opened: Opener) -> McpSession:
    return opened(tree.path)


@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="the official client (PyPI mcp) is not installed")
def test_the_official_client_claims_in_each_of_its_modes(tree: Repo) -> None:  # S2.9
    done = subprocess.run(
        [sys.executable, str(CLIENT)],
        cwd=tree.path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["auto", "legacy", "2026-07-28"]
    for epoch, one in enumerate(found.values(), 1):
        assert set(one["tools"]) < set(command_table.TOOLS) and "file_write" not in one["tools"]
        assert one["claimed"][:2] == [False, f"feat-x is claimed by bob (epoch {epoch})"]
        assert one["claimed"][2]["state"] == "held"
        assert one["again"][0] is True and one["again"][1].startswith("feat-x has been held by bob")
        assert one["released"] == [False, "feat-x is unclaimed now: bob released it"]


def test_both_eras_are_answered_by_one_process(session: McpSession) -> None:
    stateless = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    found = session.ask("server/discover", **stateless)["result"]
    assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete" and "ttlMs" in found
    assert session.ask("tools/list", **stateless)["result"]["cacheScope"] == "private"
    for asked, given in (("2025-06-18", "2025-06-18"), ("2031-01-01", "2025-11-25")):
        hello = session.ask(
            "initialize", protocolVersion=asked, capabilities={}, clientInfo={"name": "x", "version": "1"}
        )
        assert hello["result"]["protocolVersion"] == given and "claim" in hello["result"]["instructions"].lower()
    assert "ttlMs" not in session.ask("tools/list")["result"]
    error = session.ask("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2031-01-01"})["error"]
    assert error["code"] == -32022 and "2026-07-28" in error["data"]["supported"]


def test_what_is_no_request_of_the_protocol_is_answered_and_changes_nothing(session: McpSession) -> None:
    for line, code in (
        ("{", -32700),
        ("[]", -32600),
        ('{"jsonrpc": "2.0", "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "claim", "arguments": 3}}', -32602),
        ("[" * 100_000, -32700),
        ("x" * (5 << 20), -32700),
    ):
        session.send(line)
        assert session.read()["error"]["code"] == code, line[:80]
    session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    session.send({"jsonrpc": "2.0", "id": 9, "result": {}})
    assert session.ask("ping")["result"] == {}, "notes and answers get no answer"
    assert session.end() == 0


def test_an_agent_names_itself_and_a_wrong_value_is_refused_by_name(session: McpSession) -> None:
    for arguments, words in (
        ({}, "claim needs agent"),
        ({"agent": "bob", "force": True}, "claim takes no 'force'"),
        ({"agent": "bob", "ttl": "soon"}, "ttl must be a number"),
        ({"agent": 7}, "agent must be a text"),
        ({"agent": "imi:x"}, "reserved"),
        ({"agent": "bob", "name": "../../etc"}, "is not a worktree name"),
    ):
        refused = session.call("claim", **arguments)
        assert refused["isError"] and words in refused["content"][0]["text"], refused
    assert (
        session.call("release", agent="bob", **{"dirty-ok": 1})["content"][0]["text"]
        == "dirty-ok must be true or false"
    )
    assert session.call("where_am_i", agent="bob")["structuredContent"]["owner"] is None


def test_a_run_needs_no_name_and_its_claim_ends_with_the_agent(tree: Repo, opened: Opener) -> None:
    session = opened(tree.path, IMI_AGENT_ID="claude-7", IMI_SESSION_ID="s-1")
    [claim] = [one for one in session.ask("tools/list")["result"]["tools"] if one["name"] == "claim"]
    assert "agent" not in claim["inputSchema"]["properties"] and "required" not in claim["inputSchema"]
    held = session.call("claim", task="T-1")["structuredContent"]
    assert (held["agent_id"], held["pid"], held["task_id"]) == ("claude-7", os.getpid(), "T-1")
    here = session.call("where_am_i")["structuredContent"]
    assert here["mine"] and here["worktree_name"] == "feat-x"
    assert session.call("verify")["isError"] is False


def test_waiting_leaves_other_calls_answered_and_ends_when_cancelled(tree: Repo, opened: Opener) -> None:
    assert imi("claim", "feat-x", "--agent", "ann", cwd=tree.path).code == 0
    session = opened(tree.path)
    waits = session.post("tools/call", name="wait", arguments={"agent": "bob", "wait": 60})
    other = session.ask("tools/call", name="overview", arguments={})
    assert "claimed by ann" in other["result"]["content"][0]["text"]
    session.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waits}})
    answer = session.read()
    assert answer["id"] == waits and answer["result"]["isError"]
    assert imi("queue", "feat-x", "--json", cwd=tree.path).data["count"] == 0
    second = session.post("tools/call", name="wait", arguments={"agent": "bob", "wait": 60})
    assert session.ask("ping")["result"] == {}
    assert imi("release", "feat-x", "--agent", "ann", cwd=tree.path).code == 0
    granted = session.read()
    assert granted["id"] == second and granted["result"]["structuredContent"]["agent_id"] == "bob"
    session.post("tools/call", name="wait", arguments={"agent": "eve", "wait": 60})
    assert session.end() == 0, "the line is left when the client goes"
    assert imi("queue", "feat-x", "--json", cwd=tree.path).data["count"] == 0


def test_the_overview_names_the_files_that_another_worktree_changed(
    tree: Repo, repo: Repo, session: McpSession
) -> None:
    other = repo.worktree("feat-y")
    for one in (tree, other):
        one.write("src/api.py", f"changed in {one.path.name}\n")
    found = session.call("overview")
    assert found["structuredContent"]["collisions"] == [{"with": "feat-y", "files": ["src/api.py"]}]
    assert "feat-y also changed 1 file of this worktree: src/api.py" in found["content"][0]["text"]
    assert "feat-x (you are here): unclaimed" in found["content"][0]["text"]


def test_an_agent_in_a_contained_workspace_is_offered_its_files(tmp_path: Path, opened: Opener) -> None:  # S0.10 S1.19
    (tmp_path / "run" / "search_results").mkdir(parents=True)
    (tmp_path / "run" / "search_results" / "PAGE_101010.json").write_text("{}")
    (tmp_path / "run" / "requests").mkdir()
    (tmp_path / "default").mkdir()
    inside = {"IMI_CONTAINED": str(tmp_path / "default"), "IMI_REQUESTS": str(tmp_path / "run" / "requests")}
    session = opened(tmp_path, **inside, IMI_RUN_DIR=str(tmp_path / "run"), IMI_AGENT_ID="claude-1", IMI_ROLE="creator")
    hello = session.ask("initialize", protocolVersion="2025-06-18")["result"]
    assert "As creator you write content" in hello["instructions"]
    names = {tool["name"] for tool in session.ask("tools/list")["result"]["tools"]}
    assert {"file_list", "file_read", "file_write", "file_edit", "file_find", "deliver", "read_research_files"} <= names
    assert session.call("file_write", name="a.md", content="# a")["isError"] is False
    assert session.call("file_edit", name="a.md", old="# a", new="# b")["isError"] is False
    assert session.call("file_read", name="a.md")["structuredContent"]["content"] == "# b"
    assert "use b.md" in session.call("file_write", name="../b.md", content="x")["content"][0]["text"]
    assert (
        "the role creator does not deliver"
        in session.call("deliver", name="a.md", dest="/tmp/a.md")["content"][0]["text"]
    )
    assert session.call("read_research_files")["structuredContent"]["files"] == ["PAGE_101010.json"]
    assert sorted(one.name for one in (tmp_path / "default").iterdir()) == ["a.md", "workspace_metadata.json"]
    acts = [json.loads(one.read_text())["act"] for one in (tmp_path / "run" / "requests").iterdir()]
    assert sorted(acts) == ["created", "edited"], "the audit log gets them from outside of the wall"


def test_outside_of_a_repository_a_call_is_refused_with_the_way_out(tmp_path: Path, opened: Opener) -> None:
    session = opened(tmp_path)
    refused = session.call("claim", agent="bob")
    assert refused["isError"] and refused["content"][0]["text"] == "you are not in a worktree: give name"
    assert "outside of any git repository" in session.call("where_am_i", agent="bob")["content"][0]["text"]


def test_every_tool_has_a_schema_that_a_client_accepts() -> None:
    for tool in mcp_tools.ToolBox(None).list_tools():
        schema = tool["inputSchema"]
        assert isinstance(schema, dict) and schema["type"] == "object"
        assert set(schema.get("required", [])) <= set(schema["properties"])
        assert all(one["description"] for one in schema["properties"].values()), tool["name"]
        assert str(tool["description"]).endswith(".")
