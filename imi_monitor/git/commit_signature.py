"""Signatures of commits, as the user's own git settings ask for them; those of a repository, which agents write, do not count."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import user_settings
from imi_monitor.model.errors import GitError

_TRUE = ("true", "yes", "on", "1", "")
_SETTINGS = (
    "gpg.format",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.x509.program",
    "user.signingKey",
)
_FAILURES = (
    "failed to sign",
    "gpg failed",
    "Couldn't load public key",
    "user.signingKey",
    "signature failed",
    "cannot run",
)


@dataclass(frozen=True, slots=True)
class CommitSignature:
    """The option for a commit and the settings of the program that signs it."""

    option: str
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def wanted(self) -> bool:
        return self.option == "--gpg-sign"

    @property
    def words(self) -> str:
        """The end of a sentence about the commit."""
        return ", signed with your key" if self.wanted else ""

    def failure(self, problem: GitError) -> GitError:
        """Return the failure with advice where the signature is the reason."""
        if not self.wanted or not any(mark in problem.stderr for mark in _FAILURES):
            return problem
        reason = next((line for line in problem.stderr.splitlines() if line.startswith("error: ")), "no reason given")
        return GitError(
            f"your git settings sign each commit, and that failed ({reason.removeprefix('error: ')}): nothing was "
            "committed; unlock the key in a terminal, or commit there",
            code="unsigned",
            stderr=problem.stderr,
        )


def read_signature() -> CommitSignature:
    """Return whether and how the user signs commits."""
    wanted = user_settings.read_user_setting("commit.gpgSign")
    if wanted is None or wanted.casefold() not in _TRUE:
        return CommitSignature("--no-gpg-sign")
    found = [(name, value) for name in _SETTINGS if (value := user_settings.read_user_setting(name)) is not None]
    return CommitSignature("--gpg-sign", tuple(found))
