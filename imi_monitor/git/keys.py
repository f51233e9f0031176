"""Which keys of git's configuration name a program (or make git run one), and what stands there in their place.

One table for both questions asked of a repository's configuration: "could there be anything?" (a look at the bytes, no
process) and "what exactly?" (git's own listing). Section and variable names cannot be escaped or split in a
configuration file, so a file without the words cannot set the key.
"""

from __future__ import annotations

# section.variable, whatever subsection is between them -> a value under which git runs nothing and works as if it were
# unset. Where the user has a value of his own, that one is used instead.
PROGRAMS: dict[str, str] = {
    "browser.cmd": "false",
    "browser.path": "",
    "core.alternaterefscommand": "true",
    "core.askpass": "",
    "core.editor": "false",
    "core.gitproxy": "",
    "core.pager": "cat",
    "core.sshcommand": "ssh",
    "core.virtualfilesystem": "",  # a hook of Microsoft's git
    "credential.helper": "",
    "diff.command": "",  # there is no neutral program: `run` passes --no-ext-diff, and without it git now fails
    "diff.external": "",
    "diff.textconv": "cat",
    "difftool.cmd": "false",
    "difftool.path": "",
    "filter.clean": "",
    "filter.process": "",
    "filter.smudge": "",
    "gc.recentobjectshook": "",
    "gpg.defaultkeycommand": "",
    "gpg.program": "gpg",  # for other formats see `neutral`
    "guitool.cmd": "false",
    "imap.tunnel": "false",
    "init.templatedir": "",
    "interactive.difffilter": "cat",
    "lfs.clean": "",  # git-lfs of the user's own, run by the user's own filter, has programs in its configuration too
    "lfs.path": "",
    "lfs.smudge": "",
    "lfs.standalonetransferagent": "",
    "man.cmd": "false",
    "man.path": "",
    "merge.driver": "git merge-file --marker-size=%L %A %O %B",  # what git does without a driver
    "mergetool.cmd": "false",
    "mergetool.path": "",
    "remote.receivepack": "git-receive-pack",
    "remote.uploadpack": "git-upload-pack",
    "remote.vcs": "",
    "sequence.editor": "false",
    "submodule.update": "none",
    "tar.command": "false",
    "trailer.cmd": "",
    "trailer.command": "",
    "uploadpack.packobjectshook": "",
}

# Sections whose every variable is, or may be, a program.
SECTIONS: dict[str, str] = {"alias": "", "hook": "false", "pager": "false"}

# No programs themselves, but they make git run one.
SWITCHES: dict[str, str] = {
    "commit.gpgsign": "false",
    "filter.required": "false",
    "merge.verifysignatures": "false",
    "push.gpgsign": "false",
    "tag.forcesignannotated": "false",
    "tag.gpgsign": "false",
}

# Off until the repository is trusted, whoever set them: `scan.LOCKED` says so without looking.
LOCKED = frozenset(("core.fsmonitor", "core.hookspath"))

# A setting cannot take these back (the first value wins, or an empty one is worse): the arguments and variables of
# `run` and `environ` do, or the command is refused.
BEYOND_SETTINGS = frozenset(("core.gitproxy", "remote.receivepack", "remote.uploadpack", "remote.vcs"))

_SIGNERS = {"x509": "gpgsm", "ssh": "ssh-keygen"}
_HARMLESS = frozenset(("", "false", "no", "off", "0", "none", "checkout", "merge", "rebase", "never", "user"))


def short(key: str) -> str:
    """`section.variable` of a key as git lists it (both in lower case), without the subsection between them."""
    return f"{key.partition('.')[0]}.{key.rpartition('.')[2]}"


def subsection(key: str) -> str:
    return key.partition(".")[2].rpartition(".")[0]


def is_named_hook(key: str) -> bool:
    """Hooks defined in configuration (git 2.54): core.hooksPath does not touch them, each must be disabled by name."""
    return key.startswith("hook.") and bool(subsection(key))


def neutral(key: str) -> str | None:
    """What to put in the place of `key`; None when git runs nothing because of it."""
    name = short(key)
    if name == "gpg.program":
        return _SIGNERS.get(subsection(key).lower(), "gpg")
    for table in (PROGRAMS, SWITCHES):
        if name in table:
            return table[name]
    return SECTIONS.get(name.partition(".")[0])


def names_program(key: str, value: str) -> bool:
    """Whether trusting the repository would let this line run something."""
    name = short(key)
    section = name.partition(".")[0]
    if name in LOCKED or name in ("submodule.update", "remote.promisor") or section == "protocol":
        return value.lower() not in _HARMLESS
    if section in ("remote", "url", "branch") and "::" in key + value:
        return True  # `ext::command` and its like: the address itself is a program
    return name in PROGRAMS or section in SECTIONS


def _words() -> list[tuple[bytes, bytes]]:
    names = [name.encode().partition(b".") for name in sorted({*PROGRAMS, *SWITCHES, *LOCKED})]
    return [(section, variable) for section, _, variable in names] + [(name.encode(), b"") for name in SECTIONS]


_WORDS = _words()
_MORE_WORDS = (b"include", b"protocol", b"::", b"promisor")


def may_name_programs(config: bytes) -> bool:
    """Whether a configuration file could set one of these keys: False is certain, True is a reason to ask git."""
    low = config.lower()
    if any(word in low for word in _MORE_WORDS):
        return True
    return any(section in low and variable in low for section, variable in _WORDS)
