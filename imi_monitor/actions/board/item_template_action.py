"""`imi item template`: write a task definition or a priority file to fill in."""

from __future__ import annotations

import json
import os

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.board import batch_files, item_lookup
from imi_monitor.model import board, times
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_PRIORITIES = """# Priority 1

**Description:** What is to be done, in one sentence.
**Expected outcome:**
- What is true afterwards
**Files:** where to begin
**Dependencies:** none
**Complexity:** Low

# Priority 2

**Description:** The next one.
"""


class ItemTemplateAction(Action):
    words = ("item template",)
    group = "Board"
    label = "Write a template"
    help = "write a task definition tasks/NAME.json, or a priority file reports/NAME.md, to fill in"
    more = """Without a file it is today's priority file. A bare name gets its folder; without an ending it is a definition. An
    existing file is never overwritten. `imi batch FILE` starts it."""
    arguments = (Argument("file", "tasks/NAME.json or reports/NAME.md", optional=True),)
    options = (
        Option("type", "the type of the definition, such as marketing-campaign", value="WORD"),
        Option("priority", "high, medium or low", value="WORD", choices=board.PRIORITIES),
    )

    def run(self, context: Context, request: Request) -> Outcome:
        _, top = batch_files.top_of(context)
        given = _placed(request.text("file") or f"reports/priorities-{times.stamp()[:10]}.md")
        if not given.endswith((".json", ".md")):
            raise UsageError(f"{safe(given, 100)} is neither a .json nor a .md file", code="bad-name")
        path = os.path.normpath(os.path.join(top, given))
        if os.path.relpath(path, top).startswith(".."):
            raise UsageError(f"{safe(given, 100)} is outside of the worktree", code="bad-name")
        text = _definition(request) if given.endswith(".json") else _PRIORITIES
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as error:
            raise Refused(f"{safe(given, 100)} exists already: edit it, or give another name", code="exists") from error
        except OSError as error:
            raise Refused(f"{safe(given, 100)} cannot be written: {error.strerror}", code="disk") from error
        return Outcome([f"wrote {safe(path, 300)}", f"start it with: imi batch {safe(given, 100)}"], {"file": path})


def _placed(given: str) -> str:
    """The file of a bare name is where `imi batch` lists it: `spring` is tasks/spring.json, `spring.md` is in reports/."""
    if "/" in given:
        return given
    if not os.path.splitext(given)[1]:
        given = f"{given}.json"
    return f"{'reports' if given.endswith('.md') else 'tasks'}/{given}"


def _definition(request: Request) -> str:
    kind = item_lookup.label_of(request, "type") or "engineering"
    plain = {
        "type": kind,
        "priority": item_lookup.priority_of(request.text("priority") or board.MEDIUM),
        "deliverables": ["the first thing", "the second thing"],
    }
    if kind.endswith("campaign"):
        plain["target_audience"] = "the readers it is written for"
    return json.dumps(plain, indent=2) + "\n"


ACTIONS = (ItemTemplateAction(),)
