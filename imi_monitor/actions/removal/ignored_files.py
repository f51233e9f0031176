"""Ignored files of possible value (secrets, databases, anything above 1 KB that no tool regenerates), nested repositories.

Names decide, not contents: no file is opened except the `.git` file of a nested repository.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.git import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SMALL = 1024  # bytes; a smaller ignored file without a telling name is not reported
MOST_ENTRIES = 300_000  # entries checked per worktree; beyond that `complete` is False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Patterns:
    """Shell patterns with stars: names, `start*`, `*end`, `*middle*` and `start*end`. Compiling them for `re` takes 10 ms."""

    def __init__(self, text: str) -> None:
        parts = [pattern.split("*") for pattern in text.split()]
        self._whole = {each[0] for each in parts if len(each) == 1}
        pairs = [(each[0], each[1]) for each in parts if len(each) == 2]
        self._starts = tuple(start for start, end in pairs if not end)
        self._ends = tuple(end for start, end in pairs if not start)
        self._both = [(start, end) for start, end in pairs if start and end]
        self._middles = [each[1] for each in parts if len(each) == 3]
        assert all(len(each) < 3 or (len(each) == 3 and not each[0] and not each[2]) for each in parts)

    def match(self, name: str) -> bool:
        if name in self._whole or name.endswith(self._ends) or name.startswith(self._starts):
            return True
        for start, end in self._both:
            if name.startswith(start) and name.endswith(end) and len(name) >= len(start) + len(end):
                return True
        return any(middle in name for middle in self._middles)


# Folders that a tool regenerates from what is committed.
_REGENERABLE = _names(
    """
    node_modules bower_components jspm_packages .pnpm-store .yarn .parcel-cache .next .nuxt .svelte-kit .turbo
    .angular .vite .astro .expo .docusaurus .output .vercel .serverless target .venv venv virtualenv __pycache__
    __pypackages__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eggs .ipynb_checkpoints htmlcov
    site-packages build dist _build dist-newstyle obj .gradle .cache .ccls-cache .clangd coverage .nyc_output
    .dart_tool Pods DerivedData .build zig-cache .zig-cache zig-out elm-stuff .stack-work .terraform .bundle vendor
    .direnv CMakeFiles
    """
)
_REGENERABLE_FOLDERS = _Patterns("*.egg-info cmake-build-* bazel-*")
_REGENERABLE_FILES = _Patterns(
    """
    *.pyc *.pyo *.o *.obj *.a *.so *.dylib *.dll *.class *.tsbuildinfo *.swp *.swo .DS_Store Thumbs.db .eslintcache
    .stylelintcache .coverage .coverage.* coverage.xml *.gcda *.gcno tags TAGS *.egg
    """
)
# Valuable at any size.
_PRECIOUS = _Patterns(
    """
    *.env .env.* .envrc *.db *.db3 *.sqlite* *.duckdb *.mdb *.pem *.key *.p8 *.p12 *.pfx *.jks *.keystore
    *.kdbx *.gpg *.asc id_rsa* id_ed25519* id_ecdsa* *.ovpn *credential* *secret* .npmrc .pypirc .netrc .pgpass
    *.tfstate* *.tfvars service-account*.json *.sql *.dump *.bak *.orig *.rej *.patch *.ipynb
    """
)
_BARE = frozenset(("HEAD", "objects", "refs"))


class IgnoredFiles:
    """Findings, as paths relative to the worktree.

    `complete` is False if there were too many entries to check; `missed` is True if some of the unchecked ones are outside
    regenerable folders.
    """

    def __init__(self, left: int) -> None:
        self.valuable: list[str] = []
        self.nested: list[str] = []
        self.foreign: list[str] = []  # worktrees of this or another repository
        self.complete = True
        self.missed = False
        self.left = left  # entries that may still be checked

    def reserve(self, number: int) -> bool:
        """Count `number` entries against the limit; False if it is exceeded."""
        self.left -= number
        self.complete = self.complete and self.left >= 0
        return self.left >= 0


def scan_ignored(
    root: str, ignored: Iterable[str], untracked: Iterable[str], *, limit: int | None = None
) -> IgnoredFiles:
    """Check the names git listed; a name that ends in a slash is a folder git did not enter."""
    found = IgnoredFiles(left=MOST_ENTRIES if limit is None else limit)
    for path in ignored:
        if path.endswith("/"):
            _walk(root, path.rstrip("/"), found, _regenerable_path(path))
        else:
            _judge(root, path, found)
    for path in untracked:
        if path.endswith("/"):  # git lists every untracked file, so this is a nested repository
            _walk(root, path.rstrip("/"), found, regenerable=True)
    return found


def _walk(root: str, start: str, found: IgnoredFiles, regenerable: bool) -> None:
    """Check everything below one folder; inside regenerable folders only search for repositories."""
    stack = [(start, regenerable)]
    while stack:
        folder, known = stack.pop()
        entries = _entries(os.path.join(root, folder))
        if entries is None:
            found.valuable.append(folder + "/")  # unreadable counts as valuable
            continue
        names = {entry.name for entry in entries}
        if ".git" in names or names >= _BARE:
            _repository(root, folder, found)
            continue
        if not found.reserve(len(entries)):
            found.missed = found.missed or not all((known, *(each for _, each in stack)))
            return
        known = known or bool(names & {"CACHEDIR.TAG", "pyvenv.cfg"})
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                stack.append((path, known or _regenerable_name(entry.name)))
            elif not known:
                _judge(root, path, found)


def _judge(root: str, path: str, found: IgnoredFiles) -> None:
    if _regenerable_path(path):
        return
    name = os.path.basename(path)
    try:
        info = os.lstat(os.path.join(root, path))
    except OSError:
        found.valuable.append(path)  # unreadable counts as valuable
        return
    # a link has no content of its own: shared files are linked, and their targets stay
    if not stat.S_ISREG(info.st_mode) or _REGENERABLE_FILES.match(name):
        return
    if info.st_size > _SMALL or (info.st_size and _PRECIOUS.match(name.lower())):
        found.valuable.append(path)


def _repository(root: str, folder: str, found: IgnoredFiles) -> None:
    """Record a nested repository, or a worktree of another repository, which would lose it."""
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
    return name in _REGENERABLE or _REGENERABLE_FOLDERS.match(name)
