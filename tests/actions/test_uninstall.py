"""`imi uninstall`: settings become what they were, byte for byte; what stays is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actions.test_hooks_action import MINE, settings_of
from tests.helpers import Repo, imi


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    for name in (".claude", ".codex", ".gemini", ".config/opencode"):
        (own_home / name).mkdir(parents=True)
    (own_home / ".claude/settings.json").write_text(MINE)
    (own_home / ".gemini/settings.json").write_text("{}")
    return own_home


def agents_files(home: Path) -> dict[str, bytes]:
    return {path: data for path, data in settings_of(home).items() if not path.startswith(".config/iMi/")}


def test_hooks_go_from_everywhere_and_the_rest_is_named(home: Path, repo: Repo, tmp_path: Path) -> None:
    tree = repo.worktree("feat-one")
    repo.worktree("feat-two")
    (tree.path / ".claude").mkdir()
    (tree.path / ".claude" / "settings.local.json").write_text(MINE)
    (home / ".zshrc").write_text('ls\neval "$(imi shell-init zsh)"\n')
    units = home / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "worktrees.service").write_text("[Service]\nExecStart=/usr/bin/imi watch\n")
    (units / "other.service").write_text("[Service]\nExecStart=/usr/bin/imitate\n")
    before = agents_files(home)
    assert imi("hooks", "install").code == 0
    assert imi("hooks", "install", "claude", "--scope", "project", cwd=tree.path).code == 0
    assert imi("remove", "two", cwd=repo.path).code == 0
    installed = agents_files(home)

    shown = imi("uninstall", "--dry-run", cwd=tmp_path)
    assert shown.code == 0 and "loses imi's hooks" in shown.out
    assert agents_files(home) == installed

    done = imi("uninstall", "--json", cwd=tmp_path).data  # from outside of the worktree
    assert sorted(one["agent"] for one in done["results"] if one["changed"]) == [
        "claude",
        "claude",
        "codex",
        "gemini",
        "opencode",
    ]
    assert agents_files(home) == before
    assert (tree.path / ".claude" / "settings.local.json").read_text() == MINE
    assert [(one["path"], one["line"]) for one in done["shell_lines"]] == [(str(home / ".zshrc"), 2)]
    assert done["units"] == [str(units / "worktrees.service")]
    kept = {one["what"]: one["path"] for one in done["kept"]}
    assert kept["registry"] == str(home / ".config" / "iMi" / "iMi.db")
    assert Path(kept["removed worktree"]).exists()
    assert imi("undo", cwd=repo.path).code == 0, "the trash is kept"
    again = imi("uninstall", cwd=tmp_path)
    assert again.code == 0 and again.out.startswith("no agent has imi's hooks or tools\n")


def test_a_settings_file_that_cannot_be_parsed_keeps_no_other_from_its_change(home: Path) -> None:
    assert imi("hooks", "install").code == 0
    (home / ".claude/settings.json").write_text('{"hooks": ')
    done = imi("uninstall")
    assert done.code == 1 and "warning: claude: " in done.err
    assert (home / ".claude/settings.json").read_text() == '{"hooks": '
    assert (home / ".gemini/settings.json").read_text() == "{}"
    assert not (home / ".codex/hooks.json").exists()


def test_it_works_with_a_damaged_registry(home: Path) -> None:
    assert imi("hooks", "install").code == 0
    registry = home / ".config" / "iMi" / "iMi.db"
    registry.parent.mkdir(parents=True, exist_ok=True)
    registry.write_bytes(b"garbage " * 1000)
    done = imi("uninstall")
    assert done.code == 0 and "the places of removed worktrees are unknown: the registry " in done.err
    assert (home / ".gemini/settings.json").read_text() == "{}" and registry.read_bytes() == b"garbage " * 1000
