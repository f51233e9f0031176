"""aider: one prompt without a terminal, or its own screen, of which its chat history reports.

Without a terminal its questions cannot be answered, so there it runs only in a mode in which it asks nothing: every question is
answered yes, but those about commands no (`runs/aider_bridge.py`). Its screen takes no first prompt without ending after it, so
`runs/aider_screen.py` types it, and reads its questions from the terminal; dtach, which cannot be read, holds none. aider edits
the files of its chat without asking; it asks before it runs a command, makes a file or takes a file into its chat.
"""

from __future__ import annotations

from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.model.text import safe
from imi_monitor.runs import launch_folder, ways
from imi_monitor.runs.provider import Launch, Message, Spec, bridged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.launch_folder import LaunchFolder
    from imi_monitor.sources.agents.stream_reader import StreamReader

_MODES = {ASK: (), EDITS: (), PLAN: ("--chat-mode", "ask")}
_PROMPT, CHAT = "message.txt", "chat.md"  # of the launch folder
_COMMANDS = ("/", "!")  # with which aider's own commands begin, and those of a shell
_OWN = (
    "--no-auto-commits",
    "--no-dirty-commits",
    "--no-gitignore",
    "--disable-playwright",
    "--no-check-update",
    "--no-analytics",
    "--no-show-release-notes",
    "--no-show-model-warnings",
)
_WITHOUT_TERMINAL = (
    "--yes-always",
    "--no-suggest-shell-commands",  # they would be answered no
    "--no-detect-urls",  # it would fetch each page that the prompt names
    "--no-fancy-input",
    "--no-pretty",
    "--no-stream",
)
_LONGEST_TYPED = 10_000  # bytes; a command of tmux takes 16 KB
_DANGEROUS = ("--test", "--auto-test", "--test-cmd", "--lint-cmd", "--load", "--yes-always")  # they run commands


def make() -> AiderProvider:
    return AiderProvider()


class AiderProvider:
    name = "aider"
    install = "python -m pip install aider-chat"
    has_window = True
    reports_cost = False  # only of models whose price it knows
    interrupt_keys = ("C-c",)
    types_ahead = False
    ends_with_turn = True

    def login_question(self) -> tuple[str, ...]:
        return ()  # it has no login; its history says that it has no key

    def start(self, spec: Spec) -> Launch:
        if spec.mode == ASK:
            raise UsageError(
                "aider asks only on its own screen: start it with --edits or --plan, or --way window in tmux or Zellij",
                code="bad-option",
            )
        folder = launch_folder.folder_of(spec.session)
        own = [*_command(spec, folder), *_WITHOUT_TERMINAL, "--message-file", folder.file(_PROMPT)]
        argv, made = bridged("aider", spec, folder.path, argv=own)
        return Launch(argv, None, dangerous=_dangerous(spec), files={**made, _PROMPT: _message(spec.prompt)})

    def has_session(self, session: str) -> bool:
        return False  # a chat ends with its prompt; the next one begins with what the checkpoint says

    def window(self, spec: Spec, folder: str) -> Launch:
        if ways.find_holder() is None:
            raise UsageError(
                "aider's window needs tmux or Zellij, which say what it asks: start imi in one, or use --way task",
                code="no-holder",
            )
        prompt = _message(spec.prompt)
        if len(prompt.encode(errors="surrogateescape")) > _LONGEST_TYPED:
            raise UsageError(
                "the prompt is too long to be typed into aider's window: write it to a file and name the file,"
                " or use --way task",
                code="long-text",
            )
        own = _command(spec, launch_folder.folder_of(spec.session))
        argv, made = bridged("aider-screen", spec, folder, argv=own, prompt=prompt)
        return Launch(argv, None, dangerous=_dangerous(spec), files=made)

    def reader(self, way: str) -> StreamReader:
        from imi_monitor.sources.agents.aider.stream import AiderStream

        return AiderStream()

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        return None  # it reads its prompt from a file

    def answer(self, record: Message, text: str) -> Message:
        from imi_monitor.runs import aider_screen

        asked = record.get("ask")
        if not isinstance(asked, dict):
            raise Refused("aider asks nothing without a terminal", code="no-question")
        choices = tuple(str(one) for one in asked.get("choices") or ())
        wanted = next((one for one in choices if text.lower() in (one.lower(), one[0].lower())), None)
        if wanted is None:
            shown = ", ".join(f"{number} ({safe(one, 60)})" for number, one in enumerate(choices, 1))
            raise UsageError(f"aider takes yes, no, or the number of one of its choices: {shown}", code="bad-answer")
        return {"keys": aider_screen.keys(wanted, choices), "dialog": str(asked.get("text"))}

    def say(self, read: StreamReader, text: str) -> list[Message]:
        raise Refused(
            "aider takes one prompt: when it has ended, `imi resume ID --prompt TEXT` goes on", code="not-ready"
        )

    def interrupt(self, read: StreamReader) -> list[Message]:
        return [] if read.turn_over or read.state is None else [{"interrupt": True}]

    def asked_on(self, screen: str) -> str | None:
        from imi_monitor.runs import aider_screen

        found = aider_screen.read(screen)
        return found.text if found.kind == aider_screen.ASKS else None

    def finish(self) -> list[Message]:
        return []  # it ends by itself


def _command(spec: Spec, folder: LaunchFolder) -> list[str]:
    """The command line of both ways, which are recorded in the launch folder."""
    if spec.walled:
        raise UsageError("imi cannot keep aider inside of a wall: start it without --sandbox", code="bad-option")
    files = ("--input-history-file", folder.file("inputs"), "--chat-history-file", folder.file(CHAT))
    model = ("--model", spec.model) if spec.model else ()
    return [spec.program, *_OWN, *files, *_MODES[spec.mode], *model]


def _dangerous(spec: Spec) -> tuple[str, ...]:
    return tuple(word for word in spec.flags if word.partition("=")[0] in _DANGEROUS)


def _message(prompt: str) -> str:
    """A prompt that aider takes for a command, which may be one of a shell, gets a line above."""
    return f"Prompt:\n{prompt}" if prompt.startswith(_COMMANDS) else prompt
