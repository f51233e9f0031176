"""The wheel, built from this tree and installed into an empty environment, works and carries its styles."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    # no build isolation: the build back end is pinned and installed already, and tests need no registry
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_package_and_the_styles(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "imi_monitor/cli/command_runner.py" in names
    assert any(name.startswith("imi_monitor/styles/") for name in names)
    assert {"imi_monitor/cli/web/page.html", "imi_monitor/cli/web/page.js", "imi_monitor/cli/web/page.css"} <= set(
        names
    )
    assert any(name.endswith("data/share/man/man1/imi.1") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "bench/", "shared/"))]


def test_it_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = str(home / "bin" / "python")
    site = next((home / "lib").glob("python*/site-packages"))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    for command in ("imi", "imi-monitor"):
        shown = subprocess.run(
            [str(home / "bin" / command), "--help"], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
        )
        assert shown.returncode == 0, shown.stderr
        assert "feat" in shown.stdout
    found = subprocess.run(
        [python, "-I", "-c", "from imi_monitor.paths import styles_dir; print(styles_dir())"],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=tmp_path,
    )
    assert found.stdout.strip() == str(site / "imi_monitor" / "styles"), found.stderr


def test_the_entry_points_are_declared(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    entry = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
    text = archive.read(entry).decode()
    assert "imi = imi_monitor.__main__:main" in text
    assert "imi-monitor = imi_monitor.__main__:main" in text
