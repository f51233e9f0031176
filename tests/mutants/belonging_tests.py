"""Which tests belong to which module: the dangerous modules, each with the test files that describe it, the most direct first."""

from __future__ import annotations

_CLAIMS = (
    "store/test_claim_rules.py",
    "store/test_claims.py",
    "store/test_claim_queue.py",
    "actions/test_claim.py",
    "actions/test_claim_holders.py",
    "actions/test_tasks.py",
    "store/test_imi_compat.py",
    "actions/test_claim_presence.py",
    "store/test_claims_contended.py",
    "actions/test_claim_waiting.py",
    "store/test_leases.py",
)
_REMOVAL = (
    "actions/test_removal_steps.py",
    "actions/test_inspection.py",
    "actions/test_removal_verdict.py",
    "actions/test_removal_states.py",
    "actions/test_undo.py",
    "actions/test_removal_targets.py",
    "actions/test_removal_places.py",
    "actions/test_removal_races.py",
    "actions/test_removal_branches.py",
    "actions/test_git_locks.py",
    "actions/test_prune.py",
    "actions/test_recovery.py",
    "actions/test_removal_crash.py",
    "actions/test_removal_sync.py",
)
_TRASH = (
    "actions/test_trash.py",
    "actions/test_trash_exchanged.py",
    "actions/test_trash_unlisted.py",
    "actions/test_undo.py",
    "actions/test_removal_places.py",
    "actions/test_removal_states.py",
    "actions/test_note_forged.py",
)
_GIT = (
    "git/test_spawn.py",
    "git/test_runner.py",
    "git/test_option_injection.py",
    "git/test_safety.py",
    "test_programs.py",
    "git/test_canaries.py",
)
_CLAUDE = (
    "sources/agents/test_claude_reducer.py",
    "sources/agents/test_claude_format.py",
    "sources/agents/test_claude_records.py",
    "sources/agents/test_claude_replay.py",
    "sources/agents/test_claude_live.py",
    "sources/agents/test_claude_scenarios.py",
    "sources/agents/test_claude_tokens.py",
    "sources/agents/test_claude_processes.py",
    "sources/agents/test_claude_config_folder.py",
)
TESTS: dict[str, tuple[str, ...]] = {
    "store/claims.py": _CLAIMS,
    "store/claim_requests.py": _CLAIMS,
    "store/claim_queue.py": ("store/test_claim_queue.py", *_CLAIMS),
    "store/claim_history.py": ("actions/test_tasks.py", *_CLAIMS),
    "store/claim_holder.py": ("store/test_claim_holder.py", "actions/test_claim_holders.py", *_CLAIMS),
    "presence.py": (
        "store/test_presence_lock.py",
        "actions/test_claim_presence.py",
        "actions/test_claim.py",
        "actions/test_claim_automatic.py",
    ),
    "store/db.py": (
        "store/test_db_rules.py",
        "store/test_db.py",
        "store/test_registry_file.py",
        "store/test_registry_access.py",
        "store/test_full_disk.py",
        "store/test_kills.py",
        "store/test_followed_registry.py",
        "store/test_async_registry.py",
    ),
    "actions/removal/safe_removal.py": _REMOVAL,
    "actions/removal/inspection.py": _REMOVAL,
    "actions/removal/file_checks.py": _REMOVAL,
    "actions/removal/placement_checks.py": (
        "actions/test_removal_targets.py",
        "actions/test_removal_places.py",
        *_REMOVAL,
    ),
    "actions/removal/ignored_files.py": ("actions/test_ignored_files.py", *_REMOVAL),
    "actions/removal/submodule_checks.py": ("actions/test_removal_states.py",),
    "actions/removal/branch_deletion.py": ("actions/test_removal_branches.py", "actions/test_git_locks.py"),
    "actions/removal/trash_note.py": (
        "actions/test_trash_note.py",
        "actions/test_removal_durable.py",
        "actions/test_trash_unlisted.py",
        *_TRASH,
        "actions/test_removal_crash.py",
    ),
    "actions/removal/note_check.py": (
        "actions/test_note_check.py",
        "actions/test_note_forged.py",
        "actions/test_trash_unlisted.py",
    ),
    "actions/removal/trash_folder.py": (
        "actions/test_trash_folder.py",
        "actions/test_removal_durable.py",
        *_TRASH,
        *_REMOVAL,
    ),
    "actions/removal/restore.py": (
        "actions/test_restore.py",
        "actions/test_undo.py",
        *_TRASH,
        "actions/test_recovery.py",
        "actions/test_removal_crash.py",
    ),
    "actions/removal/purge.py": (
        "actions/test_purge.py",
        "actions/test_removal_durable.py",
        *_TRASH,
        "actions/test_recovery.py",
        "actions/test_removal_crash.py",
        "actions/test_stage.py",
    ),
    "git/git_admin_dir.py": (
        "git/test_git_admin_dir.py",
        "actions/test_trash_folder.py",
        "actions/test_removal_durable.py",
        *_REMOVAL,
    ),
    "git/spawn.py": ("git/test_spawn.py",),
    "git/environment.py": _GIT,
    "git/safety.py": ("git/test_safety.py", *_GIT),
    "git/config_scan.py": ("git/test_safety.py", *_GIT),
    "git/runner.py": ("git/test_runner.py", *_GIT),
    "programs.py": ("test_programs.py",),
    "git/git_status.py": ("git/test_git_status.py", "git/test_dirty.py", "actions/test_removal_verdict.py"),
    "model/text.py": ("model/test_text.py",),
    "model/agent_text.py": ("model/test_agent_text.py",),
    "model/truth.py": ("model/test_truth_rules.py", "model/test_truth.py", "model/test_truth_hooks.py"),
    "sources/agents/claude/reducer.py": _CLAUDE,
    "sources/agents/claude/records.py": _CLAUDE,
    "sources/agents/sighting_merge.py": (
        "sources/agents/test_sighting_merge.py",
        "sources/agents/test_agents_source.py",
    ),
    "sources/files/change_coalescer.py": (
        "sources/test_change_coalescer.py",
        "sources/test_changes_source.py",
        "sources/test_watchers.py",
    ),
    "ui/command_conditions.py": ("ui/test_command_conditions.py", "ui/test_commands.py"),
    "ui/dialogs/action_dialog.py": ("ui/test_action_dialog.py", "ui/test_dialogs.py"),
    "ui/dialogs/action_run.py": ("ui/test_action_run.py", "ui/test_action_dialog.py"),
    "ui/dialogs/form.py": ("ui/test_form.py", "ui/test_action_dialog.py"),
}


def list_test_files(module: str) -> list[str]:
    """The test files of a module, each once."""
    return [f"tests/{name}" for name in dict.fromkeys(TESTS[module])]
