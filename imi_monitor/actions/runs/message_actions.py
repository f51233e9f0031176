"""`imi answer`, `imi say`, `imi interrupt`: messages to a running agent."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, KeyChoice, Option, Outcome, Preview, WritingAids
from imi_monitor.actions.runs import budget_options, found_answer, prompt_aids, run_lookup
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.run import MOST_PROMPT, NO, YES
from imi_monitor.model.text import safe
from imi_monitor.runs import day_budget, launch_folder, providers, run_budget, window_input
from imi_monitor.runs.provider import WINDOW
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.runs.found_questions import FoundQuestion
    from imi_monitor.sources.agents.stream_reader import StreamReader
    from imi_monitor.store.runs import AskRow, RunRow

_TEXT = Argument("text", "the text; several words are joined with spaces", rest=True, multiline=True)
_QUESTIONS = ("AskUserQuestion", "Question")
_WORDS = {"y": YES, "yes": YES, "allow": YES, "n": NO, "no": NO, "deny": NO}


class AnswerAction(Action):
    words = ("answer",)
    group = "Agents"
    label = "Answer"
    help = "answer the question of an agent: yes, no, a choice or a text"
    more = (
        "A permission takes yes, no, or a text, which refuses it with that reason where the program takes one. A question"
        " takes one of its choices, its number, or any text. The answer goes to the question shown: with --ask ID to that"
        " one. An answer that comes too late is refused and never reaches another question. A Claude or opencode that imi"
        " did not start is answered, too, where `imi hooks install` has added the hook for it, and a Codex through its daemon;"
        " NAME is its session or worktree."
    )
    examples = (("imi answer 1b2c3d4e yes", "allow what the agent asks for"),)
    key = "W"
    requires = ("question",)
    dialog_options = ("text",)
    chosen_by_key = "text"
    arguments = (run_lookup.RUN, _TEXT)
    options = (Option("ask", "the id of the question, as `imi runs --json` shows it", value="ID"),)

    def preview(self, context: Context, request: Request) -> Preview:
        """The question; the answer is bound to it, whatever the agent asks meanwhile."""
        try:
            meant = _find_question(context, request)
        except ImiError as error:
            return Preview([], error)
        if not isinstance(meant, tuple):
            return Preview([found_answer.line(meant)], bound={"ask": meant.id}, choices=found_answer.choices(meant))
        row, asked = meant
        line = f"{safe(row.agent_id)} asks: {safe(asked.text or asked.tool, 500)}"
        return Preview([line], bound={"ask": asked.id}, choices=_answers(row, asked))

    def run(self, context: Context, request: Request) -> Outcome:
        text = _text(request)
        meant = _find_question(context, request)
        if not isinstance(meant, tuple):
            found_answer.give(meant, _WORDS.get(text.lower(), text))
            return Outcome(
                [f"answered: {found_answer.line(meant)} → {safe(text, 100)}"], {"ask": meant.id, "answer": text}
            )
        row, asked = meant
        folder, provider = launch_folder.folder_of(row.id), providers.by_name(row.program)
        record = folder.record_at(asked.position)
        if record is None:
            raise Refused("the question cannot be read from the agent's output", code="no-question")
        message = provider.answer(record, _WORDS.get(text.lower(), _choice(row, record, text)))
        by = context.agent(request)
        if not db.transact(context.connection, runs.answer_ask, row.seq, asked.id, text[:200], by):
            raise _too_late(asked)
        try:
            if row.way == WINDOW:
                window_input.answer(row, asked.id, message)
            else:
                folder.send([message])
        except (ImiError, OSError):
            db.transact(context.connection, runs.withdraw_answer, row.seq, asked.id)
            raise
        line = f"answered {row.short}: {safe(asked.text or asked.tool, 200)} → {safe(text, 100)}"
        return Outcome([line], {"run": row.id, "ask": asked.id, "answer": text})


class SayAction(Action):
    words = ("say",)
    group = "Agents"
    label = "Say"
    help = "send a started agent a follow-up prompt"
    more = (
        "The agent takes it up with its next step, or after its turn, as its program does with what a user types. A run whose"
        " budget is used up takes no prompt without --over-budget."
    )
    in_menus = True
    requires = ("run",)
    dialog_options = ("text", "over-budget")
    arguments = (run_lookup.RUN, _TEXT)
    options = (
        Option(
            "over-budget",
            "send it although the budget of the run is used up, and allow the same amount again",
            overrides=("over-budget",),
        ),
    )

    def writing_aids(self, context: Context, request: Request) -> WritingAids:
        return prompt_aids.of_run(context, request.text("name"))

    def consequences(self, context: Context, request: Request) -> list[str]:
        row = run_lookup.find_run(context, request.text("name"))
        run_lookup.refuse_over(row)
        if not request.flag("over-budget"):
            budget_options.refuse_run_used_up(context, row)
        return [f"sends it to {row.short} ({safe(row.agent_id)}), which is {row.shown_state}"]

    def run(self, context: Context, request: Request) -> Outcome:
        text = _text(request)
        row = run_lookup.find_run(context, request.text("name"))
        run_lookup.refuse_over(row)
        granted = run_budget.grant(context.connection, row) if request.flag("over-budget") else []
        budget_options.refuse_run_used_up(context, row)
        granted += day_budget.grant(context.connection, context.settings)
        say(context, row, text)
        return Outcome([*granted, f"sent to {row.short}: {safe(text, 200)}"], {"run": row.id, "text": text})


class InterruptAction(Action):
    words = ("interrupt",)
    group = "Agents"
    label = "Interrupt"
    help = "end the turn of a started agent and keep its session"
    more = (
        "`imi say` starts the next turn. An interrupt is the way to pause: a stopped process does not stop its tools."
    )
    in_menus = True
    requires = ("run",)
    arguments = (run_lookup.RUN,)

    def consequences(self, context: Context, request: Request) -> list[str]:
        row = run_lookup.find_run(context, request.text("name"))
        run_lookup.refuse_over(row)
        return [f"ends the turn of {row.short} ({safe(row.agent_id)}), which is {row.shown_state}"]

    def run(self, context: Context, request: Request) -> Outcome:
        row = run_lookup.find_run(context, request.text("name"))
        run_lookup.refuse_over(row)
        if row.way == WINDOW:
            window_input.interrupt(row, _read(row))
            return Outcome([f"interrupted {row.short} in its window"], {"run": row.id})
        provider = providers.by_name(row.program)
        messages = provider.interrupt(_read(row))
        if not messages:
            raise Refused(f"{row.short} has no turn to interrupt: it is {row.shown_state}", code="no-turn")
        launch_folder.folder_of(row.id).send(messages)
        next_turn = f"imi resume {row.short}" if provider.ends_with_turn else f"imi say {row.short} TEXT"
        return Outcome([f"interrupted {row.short}; `{next_turn}` goes on"], {"run": row.id})


def answers(context: Context, run: str, ask: str) -> tuple[KeyChoice, ...]:
    """The answers with keys to an open question, of a run or of an agent without one; none if it is closed."""
    try:
        found = found_answer.find(context, None, ask)
        if found is not None:
            return found_answer.choices(found)
        row = run_lookup.find_run(context, run)
        return _answers(row, _find_ask(context, row, ask))
    except ImiError:
        return ()


def _find_question(context: Context, request: Request) -> tuple[RunRow, AskRow] | FoundQuestion:
    """The question that is meant: of a run, else of an agent that imi did not start."""
    name, ident = request.text("name"), request.text("ask")
    found = found_answer.find(context, None, ident)
    if found is not None:
        return found
    try:
        row = run_lookup.find_run(context, name)
        run_lookup.refuse_over(row)
        return row, _find_ask(context, row, ident)
    except Refused as error:
        found = found_answer.find(context, name, None) if ident is None else None
        if found is None:
            if error.code == "no-run":
                found_answer.refuse_unanswered(context, name)
            raise
        return found


def _answers(row: RunRow, asked: AskRow) -> tuple[KeyChoice, ...]:
    """yes and no for a permission, the choices of a question."""
    if asked.tool not in _QUESTIONS:
        return KeyChoice("y", YES, "yes"), KeyChoice("n", NO, "no")
    record = launch_folder.folder_of(row.id).record_at(asked.position)
    named = _choices(row, record) if record is not None else ()
    return tuple(KeyChoice(str(number), one, one) for number, one in enumerate(named[:9], 1))


def say(context: Context, row: RunRow, text: str) -> None:
    """Send a follow-up prompt to the agent of an open run."""
    run_lookup.follow(context)
    run_lookup.refuse_over(row)
    budget_options.refuse_run_used_up(context, row)
    if row.way == WINDOW:
        window_input.say(row, _read(row), text)
    else:
        launch_folder.folder_of(row.id).send(providers.by_name(row.program).say(_read(row), text))


def _text(request: Request) -> str:
    text = (request.text("text") or " ".join(request.rest("text"))).strip()
    if not text:
        raise UsageError(f"imi {request.verb} needs a text", code="missing")
    if "\0" in text:
        raise UsageError("the text contains a NUL character, which no program takes", code="bad-text")
    if len(text.encode("utf-8", "surrogateescape")) > MOST_PROMPT:
        raise UsageError(f"the text has more than {MOST_PROMPT >> 10} KB: write it to a file and name the file")
    return text


def _find_ask(context: Context, row: RunRow, ident: str | None) -> AskRow:
    asks = db.read(context.connection, runs.list_asks, row.seq, only_open=False)
    if ident is None:
        still = [one for one in asks if one.is_open]
        if still:
            return still[0]
        raise Refused(f"{row.short} asks nothing: it is {row.shown_state}", code="no-question")
    found = next((one for one in asks if one.id == ident), None)
    if found is None:
        raise Refused(f"{row.short} has no question {safe(ident, 60)!r}", code="no-question")
    if not found.is_open:
        raise _too_late(found)
    return found


def _too_late(asked: AskRow) -> Refused:
    how = f"answered by {safe(asked.answered_by)}" if asked.answered_by else "closed"
    return Refused(f"too late: {safe(asked.text or asked.tool, 200)} is {how} already", code="too-late")


def _choice(row: RunRow, record: dict[str, object], text: str) -> str:
    """The choice that a number stands for; any other text as it is."""
    if not text.isdecimal():
        return text
    choices, number = _choices(row, record), int(text[:6])
    return choices[number - 1] if 0 < number <= len(choices) else text


def _choices(row: RunRow, record: dict[str, object]) -> tuple[str, ...]:
    reader = providers.by_name(row.program).reader(row.way)
    reader.add_record(record, 0, row.created_at)
    return next(iter(reader.asks.values())).choices if reader.asks else ()


def _read(row: RunRow) -> StreamReader:
    """The reader of the run's output, at its end."""
    folder, reader, position = launch_folder.folder_of(row.id), providers.by_name(row.program).reader(row.way), 0
    while data := folder.read_output(position, 1 << 20):
        end = data.rfind(b"\n") + 1 or len(data)
        for line in data[:end].splitlines(keepends=True):
            reader.add(line.rstrip(b"\n"), position, row.created_at)
            position += len(line)
        if end < len(data) and len(data) < 1 << 20:
            break
    return reader


ACTIONS = (AnswerAction(), SayAction(), InterruptAction())
