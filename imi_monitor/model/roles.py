"""Roles of agents in a contained workspace: what each is told, and which acts on files it may do."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

CREATE, EDIT, DELIVER = "create", "edit", "deliver"

_PLACE = (
    "You work in a contained workspace: one flat folder that you share with other agents. Use plain file names such as"
    " report.md, without any folder; intermediate files stay there. A file that the user wants elsewhere is finished here"
    " first and delivered when the work is completed."
)


@dataclass(frozen=True, slots=True)
class Role:
    """`acts` beside reading, which every role may."""

    name: str
    acts: frozenset[str]
    told: str


ROLES = {
    role.name: role
    for role in (
        Role(
            "markdown-editor",
            frozenset({CREATE, EDIT}),
            "As markdown-editor you create files and edit them in this folder.",
        ),
        Role("creator", frozenset({CREATE, EDIT}), "As creator you write content into files of this folder."),
        Role("editor", frozenset({EDIT}), "As editor you edit files that exist in this folder; you create none."),
        Role(
            "filesystem",
            frozenset({DELIVER}),
            "As filesystem you deliver finished files to where the user wants them (`imi file deliver NAME DEST`); you create"
            " and edit none.",
        ),
    )
}


def named(name: str) -> Role:
    if name not in ROLES:
        raise UsageError(f"the role {safe(name, 40)!r} is unknown: use one of {', '.join(ROLES)}", code="bad-role")
    return ROLES[name]


def instructions(name: str | None) -> str:
    """Return what an agent in a contained workspace is told before its first prompt."""
    return f"{_PLACE} {named(name).told}" if name else _PLACE


def check(name: str | None, act: str) -> None:
    """Refused when the role may not do this; without a role everything is allowed."""
    if name and act not in named(name).acts:
        able = [role.name for role in ROLES.values() if act in role.acts]
        raise Refused(f"the role {name} does not {act} files: that is for {', '.join(able)}", code="role")
