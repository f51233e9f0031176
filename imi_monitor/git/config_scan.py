"""Finds the keys of a repository's configuration that name programs, and the settings that override them.

One table of keys serves two checks. The quick one searches the bytes of the repository's two small files for the words of such
keys: section and variable names cannot be escaped or split, so a file without the words cannot set the key. Only if a word is
found, git lists the exact configuration, with includes and scopes resolved. A result is cached until the files change.
"""

from __future__ import annotations

import os
import stat
import time

from imi_monitor.git.environment import git_environment, git_path
from imi_monitor.git.spawn import FinishedProcess, spawn
from imi_monitor.model import times
from imi_monitor.model.errors import GitError

# section.variable (without the subsection) -> a value with which git runs nothing and works as if the key were unset. A value
# in the user's own configuration has precedence.
PROGRAM_KEYS: dict[str, str] = {
    "browser.cmd": "false",
    "browser.path": "",
    "core.alternaterefscommand": "true",
    "core.askpass": "",
    "core.editor": "false",
    "core.gitproxy": "",
    "core.pager": "cat",
    "core.sshcommand": "ssh",
    "core.virtualfilesystem": "",  # a hook in Microsoft's git
    "credential.helper": "",
    "diff.command": "",  # has no neutral program: `Git.run` passes --no-ext-diff, without which git fails
    "diff.external": "",
    "diff.textconv": "cat",
    "difftool.cmd": "false",
    "difftool.path": "",
    "filter.clean": "",
    "filter.process": "",
    "filter.smudge": "",
    "gc.recentobjectshook": "",
    "gpg.defaultkeycommand": "",
    "gpg.program": "gpg",  # for other formats see `neutral_value`
    "guitool.cmd": "false",
    "imap.tunnel": "false",
    "init.templatedir": "",
    "interactive.difffilter": "cat",
    "lfs.clean": "",  # the user's own git-lfs filter reads programs from the configuration too
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

# Sections in which every variable may be a program.
PROGRAM_SECTIONS: dict[str, str] = {"alias": "", "hook": "false", "pager": "false"}

# Not programs themselves, but they make git run one.
SWITCH_KEYS: dict[str, str] = {
    "commit.gpgsign": "false",
    "filter.required": "false",
    "merge.verifysignatures": "false",
    "push.gpgsign": "false",
    "tag.forcesignannotated": "false",
    "tag.gpgsign": "false",
}

# Off until the repository is trusted, in any scope: LOCKED_SETTINGS sets them without a scan.
LOCKED_KEYS = frozenset(("core.fsmonitor", "core.hookspath"))

# A setting cannot override these (the first value wins, or an empty one is worse). The arguments of `runner` and the variables
# of `environment` do, or the command is refused.
BEYOND_SETTINGS = frozenset(("core.gitproxy", "remote.receivepack", "remote.uploadpack", "remote.vcs"))

_SIGNERS = {"x509": "gpgsm", "ssh": "ssh-keygen"}
_HARMLESS = frozenset(("", "false", "no", "off", "0", "none", "checkout", "merge", "rebase", "never", "user"))


def short_key(key: str) -> str:
    """Return `section.variable` of a key as git lists it (both in lower case), without the subsection."""
    return f"{key.partition('.')[0]}.{key.rpartition('.')[2]}"


def subsection(key: str) -> str:
    return key.partition(".")[2].rpartition(".")[0]


def is_named_hook(key: str) -> bool:
    """Return whether this is a hook defined in configuration (git 2.54). core.hooksPath does not disable those."""
    return key.startswith("hook.") and bool(subsection(key))


def neutral_value(key: str) -> str | None:
    """Return the value that disables `key`; None when git runs nothing because of it."""
    name = short_key(key)
    if name == "gpg.program":
        return _SIGNERS.get(subsection(key).lower(), "gpg")
    for table in (PROGRAM_KEYS, SWITCH_KEYS):
        if name in table:
            return table[name]
    return PROGRAM_SECTIONS.get(name.partition(".")[0])


def names_program(key: str, value: str) -> bool:
    """Return whether this line runs a program in a trusted repository."""
    name = short_key(key)
    section = name.partition(".")[0]
    if name in LOCKED_KEYS or name in ("submodule.update", "remote.promisor") or section == "protocol":
        return value.lower() not in _HARMLESS
    if section in ("remote", "url", "branch") and "::" in key + value:
        return True  # the address itself is a program: `ext::command` and the like
    return name in PROGRAM_KEYS or section in PROGRAM_SECTIONS


def _words() -> list[tuple[bytes, bytes]]:
    names = [name.encode().partition(b".") for name in sorted({*PROGRAM_KEYS, *SWITCH_KEYS, *LOCKED_KEYS})]
    return [(section, variable) for section, _, variable in names] + [(name.encode(), b"") for name in PROGRAM_SECTIONS]


_WORDS = _words()
_MORE_WORDS = (b"include", b"protocol", b"::", b"promisor")


def may_name_programs(config: bytes) -> bool:
    """Return whether a configuration file may set one of these keys: False is certain, True needs git's listing."""
    low = config.lower()
    if any(word in low for word in _MORE_WORDS):
        return True
    return any(section in low and variable in low for section, variable in _WORDS)


# For all repositories: output for a program, no garbage collection, no bare repository inside a work tree.
BASE_SETTINGS = [
    ("safe.bareRepository", "explicit"),
    ("log.showSignature", "false"),
    ("color.ui", "false"),
    ("color.diff", "false"),
    # `git diff` takes index.lock to refresh the index, even with --no-optional-locks. With this setting, --name-only, --raw and
    # --name-status also list files of which only the time stamp changed (status and --numstat do not)
    ("diff.autoRefreshIndex", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
]
# For all repositories that are not trusted. These need no scan, so no change after a scan can set them.
LOCKED_SETTINGS = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("protocol.ext.allow", "never"),
]

_FRESH_NS = 100_000_000  # a file changed this recently can change again within the same time stamp
_SECONDS = 30.0  # how long a scan is valid: a listing also depends on the user's own files
_TIMEOUT = 5.0
_LARGEST = 1 << 20
_MOST_SCANS = 4096
_UNKNOWN = b"include"  # stands for the content of an unreadable file, so that git lists it
_OWN = ("local", "worktree")

Listing = list[tuple[str, str, str]]  # (scope, key, value) in git's order of precedence


class ConfigScan:
    """The result for one repository's configuration."""

    __slots__ = ("expires", "listing", "programs", "settings", "stamp")

    def __init__(self, stamp: tuple[object, ...], listing: Listing) -> None:
        self.stamp = stamp
        self.listing = listing
        self.settings = _overrides(listing)
        self.programs = [f"{key}={value}" for key, value in _own(listing) if names_program(key, value)]
        self.expires = time.monotonic() + _SECONDS

    @property
    def closed(self) -> bool:
        """Whether the stamp covers all files: included files are not in it."""
        return not any(key.startswith(("include.", "includeif.")) for key, _ in _own(self.listing))


_scans: dict[tuple[str, str, bool], ConfigScan] = {}


def scan_config(common_dir: str, admin_dir: str, *, thorough: bool = False) -> ConfigScan:
    """Return the scan of one worktree. `thorough` always runs git, and so finds the user's own values too."""
    files = (
        os.path.join(common_dir, "config"),
        os.path.join(common_dir, "config.worktree"),
        os.path.join(admin_dir, "config.worktree"),
    )
    if not thorough and admin_dir != common_dir and _is_common(files):
        return scan_config(common_dir, common_dir)  # one listing for all worktrees
    started = times.clock()
    stamp, newest = _stamp(files)
    known = _scans.get((common_dir, admin_dir, thorough))
    if known is not None and known.stamp == stamp and time.monotonic() < known.expires:
        return known
    suspect = thorough or any(may_name_programs(read_config_file(path)) for path in dict.fromkeys(files))
    found = ConfigScan(stamp, _ask_git(common_dir, admin_dir) if suspect else [])
    if found.closed and started - newest > _FRESH_NS:
        if len(_scans) >= _MOST_SCANS:
            _scans.clear()
        _scans[common_dir, admin_dir, thorough] = found
    return found


def _is_common(files: tuple[str, str, str]) -> bool:
    """Return whether a linked worktree has the repository's configuration: no file of a worktree, no include with a condition."""
    return not any(map(os.path.lexists, files[1:])) and b"include" not in read_config_file(files[0]).lower()


def pinned_variables(common_dir: str, admin_dir: str) -> dict[str, str]:
    """Return the variable that fixes the common directory of a linked worktree: its `commondir` file may be rewritten."""
    return {"GIT_COMMON_DIR": common_dir} if admin_dir != common_dir else {}


def read_config_file(path: str) -> bytes:
    """Return a configuration file's bytes; GitError for a FIFO, which could give git another content than us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError:
        return _UNKNOWN
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _no_file(path)
        data = os.read(fd, _LARGEST)
    except OSError:
        return _UNKNOWN
    finally:
        os.close(fd)
    return data if len(data) < _LARGEST else _UNKNOWN


def _no_file(path: str) -> GitError:
    from imi_monitor.model.text import safe

    return GitError(f"{safe(path)} is not a regular file (tampered with): git was not run", code="tampered")


def _stamp(files: tuple[str, ...]) -> tuple[tuple[object, ...], int]:
    """Return a stamp of the files' identities, and when the newest changed."""
    stamp: list[object] = []
    newest = 0
    for path in files:
        try:
            info = os.stat(path)
        except OSError as error:
            stamp.append(error.errno)
            continue
        stamp.append((info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino, info.st_dev))
        newest = max(newest, info.st_ctime_ns)
    return tuple(stamp), newest


def _ask_git(common_dir: str, admin_dir: str) -> Listing:
    env = {**git_environment([*BASE_SETTINGS, *LOCKED_SETTINGS]), **pinned_variables(common_dir, admin_dir)}
    argv = [git_path(), "--no-pager", "-C", common_dir, f"--git-dir={admin_dir}"]
    done = spawn([*argv, "config", "--null", "--show-scope", "--list"], env=env, timeout=_TIMEOUT, cap=8 << 20)
    if done.returncode or done.capped or done.timed_out:
        raise _unreadable(common_dir, done)
    fields = os.fsdecode(done.stdout).split("\0")
    found: Listing = []
    for scope, line in zip(fields[0::2], fields[1::2], strict=False):
        key, _, value = line.partition("\n")
        found.append((scope, key, value))
    return found


def _unreadable(common_dir: str, done: FinishedProcess) -> GitError:
    from imi_monitor.model.redact import printable_lines
    from imi_monitor.model.text import safe

    lines = printable_lines(done.stderr)
    why = f"no answer in {_TIMEOUT:g} s" if done.timed_out else lines[-1] if lines else f"exit status {done.returncode}"
    return GitError(
        f"git cannot read the configuration of {safe(common_dir)}: {why}",
        code="git-timeout" if done.timed_out else "git",
        stderr="\n".join(lines),
        returncode=done.returncode,
    )


def _own(listing: Listing) -> list[tuple[str, str]]:
    return [(key, value) for scope, key, value in listing if scope in _OWN]


def _users(listing: Listing) -> list[tuple[str, str]]:
    return [(key, value) for scope, key, value in listing if scope not in _OWN]


def _overrides(listing: Listing) -> list[tuple[str, str]]:
    """Return the settings that disable the programs of the repository's own scope, and every configured hook."""
    users = dict(_users(listing))
    settings: dict[str, str] = {}
    helpers: list[tuple[str, str]] = []
    for key in dict.fromkeys(key for key, _ in _own(listing)):
        short = short_key(key)
        value = neutral_value(key)
        if short == "credential.helper":
            helpers = _helpers(listing)
        elif value is not None and short not in BEYOND_SETTINGS and not short.startswith("hook."):
            settings[key] = users.get(key, value)
    hooks = {f"hook.{subsection(key)}.enabled": "false" for _, key, _ in listing if is_named_hook(key)}
    return [*settings.items(), *hooks.items(), *helpers]


def _helpers(listing: Listing) -> list[tuple[str, str]]:
    """Return credential helpers: an empty value clears the list, then the user's own follow in their order."""
    again = [(key, value) for key, value in _users(listing) if short_key(key) == "credential.helper"]
    return [("credential.helper", ""), *again]
