"""Settings and their origins: defaults < config files < environment < flags.

Older names and those of iMi are still read, so that one config file serves both programs; `imi config` lists them. An
unknown key is refused by name, so that a typo is not ignored.
"""

from __future__ import annotations

import os
import stat

from imi_monitor import paths
from imi_monitor.fast import plain_toml
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.model.own_command import OwnCommand

WATCHED_FOLDERS = ("watch.folders", "watch.runs", "watch.services", "watch.contained")

# key: (default, environment variable, description). The type of the default is the type of the value.
KEYS: dict[str, tuple[object, str, str]] = {
    "registry.path": ("", "IMI_DATABASE_PATH", "the registry's file; empty: ~/.config/iMi/iMi.db"),
    "sync.enabled": (True, "", "link shared files into new worktrees"),
    "sync.user_path": ("sync/user", "", "a folder of shared files, relative to the cluster"),
    "sync.local_path": ("sync/local", "", "a folder of shared files, relative to the cluster"),
    "sync.former_links": ([], "", "names that iMi linked into worktrees; `imi sync` may replace these links"),
    "git.default_branch": ("", "", "the trunk's branch; empty: as the repository says"),
    "git.remote_name": ("origin", "", "the remote that new branches start from"),
    "git.auto_fetch": (True, "", "fetch the trunk before branching from it"),
    "git.update": ("merge", "", "how a branch is brought up to the trunk: merge or rebase"),
    "git.fetch_timeout_seconds": (20, "", "how long a fetch may take before the local trunk is used"),
    "worktrees.branch_style": ("slash", "", "slash: feat/NAME; dash: feat-NAME"),
    "worktrees.path_template": (
        "{repo}.worktrees/{name}",
        "",
        "the place of a new worktree of a repository outside a cluster, relative to the repository's parent folder",
    ),
    "claims.agent": ("", "IMI_AGENT_ID", "the agent that claims without --agent; empty: human:$USER"),
    "claims.ttl_seconds": (0, "", "after how many seconds without a heartbeat a claim is shown as stale; 0: never"),
    "claims.auto": (False, "", "a live agent claims the unclaimed worktree it works in until its session ends"),
    "agents.track_activity": (True, "", "read the session files of agents"),
    "agents.programs": (
        {},
        "",
        'more agent programs: [agents.programs] with lines such as mybot = "mybot mybot-cli": commands, or parts of paths',
    ),
    "sessions.keep_days": (30, "", "how many days sessions are kept; 0: they are not"),
    "runs.at_once": (
        0,
        "",
        "how many started agents may work at once; more wait in the queue; 0: by the memory of the machine",
    ),
    "runs.budget": (
        "",
        "",
        "interrupt a run that has cost so many dollars, where its money is known: 5.00; empty: never",
    ),
    "runs.minutes": (0, "", "interrupt a run that has worked for so many minutes; 0: never"),
    "runs.day_budget": ("", "", "interrupt all runs of a day that cost so many dollars together; empty: never"),
    "runs.day_minutes": (0, "", "interrupt all runs of a day that have worked for so many minutes together; 0: never"),
    "runs.prices": (
        {},
        "",
        'prices of models whose programs report no money: [runs.prices] with lines such as gpt-5 = "1.25 10 0.125": dollars'
        " for a million tokens of input, output and cached input",
    ),
    "runs.idle_minutes": (10, "", "after how many minutes without work a started Claude is asked to end; 0: never"),
    "runs.checkpoint_every": (20, "", "after how many messages a checkpoint of a run is stored; 0: not by messages"),
    "runs.home": ("", "", "the folder that holds the run folders; empty: beside the worktrees, or the data folder"),
    "watch.folders": (
        [],
        "",
        "workspaces of other programs to show, of any kind that imi knows, beside those of `imi workspace watch`",
    ),
    "watch.runs": ([], "", "the same, for folders of universal_agent"),
    "watch.services": ([], "", "the same, for folders of be-agents-service and Big 3"),
    "watch.contained": ([], "", "the same, for shared folders of Denker's agents"),
    "runs.keep_days": (
        30,
        "",
        "how many days the whole output of an ended run is kept as it is; then it is packed into the run folder; 0: always",
    ),
    "runs.tools": (True, "", "offer imi's tools (`imi mcp`) to the agents that imi starts"),
    "runs.sandbox": ("off", "", "the wall of started agents without --sandbox: write, strict or off"),
    "runs.readable": ([], "", "more folders that agents behind a strict wall may read"),
    "contained.path": (
        "",
        "",
        "the folder that holds the contained workspaces; empty: beside Denker's data, else /tmp/denker_workspace",
    ),
    "contained.deliver_to": ([], "", "folders into which agents in a contained workspace may deliver without asking"),
    "collisions.tell": (
        True,
        "",
        "agents with imi's hooks are told that another worktree has changed the file they are about to edit",
    ),
    "collisions.block": (False, "", "such an edit is refused by the hook, not only told"),
    "runs.archive_days": (
        0,
        "",
        "after how many days the folder of an ended run is packed into SAVED_REPORTS/archive; imi runs restore brings it back;"
        " 0: only by imi runs archive",
    ),
    "logs.keep_days": (
        30,
        "",
        "after how many days the job log of an ended run is compressed; it is never deleted; 0: never",
    ),
    "reviews.refresh_seconds": (
        60,
        "",
        "the shortest time between two questions to a forge (gh, glab) about its pull requests; 0: only when asked",
    ),
    "trash.keep_days": (30, "", "how many days a removed worktree can be restored"),
    "ui.theme": ("", "IMI_THEME", "the dashboard's colours; empty: by the terminal"),
    "ui.ascii": (False, "", "dashboard without Unicode, as with --ascii"),
    "ui.keymap": ({}, "", 'keys of the dashboard: [ui.keymap] with lines such as remove = "X"'),
    "ui.refresh_interval_ms": (1000, "", "the shortest time between two repaints of the dashboard"),
    "ui.remember": (True, "", "save order, filter and layout of the dashboard for each repository"),
    "ui.tab_layout": (
        "",
        "",
        "what a worktree's new tab has besides a shell: a layout of Zellij (name or file), or a file of tmux commands",
    ),
    "ui.tab_states": (True, "", "show the state of a worktree's agent in the name of its Zellij tab or tmux window"),
    "notify.when": ("unfocused", "", "when the dashboard notifies you: unfocused, always or never"),
    "notify.asking": (True, "", "notify when an agent asks"),
    "notify.intruder": (True, "", "notify when an agent works where another holds the claim"),
    "notify.failed": (True, "", "notify when an agent fails: an error, a limit"),
    "notify.dead": (True, "", "notify when an agent dies while it works"),
    "notify.finished": (True, "", "notify when an agent has finished its turn"),
    "notify.claim_lost": (True, "", "notify when a claim is taken over, or its holder dies"),
    "notify.collision": (True, "", "notify when two worktrees conflict"),
    "notify.bell": (True, "", "ring the terminal's bell"),
    "notify.desktop": ("auto", "", "show desktop notifications: auto, osc9, osc777 or off"),
    "notify.title": (True, "", "show it in the window's title until the terminal has the focus"),
    "notify.command": (
        "",
        "",
        "a shell command to run: $IMI_NOTIFY_TEXT, $IMI_NOTIFY_KIND, a line for each alert on stdin",
    ),
    "notify.webhook": ("", "", "an address to post to: ntfy, Slack, or a server that takes JSON"),
    "notify.webhook_shape": ("auto", "", "the form of the message: auto (by the address), ntfy, slack or json"),
    "history.enabled": (True, "", "keep everything that happened, searchable, in history.db beside the registry"),
    "tasks.queue": ("imi.tasks", "", "the queue of servers.amqp_url from which tasks come onto the board; empty: none"),
    "tasks.start": ("ask", "", "ask: a task from another program waits on the board; auto: an agent is started on it"),
    "context.commands": (True, "", "keep the command lines, redacted, of the panes of a terminal"),
    "context.prefix": ("", "", "what stands in front of the keys session:ID and intent:ID in the team's Redis"),
    "team.name": ("default", "IMI_TEAM", "homes with the same team name on one Redis see each other"),
    "team.share": (
        "names",
        "",
        "what leaves this machine: counts (no file names), names (of files, tools and commits), titles (of sessions too),"
        " prompts (the same, and prompts to PostgreSQL)",
    ),
    "team.lease_seconds": (
        60,
        "",
        "how long a claim of an agent on another machine lasts on this one without a sign of that machine",
    ),
    "team.insecure": (False, "", "allow a Redis on another machine without TLS"),
    "servers.redis_url": (
        "",
        "IMI_REDIS_URL",
        "a team's Redis or Valkey: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://; empty: none",
    ),
    "servers.amqp_url": ("", "IMI_AMQP_URL", "a RabbitMQ that gets every event: amqp://, amqps://; empty: none"),
    "servers.amqp_exchange": ("bloodbank.events.v1", "", "the topic exchange for events; it is made if it is missing"),
    "servers.amqp_prefix": ("", "", "what stands in front of an event's kind in its routing key, such as imi."),
    "servers.amqp_envelope": ("cloudevents", "", "the form of a message: cloudevents (1.0), or bloodbank (1.0.0)"),
    "servers.postgres_url": (
        "",
        "IMI_POSTGRES_URL",
        "a PostgreSQL that archives every event, after `imi archive --init`: postgresql://; empty: none",
    ),
}
# Older names, iMi's among them: still read, a new name in the same file wins over them.
OLD_NAMES = {
    "IMI_DATABASE_PATH": "registry.path",
    "symlink_files": "sync.former_links",
    "sync_settings.enabled": "sync.enabled",
    "sync_settings.user_sync_path": "sync.user_path",
    "sync_settings.local_sync_path": "sync.local_path",
    "git_settings.default_branch": "git.default_branch",
    "git_settings.remote_name": "git.remote_name",
    "git_settings.auto_fetch": "git.auto_fetch",
    "git_settings.fetch_timeout_seconds": "git.fetch_timeout_seconds",
    "monitoring_settings.refresh_interval_ms": "ui.refresh_interval_ms",
    "monitoring_settings.track_agent_activity": "agents.track_activity",
    "auto_claim": "claims.auto",
}
# iMi's settings without an effect here, with the reason: one file serves both programs.
NO_EFFECT = {
    "IMI_SYSTEM_PATHS": "imi lists the repositories of its registry",
    "IMI_SYSTEM_PATH": "imi lists the repositories of its registry",
    "git_settings.prune_on_fetch": "remote branches are never pruned",
    "monitoring_settings.enabled": "the dashboard always monitors",
    "monitoring_settings.watch_file_changes": "files are always watched",
    "workspace_settings.root_path": "imi finds worktrees by git",
    "workspace_settings.entity_id": "the acting agent is claims.agent",
}
# [repositories.NAME]: commands of one repository, run only if it is trusted.
REPOSITORY_KEYS = ("post_create", "pre_remove")
HOST_KEYS = ("ssh",)  # [hosts.LABEL]: the destination that `ssh` takes to reach another home of the team
_TABLES = ("repositories", "commands", "hosts")  # tables whose keys are names, not settings; only in the user's file
# Not allowed in a cluster's file, which agents can write: who claims, where data is sent, how long sessions are kept.
USER_KEYS = (
    "runs.sandbox",
    "runs.readable",
    "contained.path",
    "contained.deliver_to",
    "collisions.tell",
    "collisions.block",
    "ui.keymap",
    "ui.tab_layout",
    "claims.agent",
    "claims.auto",
    "agents.programs",
    "runs.at_once",
    "runs.budget",
    "runs.minutes",
    "runs.day_budget",
    "runs.day_minutes",
    "runs.prices",
    "runs.idle_minutes",
    "runs.home",
    "runs.keep_days",
    "runs.archive_days",
    "logs.keep_days",
    "sessions.keep_days",
    "notify.command",
    "notify.webhook",
    "notify.webhook_shape",
    "history.enabled",
    "tasks.queue",
    "tasks.start",
    "context.commands",
    "context.prefix",
    "team.name",
    "team.share",
    "team.lease_seconds",
    "team.insecure",
    "servers.redis_url",
    "servers.amqp_url",
    "servers.amqp_exchange",
    "servers.amqp_prefix",
    "servers.amqp_envelope",
    "servers.postgres_url",
)
CHOICES = {
    "runs.sandbox": ("off", "write", "strict"),
    "worktrees.branch_style": ("slash", "dash"),
    "git.update": ("merge", "rebase"),
    "notify.when": ("unfocused", "always", "never"),
    "notify.desktop": ("auto", "osc9", "osc777", "off"),
    "notify.webhook_shape": ("auto", "ntfy", "slack", "json"),
    "tasks.start": ("ask", "auto"),
    "team.share": ("counts", "names", "titles", "prompts"),
    "servers.amqp_envelope": ("cloudevents", "bloodbank"),
}
_MINIMUM = {"trash.keep_days": 1, "git.fetch_timeout_seconds": 1, "team.lease_seconds": 3}  # others: 0
_MONEY = ("runs.budget", "runs.day_budget", "runs.prices")
_REGISTRY = "registry.path"
_WEBHOOK = "notify.webhook"
_TEMPLATE = "worktrees.path_template"
_MOST_BYTES = 1 << 20


class Settings:
    """All values with their origins."""

    __slots__ = ("_hosts", "_origins", "_own_commands", "_repositories", "_values", "old_names", "problems")

    def __init__(self) -> None:
        self._values: dict[str, object] = {key: default for key, (default, _, _) in KEYS.items()}
        self._origins = dict.fromkeys(KEYS, "default")
        self._repositories: dict[str, dict[str, list[str]]] = {}
        self._own_commands: dict[str, OwnCommand] = {}
        self._hosts: dict[str, str] = {}
        self.old_names: list[tuple[str, str, str]] = []  # (name, what it is now, file and line)
        self.problems: list[tuple[str, UsageError]] = []  # (key, what is wrong with it); no key: the whole file

    def check(self, tolerated: tuple[str, ...] = ()) -> None:
        """Raise the first problem, unless it is in one of the tolerated sections (`ui`)."""
        for key, problem in self.problems:
            if not key or key.partition(".")[0] not in tolerated:
                raise problem

    def text(self, key: str) -> str:
        return str(self._values[key])

    def number(self, key: str) -> int:
        value = self._values[key]
        return value if isinstance(value, int) else 0

    def flag(self, key: str) -> bool:
        return self._values[key] is True

    def texts(self, key: str) -> list[str]:
        value = self._values[key]
        return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []

    def table(self, key: str) -> dict[str, str]:
        value = self._values[key]
        return dict(value) if isinstance(value, dict) else {}

    def items(self) -> list[tuple[str, object, str]]:
        """(key, value, origin) in the order of KEYS."""
        return [(key, self._values[key], self._origins[key]) for key in KEYS]

    def commands(self, repository: str, moment: str) -> list[str]:
        """The shell commands of `[repositories.NAME]` for `post_create` or `pre_remove`."""
        return self._repositories.get(repository, {}).get(moment, [])

    def repositories(self) -> dict[str, dict[str, list[str]]]:
        """Repository -> `post_create` or `pre_remove` -> commands."""
        return self._repositories

    def own_commands(self) -> dict[str, OwnCommand]:
        """The commands of `[commands]` by name."""
        return self._own_commands

    def ssh_destination(self, label: str) -> str:
        """The destination that `ssh` takes to reach another home; empty if none is set."""
        return self._hosts.get(label.casefold(), "")

    def set_table(self, key: str, value: object, origin: str) -> None:
        """Take `commands.NAME`, `hosts.LABEL` or the whole of `repositories`."""
        section, dot, name = key.partition(".")
        if not (isinstance(value, dict) if section == "repositories" else dot):
            raise UsageError(f"{section} in {safe(origin)} must be tables: [{section}.NAME]", code="bad-setting")
        if section == "commands":
            from imi_monitor.model import own_command

            self._own_commands[name] = own_command.parse(name, value, origin)
        elif section == "hosts":
            self._set_host(name, value, origin)
        elif isinstance(value, dict):
            for name, table in value.items():
                self.set_repository(name, table, origin)

    def _set_host(self, label: str, table: object, origin: str) -> None:
        """A destination that `ssh` would read as an option is refused."""
        if not isinstance(table, dict) or set(table) != set(HOST_KEYS):
            raise UsageError(
                f'[hosts.{safe(label)}] in {safe(origin)} takes one setting: ssh = "user@host"', code="bad-setting"
            )
        wanted = table["ssh"]
        if not isinstance(wanted, str) or not wanted or wanted.startswith("-") or not wanted.isprintable():
            raise UsageError(
                f'ssh of [hosts.{safe(label)}] in {safe(origin)} must be a destination such as "user@host"',
                code="bad-setting",
            )
        self._hosts[label.casefold()] = wanted

    def set(self, key: str, value: object, origin: str, *, written: str = "") -> None:
        """Take a value; `written` is the key's name at its origin, if that is an older one."""
        if key not in KEYS:
            raise UsageError(f"unknown setting {safe(key)!r} in {safe(origin)}{nearest(key)}", code="unknown-setting")
        problem = _problem(key, value)
        if problem:
            raise UsageError(f"setting {written or key} in {safe(origin)} must be {problem}", code="bad-setting")
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
    """The user's settings; raises what is wrong with them. `extra_file`: see `read`."""
    settings = read(extra_file)
    settings.check()
    return settings


def read(extra_file: str | None = None) -> Settings:
    """The user's settings and their problems; `extra_file` is the cluster's `.iMi/config.toml`, without commands."""
    settings = Settings()
    _read_file(settings, paths.config_file(), trusted=True)
    if extra_file:
        _read_file(settings, extra_file, trusted=False)
    _read_environment(settings)
    return settings


def database_path(flag: str | None) -> str:
    """The path of the registry, without parsing the configuration where possible: hot verbs need nothing else of it."""
    if flag:
        return os.path.abspath(flag)
    from_environment = os.environ.get("IMI_DATABASE_PATH")
    if from_environment:
        return os.path.abspath(os.path.expanduser(from_environment))
    content = _content(paths.config_file())
    configured = None if b"registry" in content else plain_toml.top_level_text(content, "IMI_DATABASE_PATH")
    if configured is None:
        settings = read()
        others = (key for key in (*KEYS, *OLD_NAMES) if OLD_NAMES.get(key, key) != _REGISTRY)
        settings.check(tuple(key.partition(".")[0] for key in others))
        configured = settings.text(_REGISTRY)
    return os.path.abspath(os.path.expanduser(configured)) if configured else paths.default_database()


def _content(path: str) -> bytes:
    """A config file's bytes; empty if there is no file."""
    try:
        # a named pipe would block every command
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UsageError(f"the config file {safe(path)} is not a regular file", code="bad-config")
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise UsageError(f"cannot read the config file {safe(path)}: {error.strerror}", code="bad-config") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(
            f"the config file {safe(path)} is larger than 1 MB: check that it is the right file", code="bad-config"
        )
    return content


def _read_file(settings: Settings, path: str, *, trusted: bool) -> None:
    try:
        content = _content(path)
    except UsageError as error:
        settings.problems.append(("", error))
        return
    if not content.strip():
        return
    try:
        text = content.decode("utf-8")
        tree = _parse(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are both ValueErrors
        sentence = f"{safe(path)} is not valid TOML: {safe(str(error))}"
        settings.problems.append(("", UsageError(sentence, code="bad-config")))
        return
    flat = dict(_flat(tree))
    for key, value in flat.items():
        try:
            now = _current_name(settings, key, flat, text, path)
            if now:
                _set(settings, now, value, path, trusted, written=key)
        except UsageError as error:
            error.sentence = error.sentence.replace(safe(path), _place(text, key, path), 1)
            settings.problems.append((key, error))


def _current_name(settings: Settings, key: str, flat: dict[str, object], text: str, path: str) -> str:
    """The name of a setting now; empty if it has no effect. Older names are recorded in the settings."""
    now = "" if key in NO_EFFECT else OLD_NAMES.get(key, key)
    if now == key:
        return key
    twice = now in flat
    says = f"is now {now}{', which this file sets too' if twice else ''}" if now else f"has no effect: {NO_EFFECT[key]}"
    settings.old_names.append((key, says, _place(text, key, path)))
    return "" if twice else now


def _place(text: str, key: str, path: str) -> str:
    number = _line_number(text, key)
    return safe(path) if number is None else f"{safe(path)} line {number}"


def _parse(text: str) -> dict[str, object]:
    plain = plain_toml.parse(text)
    if plain is not None:
        return plain
    import tomllib

    return tomllib.loads(text)


def _flat(tree: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield `section.key` and its value; `repositories` stays a table."""
    for key, value in tree.items():
        if isinstance(value, dict) and key != "repositories":
            yield from ((f"{key}.{inner}", item) for inner, item in value.items())
        else:
            yield key, value


def _line_number(text: str, key: str) -> int | None:
    """Return the number of the line that sets the key; None where a simple search does not find it."""
    section, _, name = key.rpartition(".")
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            inside = stripped.strip("[]").strip()
        spelled = stripped.partition("=")[0].strip().strip("\"'")
        if (inside == section and spelled == name) or (not inside and spelled == key) or (inside == key != ""):
            return number
    return None


def _set(settings: Settings, key: str, value: object, path: str, trusted: bool, *, written: str) -> None:
    section = key.partition(".")[0]
    if section in _TABLES:
        if not trusted:
            raise UsageError(
                f"[{section}] is not allowed in {safe(path)}: commands belong in {safe(paths.config_file())}",
                code="bad-setting",
            )
        settings.set_table(key, value, path)
        return
    if not trusted and key in USER_KEYS:
        raise UsageError(
            f"{key} is not allowed in {safe(path)}: it belongs in {safe(paths.config_file())}", code="bad-setting"
        )
    if trusted or key != _REGISTRY:  # the registry is chosen before the cluster is known
        settings.set(key, value, path, written=written)


def _read_environment(settings: Settings) -> None:
    for key, (_, variable, _) in KEYS.items():
        value = os.environ.get(variable) if variable else None
        try:
            if value:
                settings.set(key, value, f"${variable}")
        except UsageError as error:
            settings.problems.append((key, error))


def _problem(key: str, value: object) -> str | None:
    """Return what the value must be, if it is not."""
    wanted = type(KEYS[key][0])
    if type(value) is not wanted or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
        return _TYPE_NAMES[wanted]
    if isinstance(value, dict) and not all(isinstance(item, str) for item in value.values()):
        return _TYPE_NAMES[dict]
    if key == "agents.programs" and isinstance(value, dict) and not all(map(_is_program, value.items())):
        return 'a table of texts such as mybot = "mybot mybot-cli", with names of letters and digits'
    if key in _MONEY:
        return _money_problem(key, value)
    if key in CHOICES and value not in CHOICES[key]:
        return f"one of {', '.join(CHOICES[key])}"
    if key == _WEBHOOK and value and not str(value).startswith(("https://", "http://")):
        return "an address that begins with https:// or http://"
    if key == "team.name" and not _is_team_name(str(value)):
        return "a name of letters, digits and hyphens"
    if type(value) is int and value < _MINIMUM.get(key, 0):
        return f"at least {_MINIMUM.get(key, 0)}"
    return _template_problem(value) if key == _TEMPLATE and isinstance(value, str) else None


def _money_problem(key: str, value: object) -> str | None:
    from imi_monitor.model import price

    if isinstance(value, dict):
        wrong = any(price.parse(one) is None for one in value.values())
        return 'a table of texts such as gpt-5 = "1.25 10 0.125"' if wrong else None
    return "an amount of dollars such as 5.00" if value and price.amount(str(value)) is None else None


def _is_program(entry: tuple[str, str]) -> bool:
    """A name such as an agent's, and at least one word; one letter would be part of too many paths."""
    name, words = entry
    plain = name.replace("-", "").isalnum() and name.isascii() and name.islower() and not name[0].isdigit()
    return plain and bool(words.split()) and all(len(word.strip("/")) > 1 for word in words.split())


def _is_team_name(name: str) -> bool:
    return len(name) <= 40 and name.isascii() and name.replace("-", "").isalnum()


def _template_problem(template: str) -> str | None:
    rest = template.replace("{repo}", "").replace("{name}", "")
    good = "{name}" in template and "{" not in rest and "}" not in rest and "\0" not in rest
    return None if good else "a path with {name} in it, and maybe {repo}"


def nearest(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, KEYS, 1)
    return f": did you mean {near[0]!r}?" if near else ": `imi config` lists all"
