"""`make mutants`: draws single changes of the dangerous modules, runs their tests, prints a table and the survivors.

`--seed` makes a draw repeatable as long as the modules do not change. A line is drawn first and then one of its changes, so that
a table of many words does not fill the draw. Changes that `equivalent.toml` lists cannot be noticed and do not count.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.helpers import ROOT
from tests.mutants.belonging_tests import TESTS
from tests.mutants.changes import Change, list_changes
from tests.mutants.trial import BROKEN, HUNG, KILLED, SURVIVED, Mutant, Verdict, Workspace, end_all

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
_LEAST_KILLED = 0.9


def main(words: list[str]) -> int:
    """1 if more than a tenth of the changes that matter survived, 2 for a usage error or a test that fails by itself."""
    options = _parser().parse_args(words)
    modules = [name for name in TESTS if any(part in name for part in options.only)] if options.only else [*TESTS]
    if not modules:
        print(f"no module contains {' or '.join(options.only)}: there are {', '.join(TESTS)}", file=sys.stderr)
        return 2
    drawn = draw(modules, options.count, options.seed)
    print(f"{len(drawn)} changes, seed {options.seed}", flush=True)
    os.nice(10)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also in the background, where a shell has them ignored
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="imi-mutants-", ignore_cleanup_errors=True) as folder:
        results = _try_all(drawn, Path(folder), options.jobs)
    return _report(results)


def draw(modules: list[str], count: int, seed: int) -> list[Mutant]:
    """Return `count` changes of different lines, without those that are known to be equivalent."""
    lines: dict[tuple[str, int], list[Change]] = defaultdict(list)
    for module in modules:
        for change in list_changes((ROOT / "imi_monitor" / module).read_bytes()):
            lines[module, change.line].append(change)
    generator, known, drawn = random.Random(seed), equivalents(), []
    for module, line in generator.sample(sorted(lines), len(lines)):
        change = generator.choice(lines[module, line])
        if change.valid and (module, *change.lines) not in known:
            drawn.append(Mutant(module, change))
        if len(drawn) == count:
            break
    return drawn


def equivalents() -> dict[tuple[str, str, str], str]:
    """The changes that no test can notice, and why."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    return {(one["module"], one["old"], one["new"]): one["why"] for one in listed}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...", description=__doc__)
    parser.add_argument("only", nargs="*", help="only modules whose path contains one of these words")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="processes at once")
    return parser


def _try_all(drawn: list[Mutant], folder: Path, jobs: int) -> list[tuple[Mutant, Verdict]]:
    place = threading.local()

    def attempt(mutant: Mutant) -> tuple[Mutant, Verdict]:
        if not hasattr(place, "workspace"):
            place.workspace = Workspace(folder / str(threading.get_native_id()))
        verdict = place.workspace.attempt(mutant)
        print(_line(mutant, verdict), flush=True)
        return mutant, verdict

    pool = ThreadPoolExecutor(jobs)
    try:
        return list(pool.map(attempt, drawn))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        end_all()


def _line(mutant: Mutant, verdict: Verdict) -> str:
    where = f"{mutant.module}:{mutant.change.line}"
    by = verdict.by or " -> ".join(mutant.change.lines).replace("\n", " ")
    return f"{where:<48} {verdict.outcome:<9} {verdict.seconds:6.1f} s  {by}"


def _report(results: list[tuple[Mutant, Verdict]]) -> int:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, verdict in results:
        table[mutant.module][verdict.outcome] += 1
    outcomes = (KILLED, HUNG, SURVIVED, BROKEN)
    print(f"\n{'module':<48}" + "".join(f"{outcome:>10}" for outcome in outcomes))
    for module, counts in sorted(table.items()):
        print(f"{module:<48}" + "".join(f"{counts[outcome]:>10}" for outcome in outcomes))
    survivors = [mutant for mutant, verdict in results if verdict.outcome == SURVIVED]
    for mutant in survivors:
        old, new = mutant.change.lines
        print(f"\nimi_monitor/{mutant.module}:{mutant.change.line}")
        print("\n".join([*(f"- {line}" for line in old.split("\n")), *(f"+ {line}" for line in new.split("\n"))]))
    broken = sorted({verdict.by for _, verdict in results if verdict.outcome == BROKEN})
    for test in broken:
        print(f"\nfails without any change, too: {test}")
    noticed = sum(verdict.outcome in (KILLED, HUNG) for _, verdict in results)
    judged = noticed + len(survivors)
    print(f"\n{noticed} of {judged} noticed ({noticed / max(judged, 1):.0%}); at least {_LEAST_KILLED:.0%} wanted")
    return 2 if broken else int(noticed < judged * _LEAST_KILLED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
