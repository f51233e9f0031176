"""Discarded files without the registry: found by their note, restored, purged, listed again; a forged note is not followed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions import without_registry
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal.trash_action import TrashPurgeAction
from imi_monitor.config import database_path
from imi_monitor.store import db
from tests import registry_faults
from tests.actions.removal_kit import set_registry_aside
from tests.helpers import Ran, Repo, imi


@pytest.fixture
def discarded(repo: Repo) -> Path:
    """The trash entry of a discarded file in feat-x."""
    feat = repo.worktree("feat-x")
    feat.write("README.md", "my work\n")
    done = imi("discard", "x", "README.md", "--json", cwd=repo.path)
    assert (feat.path / "README.md").read_text() == "hello\n"
    folder = Path(imi("trash", "list", "--json", cwd=repo.path).data["entries"][0]["trash_path"])
    assert folder.name == done.data["trash_id"]
    return folder


@pytest.fixture
def entry(discarded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with a new registry that does not list it."""
    set_registry_aside(tmp_path_factory.mktemp("aside"))
    return discarded


def delete_with_ballast(registry: Path) -> None:
    """The whole folder: nothing says that there was a registry, and imi makes a new one."""
    for file in registry.parent.iterdir():
        file.unlink()


def empty_tables(registry: Path) -> None:
    """A valid registry without a row, as a restored old backup is one."""
    delete_with_ballast(registry)
    db.connect(str(registry), begin_new=True).close()


FAULTS: tuple[Callable[[Path], None], ...] = (
    registry_faults.delete_registry,
    delete_with_ballast,
    registry_faults.empty_registry,
    empty_tables,
    registry_faults.overwrite_header,
    registry_faults.overwrite_pages,
    registry_faults.make_newer,
)
Run = Callable[..., Ran]


@pytest.fixture(params=[*FAULTS, "read-only home"], ids=lambda fault: getattr(fault, "__name__", fault))
def lost(request: pytest.FixtureRequest, discarded: Path, own_home: Path) -> Iterator[tuple[Path, Run]]:
    """The entry and how to run imi where the registry that listed it is lost, or cannot be written."""
    registry = Path(database_path(None))
    if callable(request.param):
        request.param(registry)
        yield discarded, imi
        return
    registry_faults.write_protect(own_home)
    yield discarded, registry_faults.imi_without_privilege
    registry_faults.allow_writing(own_home)


def test_without_the_registry_it_is_listed_and_restored(lost: tuple[Path, Run], repo: Repo) -> None:
    folder, run = lost
    (found,) = run("trash", "list", "--json", cwd=repo.path).data["entries"]
    assert (found["worktree_name"], found["files"], found["restorable"]) == ("feat-x", ["README.md"], True)
    done = run("undo", folder.name, cwd=repo.path)
    assert done.code == 0 and done.out == "restored README.md, discarded in feat-x\n", done
    assert (repo.path.parent / "feat-x/README.md").read_text() == "my work\n" and not folder.exists()
    assert run("trash", "list", cwd=repo.path).out == "the trash is empty\n"


def test_without_the_registry_it_is_purged_if_it_is_named(lost: tuple[Path, Run], repo: Repo) -> None:
    folder, run = lost
    run("trash", "purge", "--all", "--yes", cwd=repo.path)
    assert folder.exists(), "only what the registry lists is purged unnamed"
    shown = run("trash", "purge", folder.name, cwd=repo.path)
    assert shown.code == 0 and "add --yes" in shown.out and folder.exists(), shown
    done = run("trash", "purge", folder.name, "--yes", cwd=repo.path)
    assert done.code == 0 and done.out == "purged feat-x of app\n", done
    assert not folder.exists() and not folder.parent.exists()
    assert run("trash", "list", cwd=repo.path).out == "the trash is empty\n"
    assert (repo.path.parent / "feat-x/README.md").read_text() == "hello\n"


def test_a_purge_that_fails_says_so(discarded: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    registry_faults.overwrite_header(Path(database_path(None)))

    def fail(_: str) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("imi_monitor.actions.files.file_trash.remove_folder", fail)
    request = Request("trash purge", {"which": [discarded.name], "yes": True})
    with Context(str(repo.path)) as context:
        outcome = without_registry.run(context, lambda: TrashPurgeAction().run(context, request), again=False)
    assert outcome.exit_status == 1 and outcome.data["purged"] == []
    assert outcome.warnings[1:] == ["README.md could not be purged: Read-only file system"] and discarded.exists()


def listed(repo: Repo) -> dict[str, Any]:
    [one] = imi("trash", "list", "--json", cwd=repo.path).data["entries"]
    assert isinstance(one, dict)
    return one


def test_a_discarded_file_is_listed_and_restored(entry: Path, repo: Repo) -> None:
    found = listed(repo)
    assert (found["listed"], found["worktree_name"], found["files"], found["how"]) == (
        False,
        "feat-x",
        ["README.md"],
        "discarded",
    )
    assert "NOT IN THE REGISTRY: `imi undo" in imi("trash", "list", cwd=repo.path).out
    done = imi("undo", cwd=repo.path)
    assert (done.code, done.out) == (0, "restored README.md, discarded in feat-x\n"), done
    assert (repo.path.parent / "feat-x/README.md").read_text() == "my work\n" and not entry.exists()


def test_repair_lists_it_again(entry: Path, repo: Repo) -> None:
    assert "feat-x is listed in the trash again" in imi("repair", cwd=repo.path).out
    assert listed(repo)["listed"] is True
    assert imi("undo", entry.name, cwd=repo.path).code == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda note: note["data"]["files"][0].update(path="../outside.txt"), "its note is damaged"),
        (lambda note: note["data"]["files"][0].update(path=".git/config"), "its note is damaged"),
        (lambda note: note["data"].update(admin_dir="/tmp"), "its note names another repository"),
        (lambda note: note.update(id="0000000000"), "its note names another folder"),
        (lambda note: note.update(how="removed"), "its note is damaged"),
    ],
)
def test_a_forged_note_is_not_followed(entry: Path, repo: Repo, change: Any, says: str) -> None:
    note = json.loads((entry / "files.json").read_text())
    change(note)
    (entry / "files.json").write_text(json.dumps(note))
    assert says in listed(repo)["problem"]
    done = imi("undo", entry.name, cwd=repo.path)
    assert done.code == 1 and says in done.err and str(entry) in done.err
    assert (repo.path.parent / "feat-x/README.md").read_text() == "hello\n" and entry.exists()
