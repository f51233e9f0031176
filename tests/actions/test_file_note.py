"""Discarded files without the registry: found by their note, restored, listed again; a forged note is not followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.actions.removal_kit import set_registry_aside
from tests.helpers import Repo, imi


@pytest.fixture
def entry(repo: Repo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trash entry of a discarded file in feat-x, whose registry is gone."""
    feat = repo.worktree("feat-x")
    feat.write("README.md", "my work\n")
    done = imi("discard", "x", "README.md", "--json", cwd=repo.path)
    assert (feat.path / "README.md").read_text() == "hello\n"
    folder = Path(imi("trash", "list", "--json", cwd=repo.path).data["entries"][0]["trash_path"])
    assert folder.name == done.data["trash_id"]
    set_registry_aside(tmp_path_factory.mktemp("aside"))
    return folder


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
