"""The files that imi writes about a run from what its agent did: the log of its commands, its job log, what it fetched.

They are copies for people and other programs, made after the registry has it. A reader that begins anew writes them anew.
"""

from __future__ import annotations

import os
import re

from imi_monitor.model.text import safe
from imi_monitor.runs import job_log, run_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.model.agent import AgentEvent
    from imi_monitor.store.runs import RunRow

_COMMANDS = ("Bash", "shell", "run_shell_command")
_SEARCHES = ("WebFetch", "WebSearch", "web_fetch", "web_search", "google_web_search", "crawl_parallel", "fetch")
_NO_SEARCH = "SEARCH_TOOLS"
_LONGEST_SLUG = 40
_MEDIA_TOOLS = ("youtube", "video", "audio", "speech")
_MEDIA_ENDINGS = (".mp4", ".mkv", ".webm", ".mov", ".avi", ".mp3", ".m4a", ".wav", ".ogg", ".opus", ".flac", ".aac")
_UNFINISHED_MEDIA = ("last_", "first_", "temp_", "tmp_", ".")


def write(row: RunRow, events: Sequence[AgentEvent], *, anew: bool = False) -> None:
    """Add these events to the files, or write the files anew from all events so far."""
    if not events and not anew:
        return
    if anew:
        job_log.remove_parts(row)
    log = job_log.path(row)
    run_folder.append_lines(log, job_log.lines(events), anew=anew)
    job_log.rotate(log)
    commands = [line for one in events for line in _command_lines(one)]
    if commands or anew:
        run_folder.append_lines(os.path.join(row.folder, run_folder.LOG), commands, anew=anew)
    for one in events:
        if one.kind == "tool_finished" and one.ok and one.tool is not None and _is_search(one.tool.name):
            _write_result(row.folder, one)
        elif one.kind == "tool_finished" and one.ok and one.tool is not None and _is_media(one.tool.name):
            _keep_media(row, one)


def _command_lines(one: AgentEvent) -> list[str]:
    tool = one.tool
    if one.kind == "tool_started" and tool is not None and tool.name in _COMMANDS:
        return [f"{one.at} [{tool.id}] $ {safe(tool.target or '', 4000)}"]
    if one.kind == "tool_finished" and tool is not None and tool.name in (*_COMMANDS, "", "?"):
        how = {True: "succeeded", False: "failed", None: "was cancelled"}[one.ok]
        output = [f"    {safe(line, 4000)}" for line in (one.text or "").splitlines()]
        return [f"{one.at} [{tool.id}] {how}", *output]
    return []


def _is_media(tool: str) -> bool:
    return any(word in tool.lower() for word in _MEDIA_TOOLS)


def _keep_media(row: RunRow, one: AgentEvent) -> None:
    """Copy the video and audio files that the call has made into `media/`: those that it wrote, or whose paths it printed."""
    printed = [word.strip("\"'`,;()") for word in (one.text or "").split()]
    for path in dict.fromkeys((*one.files, *printed)):
        name = os.path.basename(path)
        plain = not name.startswith(_UNFINISHED_MEDIA) and not os.path.splitext(name)[0].endswith("_part")
        if plain and name.lower().endswith(_MEDIA_ENDINGS):
            run_folder.copy_into(os.path.join(row.cwd, path), os.path.join(row.folder, "media"))


def _is_search(tool: str) -> bool:
    return tool in _SEARCHES or ("SEARCH" in tool and _NO_SEARCH not in tool)


def _write_result(folder: str, one: AgentEvent) -> None:
    """Keep what a tool brought from the web. The name follows from the call, so it is written once."""
    assert one.tool is not None
    slug = re.sub(r"[^a-z0-9]+", "-", (one.tool.target or one.tool.name).lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    clock = re.sub(r"\D", "", one.at[11:19])
    mark = re.sub(r"\W", "", one.tool.id or "")[-6:]
    name = "_".join(filter(None, (slug or "result", clock, mark)))
    plain: dict[str, object] = {
        "tool": one.tool.name,
        "query": one.tool.target,
        "call": one.tool.id,
        "at": one.at,
        "result": one.text,
    }
    run_folder.write_json(os.path.join(folder, "search_results", f"{name}.json"), plain)
