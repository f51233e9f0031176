"""The official client of the Model Context Protocol against `imi mcp`, in all of its modes: prints what it was given, as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from mcp import StdioServerParameters
from mcp.client import Client

MODES = ("auto", "legacy", "2026-07-28")


async def use(mode: str) -> dict[str, object]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "imi_monitor", "mcp"], cwd=os.getcwd(), env=dict(os.environ)
    )
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        claimed = await client.call_tool("claim", {"agent": "bob"})
        again = await client.call_tool("claim", {"agent": "eve"})
        released = await client.call_tool("release", {"agent": "bob"})
        return {
            "tools": [tool.name for tool in tools],
            "claimed": [claimed.is_error, claimed.content[0].text, claimed.structured_content],
            "again": [again.is_error, again.content[0].text],
            "released": [released.is_error, released.content[0].text],
        }


async def main() -> None:
    print(json.dumps({mode: await use(mode) for mode in MODES}))


asyncio.run(main())
