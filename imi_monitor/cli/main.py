"""From words to an exit status: 0 done, 1 refused or failed, 2 a request that makes no sense, 130 interrupted."""

from __future__ import annotations

import sys

from imi_monitor.actions.context import Context
from imi_monitor.cli import args, fronts, out
from imi_monitor.model.errors import ImiError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Outcome


def main(argv: list[str] | None = None) -> int:
    """Run one command line. Nothing leaves here but an exit status: no traceback, whatever happens."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    try:
        status = _run(words)
        out.flush()
        return status
    except ImiError as error:
        return _fail(error, as_json)
    except KeyboardInterrupt:
        out.end_progress()
        out.note("imi: interrupted")
        return 130
    except BrokenPipeError:
        return _pipe_closed()
    except Exception as error:  # noqa: BLE001  the last line of defence: a person gets a sentence, the log the rest
        from imi_monitor.cli import crash

        return _fail(crash.recorded(error), as_json)


def _run(words: list[str]) -> int:
    parsed = args.parse(words)
    if parsed.flag("version"):
        from imi_monitor import __version__

        out.line(f"imi {__version__}")
        return 0
    if parsed.action is None:
        return _without_verb(parsed)
    if parsed.flag("help"):
        from imi_monitor.cli import help as pages

        return pages.show_action(parsed.action, parsed.request.verb)
    front = fronts.front_of(parsed.request.verb, parsed.request)
    if front is not None:
        return fronts.show(front, parsed)
    return _act(parsed, parsed.action)


def _act(parsed: args.Parsed, action: Action) -> int:
    as_json = parsed.flag("json")
    quiet = as_json or parsed.flag("quiet")

    def emit(text: str, data: dict[str, object]) -> None:
        if as_json:
            out.entry(data)
        else:
            for each in text.split("\n"):
                out.line(each)
            out.flush()

    def choose(title: str, lines: list[str]) -> int | None:
        from imi_monitor.cli import choice

        return None if as_json else choice.ask(title, lines)

    context = Context(
        database=parsed.option("db"),
        repo=parsed.option("repo"),
        progress=out.progress if sys.stderr.isatty() and not quiet else None,
        emit=emit,
        choose=choose,
    )
    context.process_ends = action.hot
    if action.streams:
        context.cancelled = out.reader_gone
    with context:
        settled = _settle(context) if action.recovers and not action.hot else []
        result = action.run(context, parsed.request)
    out.end_progress()
    if settled and as_json:
        result.data["settled"] = list(settled)
    elif settled:
        for text in settled:
            out.note(f"imi: {text}")
    _show(action, result, as_json)
    return result.exit_status


def _settle(context: Context) -> list[str]:
    """Finish or take back what a crash left half done, before anything else is done on top of it.

    And this is the moment for the registry's upkeep: its ballast, if a full disk has cost it, and its oldest history.
    """
    from imi_monitor.actions import recovery
    from imi_monitor.store import db, retention

    settled = recovery.recover(context)
    db.restore_ballast(context.database)
    if retention.is_history_due(context.connection):
        db.transact(context.connection, retention.trim_history)
    keep_days = _keep_days(context)
    if keep_days is not None and retention.is_sessions_due(context.connection, keep_days):
        db.transact(context.connection, retention.trim_sessions, keep_days)
    return settled


def _keep_days(context: Context) -> int | None:
    """For how long sessions are kept; None when the settings cannot be read, which is for those to say who need one."""
    try:
        return context.settings.number("sessions.keep_days")
    except UsageError:
        return None


def _show(action: Action, result: Outcome, as_json: bool) -> None:
    if result.path is not None:
        out.tell_shell(result.path)
    if not (action.streams and as_json):
        out.outcome(result, as_json=as_json)


def _without_verb(parsed: args.Parsed) -> int:
    """Plain `imi`, `imi --help`, `imi help VERB`, or a word that is no verb."""
    from imi_monitor.cli import help as pages

    if parsed.words[:1] == ["help"]:
        return pages.show(parsed.words[1:])
    if parsed.flag("help"):
        return pages.show([])
    if parsed.words and not _is_repository(parsed.words[0]):
        raise UsageError(pages.unknown_verb(parsed.words[0]), code="unknown-verb")
    from imi_monitor.cli import dashboard_command

    return dashboard_command.show_default(parsed)


def _is_repository(word: str) -> bool:
    import os

    return os.path.isdir(word)


def _fail(error: ImiError, as_json: bool) -> int:
    out.end_progress()
    try:
        out.failure(error, as_json=as_json and error.code != out.UNWRITTEN)
        out.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except ImiError as unwritten:
        out.note(f"imi: {unwritten.sentence}")
    return error.exit_status


def _pipe_closed() -> int:
    """The reader went away (`imi list | head`): that is its right, and nobody is there to be told."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
