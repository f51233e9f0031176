"""The hot verbs import no heavy module. Checking imports is more stable than a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import paths
from tests.helpers import ROOT, Repo, imi

FORBIDDEN = {
    "argparse",
    "ast",
    "asyncio",
    "contextlib",
    "dataclasses",
    "decimal",
    "email",
    "enum",
    "git",
    "hashlib",
    "inspect",
    "json",
    "logging",
    "pathlib",
    "random",
    "re",
    "rich",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "textual",
    "threading",
    "tomllib",
    "traceback",
    "typing",
    "urllib",
    "uuid",
    "aiosqlite",
    "redis",
    "watchfiles",
}
_RUN = """
import sys
before = set(sys.modules)
from imi_monitor.cli.command_runner import main
status = main(sys.argv[1:])
sys.stdout.flush()
print(status, *sorted(set(sys.modules) - before), file=sys.stderr)
"""


def _imported(repo: Repo, *words: str, env: dict[str, str] | None = None) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *words],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )
    status, *modules = done.stderr.splitlines()[-1].split()
    assert status == "0", done.stderr
    return set(modules)


@pytest.fixture(params=["plain", "cluster"])
def where(request: pytest.FixtureRequest) -> Repo:
    made: Repo = request.getfixturevalue("repo" if request.param == "plain" else "cluster")
    made.worktree("feat-x")
    return made


def test_hot_verbs_import_nothing_heavy(where: Repo) -> None:
    imi("claims", cwd=where.path)  # a registry that is there already, as on every day but the first
    for words in (
        ("claim", "feat-x", "--agent", "a", "--ttl", "60", "--task", "T", "--pid", str(os.getpid())),
        ("claim", "x", "--agent", "a"),
        ("verify-lock", "feat-x", "--agent", "a", "--json"),
        ("heartbeat", "feat-x", "--agent", "a", "--epoch", "1"),
        ("release", "feat-x", "--agent", "a"),
        ("claim", "feat-x", "--agent", "a", "--json"),
        ("release", "feat-x", "--agent", "a", "--dirty-ok", "--json"),
    ):
        modules = _imported(where, *words)
        assert not modules & FORBIDDEN, words
        ours = {name for name in modules if name.startswith("imi_monitor.")}
        assert not {
            name for name in ours if name.startswith(("imi_monitor.ui", "imi_monitor.links", "imi_monitor.sources"))
        }
        assert len(modules) < 75, (words, sorted(modules))


def test_a_plain_configuration_needs_no_toml_parser(where: Repo) -> None:
    imi("claims", cwd=where.path)
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        '# mine\n[claims]\nttl_seconds = 600 # ten minutes\n[ui]\ntheme = "light"\n[notify]\nbell = false\n'
    )
    for words in (("claim", "feat-x", "--agent", "a"), ("claim", "feat-x"), ("release", "feat-x", "--agent", "a")):
        modules = _imported(where, *words, env={"IMI_AGENT_ID": "a"})
        assert not modules & FORBIDDEN, (words, modules & FORBIDDEN)


def test_undo_imports_nothing_heavy(where: Repo) -> None:
    assert imi("remove", "feat-x", cwd=where.path).code == 0
    modules = _imported(where, "undo")
    assert not modules & (FORBIDDEN | {"fnmatch", "bz2"}), modules & FORBIDDEN


def test_a_creation_imports_nothing_heavy(where: Repo) -> None:
    """`imi feat` costs 30 ms beside what git takes; `re` and `typing` alone are 5 of them."""
    imi("list", cwd=where.path)
    modules = _imported(where, "feat", "new")
    assert not modules & FORBIDDEN, modules & FORBIDDEN
    assert not {name for name in modules if name.startswith("imi_monitor.runs") or name == "imi_monitor.model.agent"}


def test_the_list_of_worktrees_imports_nothing_heavy(where: Repo) -> None:
    """`imi list` answers within 35 ms, most of which is the start of Python."""
    imi("list", cwd=where.path)
    for words in (("list",), ("list", "--json")):
        modules = _imported(where, *words)
        assert not modules & (FORBIDDEN - {"threading"}), words
        assert "imi_monitor.model.snapshot" not in modules


def test_claim_verbs_start_no_git_process(where: Repo, tmp_path: Path) -> None:
    """Only `release` asks git, whether the tree is clean."""
    imi("claims", cwd=where.path)
    broken = {"PATH": str(tmp_path)}
    for words in (
        ("claim", "feat-x"),
        ("heartbeat", "feat-x"),
        ("verify-lock", "feat-x"),
        ("release", "feat-x", "--dirty-ok"),
    ):
        modules = _imported(where, *words, "--agent", "a", env=broken)
        assert "imi_monitor.git.spawn" not in modules, words


def test_the_line_of_a_bar_imports_nothing_heavy(where: Repo) -> None:
    """It runs every few seconds, beside everything else."""
    imi("claim", "feat-x", "--agent", "a", cwd=where.path)
    assert _imported(where, "status", "--line") & FORBIDDEN == set()
