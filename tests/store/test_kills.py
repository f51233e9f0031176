"""kill -9 and torn logs: exactly the acknowledged transactions are there, and state and events agree."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.store import db
from tests.store.crash_experiments import check, experiment

# D1 -----------------------------------------------------------------------------------------------------------------


def killed(tmp_path: Path, rounds: int, mutant: str = "", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = experiment(
        "kills", timeout=3000, path=str(tmp_path / "iMi.db"), rounds=rounds, mutant=mutant, **more
    )
    assert found["acked"] > rounds, found  # the writers did get to work before they were killed
    return found


def survives(found: dict[str, Any]) -> None:
    wrong = {name: found[name] for name in ("lost", "phantom", "twice", "unsound", "apart") if found[name]}
    assert not wrong, found
    assert found["slowest_start"] < 1, found  # K3


def test_a_hundred_killed_writers_lose_no_acknowledged_claim(tmp_path: Path) -> None:
    survives(killed(tmp_path, 50))  # two writers each


@pytest.mark.soak
@pytest.mark.parametrize("writers", [1, 2, 4])
def test_a_thousand_killed_writers_lose_no_acknowledged_claim(tmp_path: Path, writers: int) -> None:
    survives(killed(tmp_path, 1000 // writers, writers=writers, seed=writers))


def test_an_acknowledgement_before_the_commit_is_detected(tmp_path: Path) -> None:
    found = killed(tmp_path, 60, "ack-early")
    assert found["lost"] > 0, found


def test_an_event_in_a_second_transaction_is_detected(tmp_path: Path) -> None:
    found = killed(tmp_path, 60, "two-transactions")
    assert found["apart"] > 0, found


# D2 -----------------------------------------------------------------------------------------------------------------


COMMANDS = 28  # few enough that the log is not moved into the database meanwhile


def torn(tmp_path: Path, trials: int, mutant: str = "") -> tuple[int, set[int]]:
    """(how many broken logs gave an untrue registry, which prefixes of the commands were seen)."""
    path = tmp_path / "iMi.db"
    experiment("leave_wal", path=str(path), commands=COMMANDS, mutant=mutant)
    # no process has these files open: the only one was killed
    main, log = path.read_bytes(), (tmp_path / "iMi.db-wal").read_bytes()
    chance = random.Random(11)
    untrue, prefixes = 0, set()
    for trial in range(trials):
        copy = tmp_path / "torn" / f"{trial}" / "iMi.db"
        copy.parent.mkdir(parents=True)
        copy.write_bytes(main)
        copy.with_name("iMi.db-wal").write_bytes(_broken(log, chance, flip=trial % 2 == 1))
        found = check(str(copy))
        untrue += not (found["sound"] and found["together"])
        prefixes.add(found["events"])
    return untrue, prefixes


def _broken(log: bytes, chance: random.Random, *, flip: bool) -> bytes:
    at = chance.randrange(len(log))
    if not flip:
        return log[:at]
    changed = bytearray(log)
    for offset in range(at, min(at + chance.randrange(1, 9), len(log))):
        changed[offset] ^= 1 << chance.randrange(8)
    return bytes(changed)


def all_prefixes(tmp_path: Path, trials: int) -> None:
    untrue, prefixes = torn(tmp_path, trials)
    assert untrue == 0
    assert len(prefixes) > COMMANDS // 2  # the logs did break at many different commands
    assert prefixes <= set(range(COMMANDS + 1))


def test_five_hundred_torn_logs_lose_only_whole_transactions(tmp_path: Path) -> None:
    all_prefixes(tmp_path, 500)


@pytest.mark.soak
def test_five_thousand_torn_logs_lose_only_whole_transactions(tmp_path: Path) -> None:
    all_prefixes(tmp_path, 5000)


def test_two_transactions_are_detected_in_torn_logs(tmp_path: Path) -> None:
    untrue, _ = torn(tmp_path, 60, "two-transactions")
    assert untrue > 0


def test_an_intact_log_has_every_transaction(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    assert experiment("leave_wal", path=str(path), commands=20)["wal"] > 20 * 4096
    assert check(str(path)) == {"sound": True, "together": True, "events": 20}
    db.connect(str(path)).close()
    assert not path.with_name("iMi.db-wal").exists()  # and the last one who closes tidies up
