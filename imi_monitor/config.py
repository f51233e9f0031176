"""Settings: defaults < config file < environment < flags. Each value knows where it came from.

iMi's own keys are honoured where they still mean something and accepted where they do not, so that one config file
serves both programs. A key nobody knows is refused by name: a typo must not silently change nothing.
"""

from __future__ import annotations

import os
import stat

from imi_monitor import paths
from imi_monitor.fast import toml_scan
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

# key: (default, environment variable, what it is). The type of the default is the type of the value.
KEYS: dict[str, tuple[object, str, str]] = {
    "IMI_DATABASE_PATH": ("", "IMI_DATABASE_PATH", "the registry; empty means ~/.config/iMi/iMi.db"),
    "IMI_SYSTEM_PATHS": ([], "", "folders that hold repositories (iMi's key)"),
    "IMI_SYSTEM_PATH": ("", "", "the same as one string separated by ';' (iMi's old key)"),
    "symlink_files": ([], "", "iMi's list of shared files; here every file below sync/ is shared"),
    "sync_settings.enabled": (True, "", "link shared configuration into new worktrees"),
    "sync_settings.user_sync_path": ("sync/user", "", "a folder of shared files, relative to the cluster"),
    "sync_settings.local_sync_path": ("sync/local", "", "a folder of shared files, relative to the cluster"),
    "git_settings.default_branch": ("", "", "the trunk's branch; empty asks the repository"),
    "git_settings.remote_name": ("origin", "", "the remote that new branches start from"),
    "git_settings.auto_fetch": (True, "", "fetch the trunk before branching from it"),
    "git_settings.prune_on_fetch": (False, "", "accepted for iMi; remote branches are never pruned here"),
    "git_settings.fetch_timeout_seconds": (20, "", "how long a fetch may take before the local trunk is used"),
    "monitoring_settings.enabled": (True, "", "accepted for iMi"),
    "monitoring_settings.refresh_interval_ms": (1000, "", "how often the dashboard repaints at most"),
    "monitoring_settings.watch_file_changes": (True, "", "watch the worktrees' files"),
    "monitoring_settings.track_agent_activity": (True, "", "watch the agents' own records"),
    "workspace_settings.root_path": ("", "IMI_WORKSPACE_ROOT", "accepted for iMi"),
    "workspace_settings.entity_id": ("", "IMI_ENTITY_ID", "accepted for iMi"),
    "worktrees.branch_style": ("slash", "", "slash: feat/NAME; dash: feat-NAME"),
    "worktrees.path_template": (
        "{repo}.worktrees/{name}",
        "",
        "where worktrees of a repository outside a cluster go, beside the repository",
    ),
    "claims.agent": ("", "IMI_AGENT_ID", "who claims when --agent is not given; empty means human:$USER"),
    "claims.ttl_seconds": (0, "", "after how long a silent claim is shown as stale; 0 is never"),
    "claims.auto": (False, "", "a live agent claims its free worktree and gives it back at its end (also: auto_claim)"),
    "sessions.keep_days": (30, "", "how long what agents did is kept; 0 keeps nothing"),
    "trash.keep_days": (30, "", "how long removed worktrees can be brought back"),
    "ui.theme": ("", "IMI_THEME", "the dashboard's colours; empty chooses by the terminal"),
    "ui.ascii": (False, "", "the dashboard without Unicode, as with --ascii"),
    "ui.keymap": ({}, "", 'other keys for the dashboard: [ui.keymap] with lines such as remove = "X"'),
    "ui.remember": (True, "", "remember sort, filter and layout of the dashboard, per repository"),
    "notify.when": ("unfocused", "", "when the dashboard calls you: unfocused, always or never"),
    "notify.asking": (True, "", "call when an agent asks"),
    "notify.intruder": (True, "", "call when an agent works where another holds the claim"),
    "notify.failed": (True, "", "call when an agent fails: an error, a limit"),
    "notify.dead": (True, "", "call when an agent dies at work"),
    "notify.finished": (True, "", "call when an agent is done"),
    "notify.claim_lost": (True, "", "call when a claim is taken over, or its holder dies"),
    "notify.collision": (True, "", "call when two worktrees come into conflict"),
    "notify.bell": (True, "", "ring the terminal's bell"),
    "notify.desktop": ("auto", "", "show it on the desktop: auto, osc9, osc777 or off"),
    "notify.title": (True, "", "say it in the window's title until you are back"),
    "servers.redis_url": ("", "IMI_REDIS_URL", "a team's Redis; empty means none"),
    "servers.amqp_url": ("", "IMI_AMQP_URL", "a team's RabbitMQ; empty means none"),
    "servers.postgres_url": ("", "IMI_POSTGRES_URL", "a team's PostgreSQL; empty means none"),
}
# [repositories.NAME]: commands of one repository, run only when it is trusted.
REPOSITORY_KEYS = ("post_create", "pre_remove")
# A cluster's own file may not say who somebody is, nor where things are sent: it lies where agents write.
# And it must not let an agent make what it did be forgotten.
USER_KEYS = (
    "ui.keymap",
    "claims.agent",
    "claims.auto",
    "sessions.keep_days",
    "servers.redis_url",
    "servers.amqp_url",
    "servers.postgres_url",
)
_ALIASES = {"auto_claim": "claims.auto"}
_CHOICES = {
    "worktrees.branch_style": ("slash", "dash"),
    "notify.when": ("unfocused", "always", "never"),
    "notify.desktop": ("auto", "osc9", "osc777", "off"),
}
_LEAST = {"trash.keep_days": 1, "git_settings.fetch_timeout_seconds": 1}  # of the others: 0
_TEMPLATE = "worktrees.path_template"
_MOST_BYTES = 1 << 20


class Settings:
    """All values, and for each the place it came from."""

    __slots__ = ("_origins", "_repositories", "_values")

    def __init__(self) -> None:
        self._values: dict[str, object] = {key: default for key, (default, _, _) in KEYS.items()}
        self._origins = dict.fromkeys(KEYS, "default")
        self._repositories: dict[str, dict[str, list[str]]] = {}

    def text(self, key: str) -> str:
        return str(self._values[key])

    def number(self, key: str) -> int:
        value = self._values[key]
        return value if isinstance(value, int) else 0

    def flag(self, key: str) -> bool:
        return self._values[key] is True

    def table(self, key: str) -> dict[str, str]:
        value = self._values[key]
        return dict(value) if isinstance(value, dict) else {}

    def items(self) -> list[tuple[str, object, str]]:
        """(key, value, where it came from) in the order of KEYS."""
        return [(key, self._values[key], self._origins[key]) for key in KEYS]

    def commands(self, repository: str, moment: str) -> list[str]:
        """The shell commands of `[repositories.NAME]` for `post_create` or `pre_remove`."""
        return self._repositories.get(repository, {}).get(moment, [])

    def repositories(self) -> dict[str, dict[str, list[str]]]:
        """Repository -> moment -> commands, as they stand in the config file."""
        return self._repositories

    def set(self, key: str, value: object, origin: str) -> None:
        if key not in KEYS:
            raise UsageError(f"unknown setting {safe(key)!r} in {safe(origin)}{nearest(key)}", code="unknown-setting")
        problem = _problem(key, value)
        if problem:
            raise UsageError(f"setting {key} in {safe(origin)} must be {problem}", code="bad-setting")
        self._values[key] = value
        self._origins[key] = origin

    def set_repository(self, name: str, table: object, origin: str) -> None:
        if not isinstance(table, dict):
            raise UsageError(f"[repositories.{safe(name)}] in {safe(origin)} must be a table", code="bad-setting")
        commands: dict[str, list[str]] = {}
        for key, value in table.items():
            if key not in REPOSITORY_KEYS:
                raise UsageError(
                    f"unknown setting 'repositories.{safe(name)}.{safe(key)}' in {safe(origin)}", code="unknown-setting"
                )
            lines = [value] if isinstance(value, str) else value
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                raise UsageError(
                    f"repositories.{safe(name)}.{key} in {safe(origin)} must be a command or a list of commands",
                    code="bad-setting",
                )
            commands[key] = lines
        self._repositories[name] = commands


_TYPE_NAMES: dict[type, str] = {
    str: "a text",
    int: "a number",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table of texts",
}


def load(extra_file: str | None = None) -> Settings:
    """The user's settings; `extra_file` is the cluster's own `.iMi/config.toml`, which may not name commands."""
    settings = Settings()
    _read_file(settings, paths.config_file(), trusted=True)
    if extra_file:
        _read_file(settings, extra_file, trusted=False)
    _read_environment(settings)
    return settings


def database_path(flag: str | None) -> str:
    """Where the registry is, without reading the whole configuration: the hot commands ask only this."""
    if flag:
        return os.path.abspath(flag)
    from_environment = os.environ.get("IMI_DATABASE_PATH")
    if from_environment:
        return os.path.abspath(os.path.expanduser(from_environment))
    content = _content(paths.config_file())
    configured = toml_scan.top_level_text(content, "IMI_DATABASE_PATH")
    if configured is None:
        configured = load().text("IMI_DATABASE_PATH")
    return os.path.abspath(os.path.expanduser(configured)) if configured else paths.default_database()


def _content(path: str) -> bytes:
    """A config file's bytes; none when there is no file."""
    try:
        # a named pipe would make every command wait for ever
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UsageError(f"the config file {safe(path)} is no regular file", code="bad-config")
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise UsageError(f"cannot read the config file {safe(path)}: {error.strerror}", code="bad-config") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"the config file {safe(path)} is larger than 1 MB: is it the right one?", code="bad-config")
    return content


def _read_file(settings: Settings, path: str, *, trusted: bool) -> None:
    content = _content(path)
    if not content.strip():
        return
    import tomllib

    try:
        tree = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are both ValueErrors
        raise UsageError(f"{safe(path)} is not valid TOML: {safe(str(error))}", code="bad-config") from error
    for key, value in tree.items():
        if key == "repositories":
            _set_repositories(settings, value, path, trusted)
        elif isinstance(value, dict):
            for inner, item in value.items():
                _set(settings, f"{key}.{inner}", item, path, trusted)
        else:
            _set(settings, key, value, path, trusted)


def _set(settings: Settings, key: str, value: object, path: str, trusted: bool) -> None:
    key = _ALIASES.get(key, key)
    if not trusted and key in USER_KEYS:
        raise UsageError(
            f"{key} is not allowed in {safe(path)}: it belongs in {safe(paths.config_file())}", code="bad-setting"
        )
    if trusted or key != "IMI_DATABASE_PATH":  # iMi's file may name one; ours is chosen before a cluster is known
        settings.set(key, value, path)


def _set_repositories(settings: Settings, value: object, path: str, trusted: bool) -> None:
    if not trusted:
        raise UsageError(
            f"[repositories] is not allowed in {safe(path)}: commands belong in {safe(paths.config_file())}",
            code="bad-setting",
        )
    if not isinstance(value, dict):
        raise UsageError(f"repositories in {safe(path)} must be tables: [repositories.NAME]", code="bad-setting")
    for name, table in value.items():
        settings.set_repository(name, table, path)


def _read_environment(settings: Settings) -> None:
    for key, (_, variable, _) in KEYS.items():
        value = os.environ.get(variable) if variable else None
        if value:
            settings.set(key, value, f"${variable}")


def _problem(key: str, value: object) -> str | None:
    """What the value would have to be; None when it is."""
    wanted = type(KEYS[key][0])
    if type(value) is not wanted or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
        return _TYPE_NAMES[wanted]
    if isinstance(value, dict) and not all(isinstance(item, str) for item in value.values()):
        return _TYPE_NAMES[dict]
    if key in _CHOICES and value not in _CHOICES[key]:
        return f"one of {', '.join(_CHOICES[key])}"
    if type(value) is int and value < _LEAST.get(key, 0):
        return f"at least {_LEAST.get(key, 0)}"
    return _template_problem(value) if key == _TEMPLATE and isinstance(value, str) else None


def _template_problem(template: str) -> str | None:
    rest = template.replace("{repo}", "").replace("{name}", "")
    good = "{name}" in template and "{" not in rest and "}" not in rest and "\0" not in rest
    return None if good else "a path with {name} in it, and maybe {repo}"


def nearest(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, KEYS, 1)
    return f": did you mean {near[0]!r}?" if near else ": `imi config` lists all"
