"""What names a vanished registry keeps every worktree claimed until a person starts a new one. # M3"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from imi_monitor import registry_traces
from imi_monitor.store import registry_file
from tests import registry_faults
from tests.helpers import Ran, Repo, imi


@pytest.fixture
def registry(own_home: Path) -> Path:
    return own_home / ".config" / "iMi" / "iMi.db"


def vanish(registry: Path) -> None:
    """The registry and everything beside it are gone."""
    shutil.rmtree(registry.parent)


def claim(repo: Repo, agent: str, *more: str) -> Ran:
    return imi("claim", "feat-x", "--agent", agent, *more, cwd=repo.path)


def is_lost(repo: Repo, trace: str) -> None:
    refused = claim(repo, "thief")
    assert refused.code == 1 and trace in refused.err and "`imi doctor --new-registry`" in refused.err, refused
    assert refused.err.count("\n") == 1
    assert imi("verify-lock", "feat-x", "--agent", "keeper", cwd=repo.path).code == 2


def is_new(repo: Repo) -> None:
    taken = claim(repo, "first")
    assert taken.code == 0 and "(epoch 1)" in taken.out, taken


def test_a_new_registry_is_the_word_of_a_person(repo: Repo, registry: Path) -> None:
    repo.worktree("feat-x")
    assert claim(repo, "keeper").code == 0
    registry_faults.empty_registry(registry)
    is_lost(repo, "is empty, but the ballast")
    started = imi("doctor", "--new-registry", cwd=repo.path)
    assert (started.code, started.out) == (0, f"started a new registry at {registry}: nothing is claimed in it\n")
    is_new(repo)
    again = imi("doctor", "--new-registry", cwd=repo.path)
    assert again.code == 1 and "can be used" in again.err
    assert imi("verify-lock", "feat-x", "--agent", "first", cwd=repo.path).code == 0


def test_the_new_registry_records_what_it_replaces(repo: Repo, registry: Path) -> None:
    repo.worktree("feat-x")
    claim(repo, "keeper")
    registry_faults.delete_registry(registry)
    data = imi("doctor", "--new-registry", "--json", cwd=repo.path).data
    assert len(data["replaces"]) == 1 and data["kept_as"] is None
    event = json.loads(imi("events", "--json", cwd=repo.path).out.splitlines()[0])
    assert (event["type"], event["data"]) == ("registry.started", {"replaces": data["replaces"]})


def test_a_log_that_was_left_is_set_aside(repo: Repo, registry: Path) -> None:
    repo.worktree("feat-x")
    claim(repo, "keeper")
    assert imi("heartbeat", "feat-x", "--agent", "keeper", cwd=repo.path).code == 0
    log = registry.with_name("iMi.db-wal").read_bytes()
    assert log, "a hot command leaves its log"
    registry.unlink()
    is_lost(repo, "is gone")
    kept = imi("doctor", "--new-registry", "--json", cwd=repo.path).data["kept_as"]
    assert Path(kept).read_bytes() == log
    is_new(repo)


@pytest.mark.parametrize("fault", [registry_faults.overwrite_header, registry_faults.make_newer])
def test_an_unusable_registry_is_not_replaced(repo: Repo, registry: Path, fault: object) -> None:
    repo.worktree("feat-x")
    claim(repo, "keeper")
    fault(registry)  # type: ignore[operator]
    before = registry.read_bytes()
    refused = imi("doctor", "--new-registry", cwd=repo.path)
    assert refused.code == 1 and registry.read_bytes() == before


def test_without_traces_a_missing_registry_is_new(repo: Repo, registry: Path) -> None:
    repo.worktree("feat-x")
    claim(repo, "keeper")
    vanish(registry)
    is_new(repo)


def test_a_presence_lock_names_the_registry(cluster: Repo, registry: Path) -> None:
    cluster.worktree("feat-x")
    claim(cluster, "keeper")
    vanish(registry)
    is_lost(cluster, "presence lock")
    elsewhere = Repo.create(cluster.path.parent.parent / "elsewhere")
    elsewhere.worktree("feat-y")
    assert imi("claim", "feat-y", "--agent", "a", cwd=elsewhere.path).code == 0, "nothing names it there"


def test_a_presence_lock_of_another_registry_or_machine_is_no_trace(cluster: Repo, registry: Path) -> None:
    cluster.worktree("feat-x")
    claim(cluster, "keeper")
    lock = cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"
    content = json.loads(lock.read_text())
    for changes in ({"registry": "/elsewhere/iMi.db"}, {"hostname": "other"}, {"registry_id": None}):
        lock.write_text(json.dumps({**content, **changes}, indent=2))
        repository = registry_traces.layout.discover(str(cluster.path))
        assert repository and registry_traces.find_traces(str(registry), [repository.repository]) == []


def test_a_registry_used_with_db_leaves_no_trace_of_the_usual_one(cluster: Repo, registry: Path) -> None:
    cluster.worktree("feat-x")
    other = registry.parent / "other.db"
    assert claim(cluster, "keeper", "--db", str(other)).code == 0
    assert imi("release", "feat-x", "--agent", "keeper", "--db", other, cwd=cluster.path).code == 0
    assert claim(cluster, "keeper", "--db", str(other)).code == 0
    os.unlink(cluster.path.parent / ".iMi" / "presence" / "feat-x.lock")  # to another registry it is a foreign claim
    is_new(cluster)


def test_the_note_of_a_trash_entry_names_the_registry(repo: Repo, registry: Path) -> None:
    repo.worktree("feat-x")
    repo.worktree("feat-y")
    claim(repo, "keeper")
    assert imi("remove", "feat-y", cwd=repo.path).code == 0
    (entry,) = (repo.path / ".git" / "imi" / "trash").iterdir()
    if not (entry / registry_traces.TRASH_NOTE).exists():
        pytest.skip("removals write no note yet")
    vanish(registry)
    is_lost(repo, f"the trash entry {entry}")


def test_installed_hooks_name_the_registry(repo: Repo, registry: Path, own_home: Path) -> None:
    repo.worktree("feat-x")
    claim(repo, "keeper")
    (own_home / ".claude").mkdir()
    assert imi("hooks", "install", "claude", cwd=repo.path).code == 0
    vanish(registry)
    is_lost(repo, "the hooks' folder")
    assert imi("doctor", "--new-registry", cwd=repo.path).code == 0
    assert imi("hooks", "uninstall", "claude", cwd=repo.path).code == 0
    vanish(registry)
    is_new(repo)


def test_the_ballast_is_named_again_by_the_next_command(repo: Repo, registry: Path) -> None:
    repo.worktree("feat-x")
    claim(repo, "keeper")
    os.unlink(registry_file.ballast_path(str(registry)))
    assert imi("list", cwd=repo.path).code == 0
    registry_faults.delete_registry(registry)
    is_lost(repo, "is gone, but the ballast")
