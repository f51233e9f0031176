"""Runs one command line. Exit status: 0 done, 1 refused or failed, 2 a wrong request, 130 interrupted."""

from __future__ import annotations

import os
import sys

from imi_monitor.actions.context import Context
from imi_monitor.cli import argument_parser, output
from imi_monitor.model.errors import ImiError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.action import Action, Outcome


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit status. No exception leaves this function."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    try:
        status = _run(words)
        output.flush()
        return status
    except ImiError as error:
        return _fail(error, as_json)
    except KeyboardInterrupt:
        output.end_progress()
        output.note("imi: interrupted")
        return 130
    except output.ReaderGone:
        return 0
    except Exception as error:  # noqa: BLE001  the user gets a sentence, the log the traceback
        from imi_monitor.cli import crash_log

        failure = crash_log.recorded(error)
        failure.exit_status = _failure_status(words)
        return _fail(failure, as_json)


def _failure_status(words: list[str]) -> int:
    """The exit status when imi itself fails: 2 for a verb that answers with 0 and 1."""
    action = argument_parser.parse(words).action
    return 2 if action is not None and action.answers_by_status else 1


def _run(words: list[str]) -> int:
    parsed = argument_parser.parse(words)
    _set_colours(parsed)
    _set_redis(parsed.option("redis"))
    if parsed.flag("version") or parsed.words[:1] == ["version"]:
        return _finish(_version(), parsed)
    if parsed.action is None:
        return _without_verb(parsed)
    if parsed.flag("help"):
        from imi_monitor.cli import help_pages

        return _finish(help_pages.of_action(parsed.action, parsed.request.verb), parsed)
    if parsed.action.front_end:
        from imi_monitor.cli import front_end

        return _finish(front_end.show(parsed.action, parsed), parsed)
    if parsed.request.verb == "status" and parsed.request.flag("watch") and not parsed.request.flag("line"):
        from imi_monitor.cli import snapshot_stream

        return snapshot_stream.run(parsed)
    forwarded = _pass_through_wall(parsed, parsed.action) if "IMI_WALL" in os.environ else None
    return _run_action(parsed, parsed.action) if forwarded is None else _finish(forwarded, parsed)


def _pass_through_wall(parsed: argument_parser.ParsedCommandLine, action: Action) -> Outcome | None:
    from imi_monitor.cli import walled_tools

    return walled_tools.run(action, parsed.request)


def _version() -> Outcome:
    from imi_monitor import __version__
    from imi_monitor.actions.action import Outcome

    return Outcome([f"imi {__version__}"], {"version": __version__})


def _set_colours(parsed: argument_parser.ParsedCommandLine) -> None:
    """Decide about colours, also for a dashboard, which reads NO_COLOR."""
    when = parsed.option("color")
    if when is None and (not sys.stdout.isatty() or (parsed.action is not None and parsed.action.hot)):
        return  # hot verbs print a line or two
    import os

    from imi_monitor.cli import terminal_style

    output.colours = terminal_style.is_used(when) and not parsed.flag("json")
    if when == "never":
        os.environ["NO_COLOR"] = "1"


def _set_redis(url: str | None) -> None:
    """Use the Redis of the command line, for this process and those that it starts."""
    if url is None:
        return
    import os

    from imi_monitor.links import redis_url

    if redis_url.has_password(url):
        raise UsageError(
            "--redis takes no password, because every user of this machine can read command lines:"
            " set IMI_REDIS_URL, or servers.redis_url in the config file",
            code="password-in-arguments",
        )
    os.environ["IMI_REDIS_URL"] = url


def _run_action(parsed: argument_parser.ParsedCommandLine, action: Action) -> int:
    as_json = parsed.flag("json")
    quiet = as_json or parsed.flag("quiet")

    def emit(text: str | None, data: dict[str, object]) -> None:
        if as_json:
            output.entry(data)
        elif text is not None:
            for each in text.split("\n"):
                output.line(each)
            output.flush()

    def choose(title: str, lines: list[str]) -> int | None:
        return None if as_json else choose_on_terminal(title, lines)

    context = Context(
        database=parsed.option("db"),
        repo=parsed.option("repo"),
        progress=output.progress if sys.stderr.isatty() and not quiet else None,
        notify=lambda text: output.note(f"imi: {text}"),
        emit=emit,
        choose=choose,
    )
    context.process_ends = action.hot
    context.reads_only = action.reads_only
    context.prints_json = as_json
    context.tolerated_settings = action.tolerates
    if action.streams:
        context.cancelled = output.reader_gone
    recovered: list[str] = []

    def act() -> Outcome:
        if action.recovers_for(parsed.request) and context.is_registry_writable:
            recovered.extend(_recover(context))
        return action.run(context, parsed.request)

    with context:
        result = act() if action.needs_registry else _act_without_registry(context, act, again=not action.changes)
    output.end_progress()
    result.warnings.extend(context.notes)
    if not quiet and parsed.request.verb != "config":
        _note_old_names(context)
    if recovered and as_json:
        result.data["settled"] = list(recovered)
    elif recovered:
        for text in recovered:
            output.note(f"imi: {text}")
    if action.streams and as_json:
        return result.exit_status  # its entries are the output
    return _finish(result, parsed)


def _note_old_names(context: Context) -> None:
    for settings in context.settings_read():
        if settings.old_names:
            from imi_monitor.cli import old_names_notice

            old_names_notice.show(settings)


def _act_without_registry(context: Context, act: Callable[[], Outcome], *, again: bool) -> Outcome:
    from imi_monitor.actions import without_registry

    return without_registry.run(context, act, again=again)


def _recover(context: Context) -> list[str]:
    """Complete or revert the operations that a crash interrupted; return a line for each.

    Also the registry's upkeep: its ballast, when a full disk consumed it, and expired history and sessions, and items
    whose work is over.
    """
    from imi_monitor.actions import recovery
    from imi_monitor.store import db, item_moves, retention

    recovered = recovery.recover(context)
    db.leave_trace(context.connection)
    if retention.has_many_events(context.connection):
        _prepare_deletion(context)
    retention.trim_if_due(context.connection, _keep_days(context))
    if db.read(context.connection, item_moves.list_idle, 1):
        from imi_monitor.store import item_settlement

        db.transact(context.connection, item_settlement.settle)
    return recovered


def _prepare_deletion(context: Context) -> None:
    """Let the sinks have old events before they are deleted; commands that need a setting report what is wrong with it."""
    from contextlib import suppress

    from imi_monitor.sinks import upkeep

    with suppress(UsageError):
        upkeep.prepare_deletion(context.connection, context.settings, context.database)


def _keep_days(context: Context) -> int | None:
    """The days that sessions are kept; None when the settings cannot be read: commands that need a setting report that."""
    try:
        return context.settings.number("sessions.keep_days")
    except UsageError:
        return None


def _finish(result: Outcome | int, parsed: argument_parser.ParsedCommandLine) -> int:
    """Print an outcome, if there is one; return the exit status."""
    if isinstance(result, int):
        return result
    output.end_progress()
    if result.path is not None:
        output.write_path_for_shell(result.path)
    try:
        output.outcome(result, as_json=parsed.flag("json"), print_lines=_line_printer(parsed.action))
        output.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the act is done, whatever happens to its message
        return _unprinted(error, result.exit_status, parsed.action)
    if result.screen is not None and not parsed.flag("json"):
        return _run_screen(*result.screen)
    return result.exit_status


def _run_screen(command: list[str], folder: str) -> int:
    import subprocess

    from imi_monitor import programs

    return subprocess.run(command, cwd=folder, env=programs.users_environment(), check=False).returncode


def _line_printer(action: Action | None) -> Callable[[list[str]], None]:
    """The function that prints an outcome's lines: through a pager on a terminal if the action changes nothing."""
    if (action is not None and (action.changes or action.hot)) or not sys.stdout.isatty():
        return output.lines
    from imi_monitor.cli import pager

    return pager.show


def _unprinted(error: BaseException, status: int, action: Action | None) -> int:
    """The exit status of an outcome that could not be printed: the act is done, so it stays that of the act.

    It is 1 where printing was all there was to do.
    """
    if isinstance(error, output.ReaderGone):
        return status
    printing_is_all = action is None or not (action.changes or action.answers_by_status)
    if isinstance(error, KeyboardInterrupt):
        output.discard(sys.stdout)
        return 130 if printing_is_all else status
    output.note(f"imi: {_sentence(error)}")
    return status or int(printing_is_all)


def _sentence(error: BaseException) -> str:
    if isinstance(error, ImiError):
        return error.sentence
    try:
        from imi_monitor.cli import crash_log

        return crash_log.recorded(error).sentence
    except Exception:  # noqa: BLE001  the system refuses even that: the act must still be reported as done
        return "the output cannot be written"


def _without_verb(parsed: argument_parser.ParsedCommandLine) -> int:
    """Plain `imi`, `imi --help`, `imi help VERB`, or an unknown verb."""
    from imi_monitor.cli import help_pages

    if parsed.words[:1] == ["help"] or parsed.flag("help"):
        return _finish(help_pages.of_words(parsed.words[1:]), parsed)
    if parsed.words and not _is_repository(parsed.words[0]):
        raise UsageError(help_pages.unknown_verb(parsed.words[0]), code="unknown-verb")
    from imi_monitor.cli import dashboard_command

    return _finish(dashboard_command.show_default(parsed), parsed)


def _is_repository(word: str) -> bool:
    import os

    return os.path.isdir(word)


def _fail(error: ImiError, as_json: bool) -> int:
    output.end_progress()
    try:
        output.failure(error, as_json=as_json and error.code != output.UNWRITTEN)
        output.flush()
    except output.ReaderGone:
        pass  # the exit status reports the failure
    except ImiError as unwritten:
        output.note(f"imi: {unwritten.sentence}")
    return error.exit_status


def choose_on_terminal(title: str, lines: list[str]) -> int | None:
    """The index of the line that the user chooses; None without a terminal or a choice. It prints on stderr."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    output.end_progress()
    digits = len(str(len(lines)))
    for number, text in enumerate(lines, 1):
        output.note(f"{number:>{digits}}  {text}")
    output.note(f"{title} (1-{len(lines)}, or nothing to cancel):")
    answer = sys.stdin.readline().strip()
    if answer.isascii() and answer.isdecimal() and 1 <= int(answer[:9]) <= len(lines):
        return int(answer) - 1
    return None
