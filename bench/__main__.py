"""`make bench` (ARGS="claims removal" for some): runs the benchmarks and prints one table."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench
from bench.common import Row, own_environment


def main(wanted: list[str]) -> int:
    """Run the wanted benchmarks, or all; 1 when a budget was not kept."""
    modules = [m.name for m in pkgutil.iter_modules(bench.__path__) if m.name not in ("common", "__main__", "ui_rows")]
    unknown = [name for name in wanted if name not in modules]
    if unknown:
        print(f"no benchmark {unknown[0]!r}: there are {', '.join(modules)}", file=sys.stderr)
        return 2
    missed = 0
    print(f"{'what':<58} {'value':>12}   {'floor':>10} {'ratio':>7} {'budget':>7}")
    for name in wanted or modules:
        with own_environment():
            for row in importlib.import_module(f"bench.{name}").run():
                missed += row.kept is False
                print(_line(row), flush=True)
    return 1 if missed else 0


def _line(row: Row) -> str:
    floor = "" if row.floor is None else f"{row.floor:.3g}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    sign = ">=" if row.at_least else "<="
    budget = "" if row.budget is None else f"{sign}{row.budget:g}"
    verdict = {None: "", True: "ok", False: "MISSED"}[row.kept]
    value = f"{row.value:,.3f}" if row.value < 1000 else f"{row.value:,.0f}"
    name = f"{row.name} / {row.floor_name}" if row.floor_name else row.name
    return f"{name:<58} {value:>12} {row.unit:<6} {floor:>7} {ratio:>7} {budget:>7}  {verdict}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
