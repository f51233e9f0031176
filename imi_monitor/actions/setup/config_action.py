"""`imi config` and `imi paths`: settings with their origins, and the files that imi uses. Neither needs the registry."""

from __future__ import annotations

import os

from imi_monitor import config, paths
from imi_monitor.actions.action import Action, Argument, Outcome
from imi_monitor.fast import json_writer
from imi_monitor.model.errors import UsageError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context


class ConfigAction(Action):
    words = ("config",)
    group = "Setup"
    label = "Settings"
    examples = (("imi config ui.theme", "one setting, its value and where it comes from"),)
    help = "show every setting, its value and its origin"
    more = """
    The last one wins of: default, ~/.config/iMi/config.toml, the cluster's .iMi/config.toml, environment, --db.
    Older names of settings, those of iMi among them, are still read; they are listed last with what they are now.
    """
    arguments = (Argument("key", "show this setting only, such as trash.keep_days", optional=True),)
    changes = False
    recovers = False  # it must work without a registry

    def refuse(self, context: Context, request: Request) -> None:
        key = _key(request)
        if key is not None and key not in config.KEYS:
            raise UsageError(f"unknown setting {safe(key)!r}{config.nearest(key)}", code="unknown-setting")

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        settings = context.read_settings(context.find_repository())
        rows = _rows(context, settings)
        key = _key(request)
        if key is not None:
            row = next(row for row in rows if row["key"] == key)
            return Outcome([f"{_shown(row['value'])}  ({row['origin']}; {row['help']})"], row)
        width = max(len(str(row["key"])) for row in rows)
        problems = [error.sentence for _, error in settings.problems]
        lines = [f"{row['key']:<{width}}  {_shown(row['value'])}  ({row['origin']})" for row in rows]
        commands = settings.repositories()
        lines += [f"[repositories.{safe(name)}] {_shown(table)}" for name, table in commands.items()]
        lines += [f"{name} {says}  ({place})" for name, says, place in settings.old_names]
        old = [{"name": name, "says": says, "place": place} for name, says, place in settings.old_names]
        data: dict[str, object] = {"settings": rows, "old_names": old, "repositories": commands, "problems": problems}
        return Outcome(lines, data, warnings=problems, exit_status=1 if problems else 0)


class PathsAction(Action):
    words = ("paths",)
    group = "Setup"
    label = "Paths"
    help = "show where the registry, the configuration and the logs are"
    changes = False
    recovers = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        found = {
            "registry": context.database,
            "config": paths.config_file(),
            "state": paths.state_dir(),
            "errors": paths.error_log(),
            "styles": paths.styles_dir(),
        }
        lines = [
            f"{name:<8}  {safe(path)}{'' if os.path.lexists(path) else '  (does not exist yet)'}"
            for name, path in found.items()
        ]
        return Outcome(lines, {"paths": dict(found)})


ACTIONS = (ConfigAction(), PathsAction())


def _key(request: Request) -> str | None:
    key = request.text("key")
    return config.OLD_NAMES.get(key, key) if key is not None else None


def _rows(context: Context, settings: config.Settings) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for key, value, origin in settings.items():
        if key == "registry.path":
            value, origin = _registry(context, value, origin)
        shown = redact(value) if isinstance(value, str) else value
        if key == "notify.webhook" and value:  # the address alone is enough to post to it
            shown = "/".join((*str(value).split("/")[:3], "***"))
        rows.append({"key": key, "value": shown, "origin": safe(origin), "help": config.KEYS[key][2]})
    return rows


def _registry(context: Context, value: object, origin: str) -> tuple[object, str]:
    """Path and origin of the registry: `--db` wins over the settings."""
    return (value, origin) if context.database == config.database_path(None) else (context.database, "--db")


def _shown(value: object) -> str:
    return safe(value) if isinstance(value, str) and value else json_writer.dumps(value)
