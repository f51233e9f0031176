"""What the agent of a run may do without asking: nothing that its program asks for, edits of files, or only to plan."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ASK: Final = "ask"
EDITS: Final = "edits"
PLAN: Final = "plan"
