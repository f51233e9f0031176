"""aider: one prompt without a terminal, of which its chat history reports (`runs/aider_bridge.py`).

Its screen takes no first prompt without ending after it, and without a terminal its questions cannot be answered. So it has
no window, and runs only in a mode in which it asks nothing: every question is answered yes, but those about commands no.
"""

from __future__ import annotations

from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run_modes import EDITS, PLAN
from imi_monitor.runs import launch_folder
from imi_monitor.runs.provider import Launch, Message, Spec, bridged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.stream_reader import StreamReader

_MODES = {EDITS: (), PLAN: ("--chat-mode", "ask")}
_PROMPT, CHAT = "message.txt", "chat.md"  # of the launch folder
_COMMANDS = ("/", "!")  # with which aider's own commands begin, and those of a shell
_OWN = (
    "--yes-always",
    "--no-auto-commits",
    "--no-dirty-commits",
    "--no-gitignore",
    "--no-suggest-shell-commands",  # they would be answered no
    "--no-detect-urls",  # it would fetch each page that the prompt names
    "--disable-playwright",
    "--no-check-update",
    "--no-analytics",
    "--no-show-release-notes",
    "--no-show-model-warnings",
    "--no-fancy-input",
    "--no-pretty",
    "--no-stream",
)
_DANGEROUS = ("--test", "--auto-test", "--test-cmd", "--lint-cmd", "--load")  # they run commands


def make() -> AiderProvider:
    return AiderProvider()


class AiderProvider:
    name = "aider"
    install = "python -m pip install aider-chat"
    has_window = False
    reports_cost = False  # only of models whose price it knows
    interrupt_presses = 1
    ends_with_turn = True

    def login_question(self) -> tuple[str, ...]:
        return ()  # it has no login; its history says that it has no key

    def start(self, spec: Spec) -> Launch:
        if spec.mode not in _MODES:
            raise UsageError(
                "aider asks only on its own screen, and imi runs it without: start it with --edits or --plan",
                code="bad-option",
            )
        if spec.walled:
            raise UsageError("imi cannot keep aider inside of a wall: start it without --sandbox", code="bad-option")
        folder = launch_folder.folder_of(spec.session)
        files = ("--message-file", folder.file(_PROMPT), "--input-history-file", folder.file("inputs"))
        model = ("--model", spec.model) if spec.model else ()
        own = [spec.program, *_OWN, *files, "--chat-history-file", folder.file(CHAT), *_MODES[spec.mode], *model]
        argv, made = bridged("aider", spec, folder.path, argv=own)
        dangerous = tuple(word for word in spec.flags if word.partition("=")[0] in _DANGEROUS)
        return Launch(argv, None, dangerous=dangerous, files={**made, _PROMPT: _message(spec.prompt)})

    def has_session(self, session: str) -> bool:
        return False  # a chat ends with its prompt; the next one begins with what the checkpoint says

    def window(self, spec: Spec, folder: str) -> Launch:
        raise UsageError(
            "imi cannot start aider in a window, whose screen takes no first prompt: use --way task", code="bad-option"
        )

    def reader(self, way: str) -> StreamReader:
        from imi_monitor.sources.agents.aider.stream import AiderStream

        return AiderStream()

    def greet(self, read: StreamReader, sent: list[Message], spec: Spec) -> list[Message] | None:
        return None  # it reads its prompt from a file

    def answer(self, record: Message, text: str) -> Message:
        raise Refused("aider asks nothing without a terminal", code="no-question")

    def say(self, read: StreamReader, text: str) -> list[Message]:
        raise Refused(
            "aider takes one prompt: when it has ended, `imi resume ID --prompt TEXT` goes on", code="not-ready"
        )

    def interrupt(self, read: StreamReader) -> list[Message]:
        return [] if read.turn_over or read.state is None else [{"interrupt": True}]

    def finish(self) -> list[Message]:
        return []  # it ends by itself


def _message(prompt: str) -> str:
    """A prompt that aider takes for a command, which may be one of a shell, gets a line above."""
    return f"Prompt:\n{prompt}" if prompt.startswith(_COMMANDS) else prompt
