"""`make mutants`: draws single changes of the dangerous modules, runs their tests, prints a table and the survivors.

`--named` tries the faults of `named.toml` instead: those that the protocol of a team must notice, each with its tests.
`--seed` makes a draw repeatable as long as the modules do not change. A line is drawn first and then one of its changes, so that
a table of many words does not fill the draw. Which tests execute a line is measured once (`build/`), and each change is tried by
those tests, the shortest first. Changes that `equivalent.toml` lists cannot be noticed and do not count.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.helpers import ROOT
from tests.mutants.belonging_tests import TESTS
from tests.mutants.changes import Change, list_changes
from tests.mutants.reached_statements import ReachedStatements
from tests.mutants.trial import BROKEN, HUNG, KILLED, SURVIVED, Mutant, Verdict, Workspace, end_all

EQUIVALENT, NAMED = (Path(__file__).with_name(name) for name in ("equivalent.toml", "named.toml"))
_LEAST_KILLED = 0.9
_RECORD = ROOT / "build" / "reached-statements.json"
Given = TypeVar("Given")
Result = TypeVar("Result")


def main(words: list[str]) -> int:
    """1 if more than a tenth of the changes that matter survived, 2 for a usage error or a test that fails by itself."""
    options = _parser().parse_args(words)
    modules = [name for name in TESTS if any(part in name for part in options.only)] if options.only else [*TESTS]
    if not modules and not options.named:
        print(f"no module contains {' or '.join(options.only)}: there are {', '.join(TESTS)}", file=sys.stderr)
        return 2
    drawn = named_mutants(options.only) if options.named else draw(modules, options.count, options.seed)
    print(f"{len(drawn)} named changes" if options.named else f"{len(drawn)} changes, seed {options.seed}", flush=True)
    if not os.nice(0):
        os.nice(10)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also in the background, where a shell has them ignored
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="imi-mutants-", ignore_cleanup_errors=True) as folder:
        reached = ReachedStatements(_RECORD)
        if not options.named:
            _record(reached, reached.list_unknown({mutant.module for mutant in drawn}), Path(folder), options.jobs)
        results = _try_all(drawn, reached, Path(folder), options.jobs)
    return _report(results, least=1.0 if options.named else _LEAST_KILLED)


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


def named_mutants(only: list[str]) -> list[Mutant]:
    """The faults of `named.toml` whose name or module contains one of these words, or all."""
    found = []
    for one in tomllib.loads(NAMED.read_text())["mutant"]:
        source = (ROOT / "imi_monitor" / one["module"]).read_bytes()
        old = one["old"].encode()
        start = source.index(old)
        if not only or any(part in one["module"] or part in one["fault"] for part in only):
            change = Change(source, start, start + len(old), one["new"].encode())
            found.append(Mutant(one["module"], change, tuple(one["tests"])))
    return found


def equivalents() -> dict[tuple[str, str, str], str]:
    """The changes that no test can notice, and why."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    return {(one["module"], one["old"], one["new"]): one["why"] for one in listed}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...", description=__doc__)
    parser.add_argument("only", nargs="*", help="only modules whose path contains one of these words")
    parser.add_argument("--named", action="store_true", help="the faults of named.toml, all of which must be noticed")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="processes at once")
    return parser


def _record(reached: ReachedStatements, files: list[str], folder: Path, jobs: int) -> None:
    """Measure which statements the tests of these files execute."""
    if files:
        print(f"measuring once what the tests of {len(files)} files execute", flush=True)
    for file, found in _in_parallel(lambda workspace, file: workspace.record(reached, file), files, folder, jobs):
        reached.add(file, found)


def _try_all(drawn: list[Mutant], reached: ReachedStatements, folder: Path, jobs: int) -> list[tuple[Mutant, Verdict]]:
    def attempt(workspace: Workspace, mutant: Mutant) -> tuple[Mutant, Verdict]:
        verdict = workspace.attempt(mutant, reached.list_reaching(mutant.module, mutant.change.line))
        print(_line(mutant, verdict), flush=True)
        return mutant, verdict

    return [*_in_parallel(attempt, drawn, folder, jobs)]


def _in_parallel(
    work: Callable[[Workspace, Given], Result], given: list[Given], folder: Path, jobs: int
) -> Iterator[Result]:
    """The results in the order of what was given; each thread has a workspace."""
    place = threading.local()

    def in_own_workspace(one: Given) -> Result:
        if not hasattr(place, "workspace"):
            place.workspace = Workspace(Path(tempfile.mkdtemp(dir=folder)))
        return work(place.workspace, one)

    pool = ThreadPoolExecutor(jobs)
    try:
        yield from pool.map(in_own_workspace, given)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        end_all()


def _line(mutant: Mutant, verdict: Verdict) -> str:
    where = f"{mutant.module}:{mutant.change.line}"
    by = verdict.by or " -> ".join(mutant.change.lines).replace("\n", " ")
    return f"{where:<48} {verdict.outcome:<9} {verdict.seconds:6.1f} s  {by}"


def _report(results: list[tuple[Mutant, Verdict]], least: float) -> int:
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
    print(f"\n{noticed} of {judged} noticed ({noticed / max(judged, 1):.0%}); at least {least:.0%} wanted")
    return 2 if broken else int(noticed < judged * least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
