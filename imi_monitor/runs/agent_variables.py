"""The environment variables by which an agent of a run, and what it starts, know the run and its workspace."""

from __future__ import annotations

RUN_VARIABLE, RUN_FOLDER_VARIABLE = "IMI_RUN_ID", "IMI_RUN_DIR"
PLACE_VARIABLE, ROLE_VARIABLE = "IMI_CONTAINED", "IMI_ROLE"  # the contained workspace of an agent, and its role there
REQUESTS_VARIABLE = "IMI_REQUESTS"  # the folder, in the run folder, for what a walled agent asks of imi
WALL_VARIABLE = "IMI_WALL"  # inside of a wall: its level
AGENT_VARIABLES = (
    RUN_VARIABLE,
    RUN_FOLDER_VARIABLE,
    "IMI_AGENT_ID",
    "IMI_SESSION_ID",
    PLACE_VARIABLE,
    ROLE_VARIABLE,
    REQUESTS_VARIABLE,
    WALL_VARIABLE,
)
