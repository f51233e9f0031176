"""Ignored and untracked files that somebody may miss: secrets, databases, anything sizeable that no tool would make again,
and whole repositories that git does not look into.

Names decide, not contents: nothing is opened except the `.git` file of a nested repository.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from fnmatch import translate

from imi_monitor.git import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SMALL = 1024  # bytes; what is ignored, nameless and smaller is hardly anybody's work
_MOST_ENTRIES = 300_000  # looked at in all; beyond that the answer is "not all was looked at"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


# Folders that a tool makes again from what is committed.
_REGENERABLE = frozenset(
    (
        "node_modules",
        "bower_components",
        "jspm_packages",
        ".pnpm-store",
        ".yarn",
        ".parcel-cache",
        ".next",
        ".nuxt",
        ".svelte-kit",
        ".turbo",
        ".angular",
        ".vite",
        ".astro",
        ".expo",
        ".docusaurus",
        ".output",
        ".vercel",
        ".serverless",
        "target",
        ".venv",
        "venv",
        "virtualenv",
        "__pycache__",
        "__pypackages__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".eggs",
        ".ipynb_checkpoints",
        "htmlcov",
        "site-packages",
        "build",
        "dist",
        "_build",
        "dist-newstyle",
        "obj",
        ".gradle",
        ".cache",
        ".ccls-cache",
        ".clangd",
        "coverage",
        ".nyc_output",
        ".dart_tool",
        "Pods",
        "DerivedData",
        ".build",
        "zig-cache",
        ".zig-cache",
        "zig-out",
        "elm-stuff",
        ".stack-work",
        ".terraform",
        ".bundle",
        "vendor",
        ".direnv",
        "CMakeFiles",
    )
)
_REGENERABLE_FOLDERS = _any("*.egg-info", "cmake-build-*", "bazel-*")
_REGENERABLE_FILES = _any(
    "*.pyc",
    "*.pyo",
    "*.o",
    "*.obj",
    "*.a",
    "*.so",
    "*.dylib",
    "*.dll",
    "*.class",
    "*.tsbuildinfo",
    "*.swp",
    "*.swo",
    ".DS_Store",
    "Thumbs.db",
    ".eslintcache",
    ".stylelintcache",
    ".coverage",
    ".coverage.*",
    "coverage.xml",
    "*.gcda",
    "*.gcno",
    "tags",
    "TAGS",
    "*.egg",
)
# Worth something however small they are.
_PRECIOUS = _any(
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.db",
    "*.db3",
    "*.sqlite*",
    "*.duckdb",
    "*.mdb",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.gpg",
    "*.asc",
    "id_rsa*",
    "id_ed25519*",
    "id_ecdsa*",
    "*.ovpn",
    "*credential*",
    "*secret*",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pgpass",
    "*.tfstate*",
    "*.tfvars",
    "service-account*.json",
    "*.sql",
    "*.dump",
    "*.bak",
    "*.orig",
    "*.rej",
    "*.patch",
    "*.ipynb",
)
_BARE = frozenset(("HEAD", "objects", "refs"))


@dataclass
class IgnoredFiles:
    """What was found, as paths relative to the worktree. `complete` is False when there was too much to look at all, and
    `missed` tells that it was not only what tools make again."""

    valuable: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)  # worktrees of this or another repository
    complete: bool = True
    missed: bool = False
    _left: int = _MOST_ENTRIES

    def take(self, number: int) -> bool:
        """Whether there is still room to look at so many entries more."""
        self._left -= number
        self.complete = self.complete and self._left >= 0
        return self._left >= 0


def scan_ignored(root: str, ignored: Iterable[str], untracked: Iterable[str]) -> IgnoredFiles:
    """Go through what git listed; a name that ends in a slash is a folder that git did not look into."""
    found = IgnoredFiles()
    for path in ignored:
        if path.endswith("/"):
            _walk(root, path.rstrip("/"), found, _regenerable_path(path), count=True)
        else:
            _judge(root, path, found)
    for path in untracked:
        if path.endswith("/"):  # git lists every untracked file, so this can only be a nested repository
            _walk(root, path.rstrip("/"), found, regenerable=True, count=False)
    return found


def _walk(root: str, start: str, found: IgnoredFiles, regenerable: bool, *, count: bool) -> None:
    """Everything below one folder. Inside folders that a tool makes again only repositories are looked for."""
    stack = [(start, regenerable)]
    while stack:
        folder, known = stack.pop()
        entries = _entries(os.path.join(root, folder))
        if entries is None:
            found.valuable.append(folder + "/")  # what cannot be looked at counts
            continue
        names = {entry.name for entry in entries}
        if ".git" in names or names >= _BARE:
            _repository(root, folder, found)
            continue
        if not found.take(len(entries)):
            found.missed = found.missed or (count and not all((known, *(each for _, each in stack))))
            return
        known = known or bool(names & {"CACHEDIR.TAG", "pyvenv.cfg"})
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                stack.append((path, known or _regenerable_name(entry.name)))
            elif count and not known:
                _judge(root, path, found)


def _judge(root: str, path: str, found: IgnoredFiles) -> None:
    if _regenerable_path(path):
        return
    name = os.path.basename(path)
    try:
        info = os.lstat(os.path.join(root, path))
    except OSError:
        found.valuable.append(path)  # what cannot be looked at counts
        return
    # a link is no content: shared configuration is linked in, and what it points to stays where it is
    if not stat.S_ISREG(info.st_mode) or _REGENERABLE_FILES.match(name):
        return
    if info.st_size > _SMALL or (info.st_size and _PRECIOUS.match(name.lower())):
        found.valuable.append(path)


def _repository(root: str, folder: str, found: IgnoredFiles) -> None:
    """A nested repository; worse if it is a worktree, whose repository would lose it without knowing."""
    target = layout.gitfile(os.path.join(root, folder, ".git"))
    is_worktree = target is not None and os.path.basename(os.path.dirname(target)) == "worktrees"
    (found.foreign if is_worktree else found.nested).append(folder)


def _entries(folder: str) -> list[os.DirEntry[str]] | None:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return None


def _regenerable_path(path: str) -> bool:
    return any(_regenerable_name(part) for part in path.rstrip("/").split("/"))


def _regenerable_name(name: str) -> bool:
    return name in _REGENERABLE or _REGENERABLE_FOLDERS.match(name) is not None
