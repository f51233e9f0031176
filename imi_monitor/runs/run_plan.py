"""Everything that is decided about a run before anything is made."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from imi_monitor.runs import launch_folder
from imi_monitor.runs.agent_variables import (
    PLACE_VARIABLE,
    REQUESTS_VARIABLE,
    ROLE_VARIABLE,
    RUN_FOLDER_VARIABLE,
    RUN_VARIABLE,
)
from imi_monitor.runs.provider import Launch, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.errors import Refused
    from imi_monitor.runs.run_wall import RunWall
    from imi_monitor.store.claim_requests import ClaimAnswer, ClaimTarget

# Of the surroundings of `imi start`, not of the agent: it would take itself for the agent or the pane that started it.
_NOT_PASSED = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CODEX_THREAD_ID",
    "GEMINI_SESSION_ID",
    "IMI_AGENT_PID",
)
SURROUNDINGS = ("TMUX", "TMUX_PANE", "ZELLIJ", "ZELLIJ_PANE_ID", "ZELLIJ_SESSION_NAME")
REQUESTS = "requests"  # the part of the run folder for what a walled agent asks of imi
_HOMES = ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


@dataclass(frozen=True)
class ContainedWork:
    """The contained workspace of a run. It may deliver into the folders `deliver_to`; `deliveries` are (file, target)."""

    path: str
    role: str | None = None
    deliver_to: tuple[str, ...] = ()
    deliveries: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RunPlan:
    """`target`: the worktree to claim; None: the run needs no claim, or works under the caller's."""

    id: str
    program: str
    way: str
    agent: str
    user: str
    spec: Spec
    launch: Launch
    home: str
    refuse_claim: Callable[[ClaimAnswer], Refused]
    target: ClaimTarget | None = None
    repo_name: str | None = None
    worktree_name: str | None = None
    base: str | None = None  # the commit the worktree was at
    task: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    resumed_from: str | None = None
    budget: dict[str, float] = field(default_factory=dict)
    parent: str | None = None  # the run in which this one was started
    holder: dict[str, str] | None = None  # of its terminal
    operation: str | None = None  # that made its worktree, which the run takes over
    group: str | None = None  # of runs with one prompt, to be compared
    wall: RunWall | None = None
    contained: ContainedWork | None = None

    @property
    def takes_requests(self) -> bool:
        return self.wall is not None or self.contained is not None

    def environment(self, folder: str) -> dict[str, str]:
        """The agent's environment: the caller's, with what names the run."""
        passed = {name: value for name, value in os.environ.items() if name not in (*_NOT_PASSED, *SURROUNDINGS)}
        named = {
            RUN_VARIABLE: self.id,
            RUN_FOLDER_VARIABLE: folder,
            "IMI_AGENT_ID": self.agent,
            "IMI_SESSION_ID": self.id,
        }
        if self.contained is not None:
            named[PLACE_VARIABLE] = self.contained.path
            named |= {ROLE_VARIABLE: self.contained.role} if self.contained.role else {}
        if self.takes_requests:
            named[REQUESTS_VARIABLE] = os.path.join(folder, REQUESTS)
        return {**self.launch.env, **passed, **named}

    def files(self) -> dict[str, str]:
        """What the launch folder gets beside its own files."""
        packet = {launch_folder.PACKET: self.spec.packet} if self.spec.packet else {}
        return {**self.launch.files, **packet, **(self.wall.files() if self.wall is not None else {})}

    def stored_launch(self) -> dict[str, object]:
        """What a resume needs. The argv has no prompt; flags are the user's own words."""
        return {
            "argv": list(self.launch.argv),
            "mode": self.spec.mode,
            "model": self.spec.model,
            "flags": list(self.spec.flags),
            "dangerous": list(self.launch.dangerous),
            "resumes": self.spec.resumes,
            "tools": list(self.spec.tools),
            "homes": {name: os.environ[name] for name in _HOMES if name in os.environ},
            "base": self.base,
            "task": self.task,
            "labels": self.labels,
            "parent": self.parent,
            "holder": self.holder["way"] if self.holder is not None else None,
            "budget": self.budget,
            "group": self.group,
            **(self.wall.stored() if self.wall is not None else {}),
            **({"contained": self._contained()} if self.contained is not None else {}),
        }

    def _contained(self) -> dict[str, object]:
        assert self.contained is not None
        return {"path": self.contained.path, "role": self.contained.role, "deliver_to": list(self.contained.deliver_to)}


def own_environment() -> dict[str, str]:
    """The environment of the processes that imi starts for itself: inside of a run they are no part of it."""
    return {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
