"""The walk through ignored folders: what it enters, what it counts, and what it says of the rest when there is too much."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.actions.removal import ignored_files
from imi_monitor.actions.removal.ignored_files import IgnoredFiles


def scan(root: Path, *ignored: str, untracked: tuple[str, ...] = (), limit: int | None = None) -> IgnoredFiles:
    return ignored_files.scan_ignored(str(root), ignored, untracked, limit=limit)


def write(root: Path, *names: str, size: int = 2000) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * size)


def test_what_has_gone_since_git_listed_it_counts(tmp_path: Path) -> None:
    """Unknown is never worthless."""
    found = scan(tmp_path, "gone.log", "gone/", "node_modules/gone.log")
    assert found.valuable == ["gone.log", "gone/"]


def test_of_untracked_names_only_folders_are_entered(tmp_path: Path) -> None:
    """git lists each untracked file; a folder is one that it does not enter, a repository."""
    write(tmp_path, "new.py", "tools/big.bin")
    for name in ("HEAD", "objects/x", "refs/x"):
        write(tmp_path, f"tools/deep/{name}")
    found = scan(tmp_path, untracked=("new.py", "tools/"))
    assert (found.valuable, found.nested, found.foreign) == ([], ["tools/deep"], [])


_MADE_AGAIN = {  # folders and files that the tools of a language make again
    "JavaScript": "node_modules/ bower_components/ jspm_packages/ .pnpm-store/ .yarn/ .parcel-cache/ .next/ .nuxt/ .svelte-kit/ "
    ".turbo/ .angular/ .vite/ .astro/ .expo/ .docusaurus/ .output/ .vercel/ .serverless/ .nyc_output/ x.tsbuildinfo .eslintcache "
    ".stylelintcache",
    "Python": ".venv/ venv/ virtualenv/ __pycache__/ __pypackages__/ .pytest_cache/ .mypy_cache/ .ruff_cache/ .hypothesis/ .tox/ "
    ".nox/ .eggs/ .ipynb_checkpoints/ htmlcov/ site-packages/ x.egg-info/ x.pyc x.pyo .coverage .coverage.1 coverage.xml x.egg",
    "C and its kin": "obj/ .ccls-cache/ .clangd/ CMakeFiles/ cmake-build-debug/ bazel-out/ x.o x.obj x.a x.so x.dylib x.dll "
    "x.gcda x.gcno",
    "others": "target/ build/ dist/ _build/ dist-newstyle/ .gradle/ .cache/ coverage/ .dart_tool/ Pods/ DerivedData/ .build/ "
    "zig-cache/ .zig-cache/ zig-out/ elm-stuff/ .stack-work/ .terraform/ .bundle/ vendor/ .direnv/ x.class x.swp x.swo .DS_Store "
    "Thumbs.db tags TAGS",
}
_PRECIOUS = {
    "settings": ".env .env.local x.env .envrc .npmrc .pypirc .netrc .pgpass x.tfstate x.tfstate.old x.tfvars x.ovpn",
    "keys": "x.pem x.key x.p8 x.p12 x.pfx x.jks x.keystore x.kdbx x.gpg x.asc id_rsa id_ed25519 id_ecdsa my-credentials.txt "
    "a-secret.txt service-account-1.json",
    "data": "x.db x.db3 x.sqlite x.sqlite3 x.duckdb x.mdb x.sql x.dump",
    "work": "x.bak x.orig x.rej x.patch x.ipynb",
}


@pytest.mark.parametrize("of", _MADE_AGAIN)
def test_what_a_tool_makes_again_is_no_loss(tmp_path: Path, of: str) -> None:
    """At any size, named by git or found in a folder that git names."""
    names = [f"{name}x" if name.endswith("/") else name for name in _MADE_AGAIN[of].split()]
    write(tmp_path, *names, *(f"mine/{name}" for name in names))
    assert scan(tmp_path, "mine/", *names, *_MADE_AGAIN[of].split()).valuable == []


@pytest.mark.parametrize("of", _PRECIOUS)
def test_what_is_precious_counts_at_any_size(tmp_path: Path, of: str) -> None:
    names = [name for one in _PRECIOUS[of].split() for name in (one, one.upper())]
    write(tmp_path, *names, *(f"mine/{name}" for name in names), size=1)
    assert sorted(scan(tmp_path, "mine/", *names).valuable) == sorted([*names, *(f"mine/{name}" for name in names)])


@pytest.mark.parametrize(
    ("names", "nested"),
    [
        ((".git",), True),
        (("HEAD", "objects", "refs"), True),
        (("HEAD", "objects", "refs", "config"), True),
        (("HEAD", "objects"), False),
        (("HEAD", "refs"), False),
        (("objects", "refs"), False),
    ],
)
def test_a_repository_is_known_by_its_names(tmp_path: Path, names: tuple[str, ...], nested: bool) -> None:
    write(tmp_path, *(f"cache/it/{name}" for name in names), "cache/it/big")
    found = scan(tmp_path, "cache/")
    assert found.nested == (["cache/it"] if nested else [])
    assert bool(found.valuable) != nested


class TestLimit:
    def test_as_many_as_allowed_are_checked(self, tmp_path: Path) -> None:
        write(tmp_path, *(f"many/{number}" for number in range(5)), "more/1")
        assert scan(tmp_path, "many/", limit=5).complete
        found = scan(tmp_path, "many/", "more/", limit=5)
        assert (found.complete, found.missed, len(found.valuable)) == (False, True, 5)
        assert scan(tmp_path, "many/", "more/", limit=6).complete

    @pytest.mark.parametrize("order", [("data/", "node_modules/"), ("node_modules/", "data/")])
    def test_one_missed_file_is_enough(self, tmp_path: Path, order: tuple[str, ...]) -> None:
        write(tmp_path, "data/1", "node_modules/1")
        found = scan(tmp_path, *order, limit=0)
        assert (found.complete, found.missed) == (False, True)

    @pytest.mark.parametrize(
        ("names", "missed"),
        [
            (("node_modules/a/1", "node_modules/b/1"), False),
            (("data/build/1", "data/build/2"), False),  # only what a tool makes again is left
            (("data/build/1", "data/other/1"), True),
            (("data/a/1", "data/b/1"), True),
        ],
    )
    def test_only_what_no_tool_makes_again_is_missed(
        self, tmp_path: Path, names: tuple[str, ...], missed: bool
    ) -> None:
        write(tmp_path, *names)
        top = names[0].split("/")[0] + "/"
        first = len(list((tmp_path / top).iterdir()))
        found = scan(tmp_path, top, limit=first)
        assert (found.complete, found.missed) == (False, missed)

    def test_after_the_end_nothing_is_judged(self, tmp_path: Path) -> None:
        write(tmp_path, *(f"many/{number}" for number in range(5)))
        assert scan(tmp_path, "many/", limit=4).valuable == []


# folders and files of a small tree; what is expected of each follows from its path alone
FOLDERS = ("data", "build", "node_modules", "src", "x.egg-info", "cmake-build-debug", "bazel-out")
FILES = {
    "big": True,
    ".env": True,
    "x.pyc": False,
    "tags": False,
    "a-secret-b": True,
    "empty": False,
    "service-account-1.json": True,
}
SIZES = {"big": 2000, "x.pyc": 2000, "tags": 2000, "empty": 0}
paths = st.tuples(st.lists(st.sampled_from(FOLDERS), min_size=1, max_size=3), st.sampled_from(sorted(FILES)))


@given(st.sets(paths.map(lambda parts: "/".join([*parts[0], parts[1]])), max_size=8))
def test_a_file_counts_by_its_name_size_and_folders(names: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in names:
            write(root, name, size=SIZES.get(name.rpartition("/")[2], 3))
        expected = sorted(
            name for name in names if FILES[name.rpartition("/")[2]] and not set(name.split("/")[:-1]) - {"data", "src"}
        )
        found = scan(root, *sorted({name.split("/")[0] + "/" for name in names}))
        assert sorted(found.valuable) == expected
        assert sorted(scan(root, *sorted(names)).valuable) == expected, "the same when git lists each file"
        assert (found.nested, found.foreign, found.complete, found.missed) == ([], [], True, False)
