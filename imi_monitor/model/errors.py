"""The exceptions that a person can meet, each with one sentence.

The sentence says what failed, which thing, and what to do next. `code` is for scripts and never changes;
`details` are more lines for people; `data` is for `--json`.
"""

from __future__ import annotations


class ImiError(Exception):
    """Something failed or was refused: exit status 1."""

    exit_status = 1

    def __init__(
        self,
        sentence: str,
        *,
        code: str = "failed",
        details: tuple[str, ...] | list[str] = (),
        data: dict[str, object] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.details = tuple(details)
        self.data = data


class Refused(ImiError):
    """The action is possible but must not run in the present state."""

    def __init__(
        self,
        sentence: str,
        *,
        code: str = "refused",
        details: tuple[str, ...] | list[str] = (),
        data: dict[str, object] | None = None,
    ) -> None:
        super().__init__(sentence, code=code, details=details, data=data)


class UsageError(ImiError):
    """The request is invalid: exit status 2, and nothing was tried."""

    exit_status = 2

    def __init__(self, sentence: str, *, code: str = "usage", details: tuple[str, ...] | list[str] = ()) -> None:
        super().__init__(sentence, code=code, details=details)


class GitError(ImiError):
    """git failed or refused; `stderr` holds its output, already safe to print."""

    def __init__(self, sentence: str, *, code: str = "git", stderr: str = "", returncode: int | None = None) -> None:
        super().__init__(sentence, code=code)
        self.stderr = stderr
        self.returncode = returncode


class RegistryError(ImiError):
    """The registry cannot be used (corrupt, locked, read-only, too new); every worktree then counts as claimed."""

    def __init__(self, sentence: str, *, code: str = "registry") -> None:
        super().__init__(sentence, code=code)
