"""From words to an exit status: 0 done, 1 refused or failed, 2 a request that makes no sense, 130 interrupted."""

from __future__ import annotations

import sys

from imi_monitor.actions.context import Context
from imi_monitor.cli import args, out
from imi_monitor.model.errors import ImiError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.base import Action, Outcome


def main(argv: list[str] | None = None) -> int:
    """Run one command line. Nothing leaves here but an exit status: no traceback, whatever happens."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    try:
        status = _run(words)
        sys.stdout.flush()
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
    return _act(parsed, parsed.action)


def _act(parsed: args.Parsed, action: Action) -> int:
    as_json = parsed.flag("json")
    quiet = as_json or parsed.flag("quiet")

    def emit(text: str, data: dict[str, object]) -> None:
        if as_json:
            out.entry(data)
        else:
            out.line(text)
            sys.stdout.flush()

    context = Context(
        database=parsed.option("db"),
        repo=parsed.option("repo"),
        progress=(lambda _: None) if quiet else out.progress,
        emit=emit,
    )
    with context:
        result = action.run(context, parsed.request)
    out.end_progress()
    _show(action, result, as_json)
    return result.exit_status


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
    from imi_monitor.cli import home

    return home.show(parsed)


def _is_repository(word: str) -> bool:
    import os

    return os.path.isdir(word)


def _fail(error: ImiError, as_json: bool) -> int:
    out.end_progress()
    try:
        out.failure(error, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    return error.exit_status


def _pipe_closed() -> int:
    """The reader went away (`imi list | head`): that is its right, and nobody is there to be told."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


