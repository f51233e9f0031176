"""`imi config` and `imi paths`: each value and its origin, also without a registry and outside of repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor import config
from tests.helpers import Repo, imi, tree_hash


def write(text: str) -> str:
    target = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return str(target)


def test_config_lists_every_setting_with_its_origin(tmp_path: Path) -> None:
    where = write("[trash]\nkeep_days = 7\n[repositories.app]\npost_create = 'make setup'\n")
    before = tree_hash(tmp_path)
    ran = imi("config", env={"IMI_AGENT_ID": "claude-1"})
    assert ran.code == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert len(lines) == len(config.KEYS) + 1
    words = {line.split()[0]: line for line in lines}
    assert words["trash.keep_days"].endswith(f"  7  ({where})")
    assert words["claims.agent"].endswith("  claude-1  ($IMI_AGENT_ID)")
    assert words["git.remote_name"].endswith("  origin  (default)")
    assert lines[-1] == '[repositories.app] {"post_create": ["make setup"]}'
    assert tree_hash(tmp_path) == before


def test_config_shows_one_setting(tmp_path: Path) -> None:
    ran = imi("config", "trash.keep_days")
    assert ran.out == "30  (default; how many days a removed worktree can be restored)\n"
    data = imi("config", "trash.keep_days", "--json").data
    assert (data["key"], data["value"], data["origin"]) == ("trash.keep_days", 30, "default")


def test_older_names_are_listed_and_lead_to_the_setting() -> None:
    where = write("[git_settings]\nremote_name = 'upstream'\nprune_on_fetch = true\n")
    ran = imi("config")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-2:] == [
        f"git_settings.remote_name is now git.remote_name  ({where} line 2)",
        f"git_settings.prune_on_fetch has no effect: remote branches are never pruned  ({where} line 3)",
    ]
    assert imi("config", "git_settings.remote_name", "--json").data["key"] == "git.remote_name"
    assert imi("config", "--json").data["old_names"][0] == {
        "name": "git_settings.remote_name",
        "says": "is now git.remote_name",
        "place": f"{where} line 2",
    }
    assert "older names of settings: git_settings.remote_name is now git.remote_name" in imi("doctor").out


def test_a_wrong_value_is_refused_by_the_name_in_the_file(repo: Repo) -> None:
    where = write("[git_settings]\nauto_fetch = 3\n")
    ran = imi("status", cwd=repo.path)
    assert (ran.code, ran.err) == (2, f"imi: setting git_settings.auto_fetch in {where} line 2 must be true or false\n")


def test_an_unknown_setting_is_refused_by_name() -> None:
    ran = imi("config", "trash.keep_day")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "imi: unknown setting 'trash.keep_day': did you mean 'trash.keep_days'?\n"
    assert imi("config", "trash.keep_day", "--json").json["code"] == "unknown-setting"


def test_config_shows_the_registry_in_use(tmp_path: Path) -> None:
    assert imi("config", "registry.path").out.startswith('""  (default; ')
    assert imi("config", "registry.path", "--db", "x.db").out.startswith(f"{tmp_path / 'x.db'}  (--db; ")
    env = {"IMI_DATABASE_PATH": str(tmp_path / "e.db")}
    assert imi("config", "registry.path", env=env).out.startswith(f"{tmp_path / 'e.db'}  ($IMI_DATABASE_PATH; ")
    assert not (tmp_path / "x.db").exists() and not (tmp_path / "e.db").exists()


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_config_never_shows_a_password(form: tuple[str, ...]) -> None:  # T4
    ran = imi("config", *form, env={"IMI_REDIS_URL": "redis://me:hunter2@host:6379/0"})
    assert "hunter2" not in ran.out + ran.err
    assert "redis://me:***@host:6379/0" in ran.out


def test_a_clusters_settings_apply_inside_it(cluster: Repo) -> None:
    extra = cluster.path.parent / ".iMi" / "config.toml"
    extra.write_text("[git]\nremote_name = 'upstream'\n")
    ran = imi("config", "git.remote_name", cwd=cluster.path)
    assert ran.out.startswith(f"upstream  ({extra}; ")
    assert imi("config", "git.remote_name").out.startswith("origin  (default; ")


def test_a_wrong_setting_is_named_with_its_file() -> None:
    where = write("[trash]\nkeep_days = 'long'\n")
    ran = imi("config")
    assert (ran.code, ran.err) == (1, f"warning: setting trash.keep_days in {where} line 2 must be a number\n")


def test_paths_lists_the_files_of_imi(tmp_path: Path) -> None:
    before = tree_hash(tmp_path)
    found = imi("paths", "--json").data["paths"]
    home = os.environ["HOME"]
    assert found["registry"] == f"{home}/.config/iMi/iMi.db"
    assert found["config"] == f"{home}/.config/iMi/config.toml"
    assert found["errors"] == f"{home}/.local/state/imi/errors.log"
    assert os.path.isdir(found["styles"])
    ran = imi("paths", "--db", "other.db")
    assert f"registry  {tmp_path / 'other.db'}  (does not exist yet)" in ran.out.splitlines()
    assert tree_hash(tmp_path) == before
