"""The dashboard starts without the modules it may never use, and has them when it does."""

from __future__ import annotations

import subprocess
import sys
import typing

import typing_extensions

from imi_monitor.ui import late_imports
from tests.helpers import ROOT

_IMPORT = """import sys
before = set(sys.modules)
from imi_monitor.ui import late_imports
with late_imports.stand_ins():
    import imi_monitor.ui.app
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_apps_import_leaves_out_what_the_stand_ins_stand_for() -> None:
    """As broken by a new version of Textual that imports another name from one of them: the start would be slow again."""
    names = [module.__name__ for module in late_imports._late_modules()]
    costly = ["_ssl", "tempfile", "platform", "textual.widgets._tree", "textual.widgets._select"]
    assert len(names) == 8
    assert (
        run(f"{_IMPORT}print([name for name in {[*names, *costly]} if name in sys.modules.keys() - before])") == "[]\n"
    )


def test_everything_can_be_used_afterwards() -> None:
    code = f"""{_IMPORT}
import asyncio, ssl, textual.app, textual.command, textual.design, textual.types, uuid, rich.table
from textual.notifications import Notification
from textual.widgets import Tree, Select, Input
assert asyncio.base_events.ssl.SSLContext is ssl.SSLContext
assert textual.app.CommandPalette.is_open is textual.command.CommandPalette.is_open
assert type(textual.design.Table(title="x")) is rich.table.Table
assert textual.app.uuid.UUID is uuid.UUID and textual.app.user_downloads_path().name
assert len({{Notification("x").identity for _ in range(3)}}) == 3
assert issubclass(textual.types.DuplicateID, Exception)

async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.write(b"no TLS here, only text"), "127.0.0.1", 0)
    try:
        await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=True)
    except ssl.SSLError as error:
        print(error.reason)

asyncio.run(main())
"""
    assert "WRONG_VERSION_NUMBER" in run(code) or "HTTP_REQUEST" in run(code)


def test_what_is_loaded_already_is_left_alone() -> None:
    before = {name: sys.modules.get(name) for name in ("typing_extensions", "textual.command", "ssl")}
    with late_imports.stand_ins():
        assert sys.modules["typing_extensions"] is typing_extensions
    assert {name: sys.modules.get(name) for name in before} == before


def test_the_types_given_are_the_same() -> None:
    given = next(one for one in late_imports._late_modules() if one.__name__ == "typing_extensions").__dict__
    for name in ("Final", "Literal", "Self", "TypeAlias", "TypeGuard"):
        assert given[name] is getattr(typing_extensions, name) is getattr(typing, name)
