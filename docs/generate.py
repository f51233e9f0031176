"""Writes every generated file (`make docs`). `tests/test_docs.py` and `tests/test_generated.py` check that they are current.

A page of docs/ is one entry of PAGES: its file, and the function that gives its new text from its present one. The other
generated files are those of generate_commands.FILES.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))


def _promises(text: str) -> str:
    return _sibling("generate_promises").updated(text)  # type: ignore[no-any-return]


def _events(_: str) -> str:
    return _sibling("generate_events").page()  # type: ignore[no-any-return]


def _sibling(name: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES: dict[str, Callable[[str], str]] = {"promises.md": _promises, "events.md": _events}


def main() -> None:
    for name, new in PAGES.items():
        page = FOLDER / name
        page.write_text(new(page.read_text() if page.exists() else ""))
    _sibling("generate_commands").write()


if __name__ == "__main__":
    main()
