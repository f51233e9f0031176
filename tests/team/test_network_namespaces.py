"""Two homes in network namespaces of their own: a cut link is one sentence, ends what was claimed across it, and heals.

Each namespace is that of a process that sleeps; `nsenter` runs imi there. Nothing of the machine's own network is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.helpers import ROOT, Ran, wait_for
from tests.limits import LIMIT, read_line
from tests.redis_server import PROGRAM, free_port
from tests.team.home_kit import TeamHome

_SLEEPS = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(3600)"]


def run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, (argv, done.stderr)


class Network:
    """A namespace with Redis in it, and one for each home, joined with the first by a link."""

    def __init__(self, stack: ExitStack) -> None:
        self.middle = self._namespace(stack, [])
        self.homes: dict[str, int] = {}
        for number, name in enumerate(("left", "right"), 1):
            pid = self.homes[name] = self._namespace(stack, self.inside(self.middle))
            run(
                *self.inside(self.middle),
                "ip",
                "link",
                "add",
                f"to-{name}",
                "type",
                "veth",
                "peer",
                "home",
                "netns",
                str(pid),
            )
            for place, device, address in ((self.middle, f"to-{name}", 1), (pid, "home", 2)):
                run(*self.inside(place), "ip", "address", "add", f"10.77.{number}.{address}/24", "dev", device)
                for one in ("lo", device):
                    run(*self.inside(place), "ip", "link", "set", one, "up")

    def _namespace(self, stack: ExitStack, inside: Sequence[str]) -> int:
        process = subprocess.Popen(
            [*inside, "unshare", "--net", *_SLEEPS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        stack.callback(process.wait, LIMIT)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        if read_line(process.stdout) != "ready\n":
            pytest.skip("this user may not make network namespaces here")
        return process.pid

    def inside(self, pid: int) -> list[str]:
        return ["nsenter", "--net", "--target", str(pid)]

    def set_link(self, name: str, state: str) -> None:
        run(*self.inside(self.middle), "ip", "link", "set", f"to-{name}", state)


class NetworkHome(TeamHome):
    """A home whose imi runs in its own network."""

    def __init__(self, folder: Path, name: str, url: str, inside: list[str]) -> None:
        super().__init__(folder, name, url)
        self._inside = inside
        (self.home / ".config" / "iMi" / "config.toml").write_text("[team]\nlease_seconds = 3\ninsecure = true\n")

    def there(self, *words: str) -> Ran:
        done = subprocess.run(
            self._argv(*words),
            cwd=self.repo.path,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def serving(self) -> Iterator[None]:
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            self._argv("serve"), cwd=self.repo.path, env=self._env, stdin=nothing, stdout=nothing, stderr=nothing
        )
        try:
            yield
        finally:
            process.kill()
            process.wait(LIMIT)

    def _argv(self, *words: str) -> list[str]:
        return [*self._inside, sys.executable, "-m", "imi_monitor", *words]

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), **self.env}


@pytest.mark.soak  # most of its time is spent waiting for leases and for answers that do not come
def test_two_homes_are_cut_off_and_come_back(tmp_path: Path) -> None:
    if PROGRAM is None or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("network namespaces need root, unshare, nsenter, ip and redis-server")
    with ExitStack() as stack:
        network, port = Network(stack), free_port()
        options = ["--port", str(port), "--bind", "10.77.1.1", "10.77.2.1", "--protected-mode", "no", "--save", ""]
        server = subprocess.Popen(
            [*network.inside(network.middle), PROGRAM, *options, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL
        )
        stack.callback(server.wait, LIMIT)
        stack.callback(server.kill)
        left, right = (
            NetworkHome(tmp_path / "homes", name, f"redis://10.77.{n}.1:{port}", network.inside(network.homes[name]))
            for n, name in enumerate(("left", "right"), 1)
        )
        stack.enter_context(left.serving())
        stack.enter_context(right.serving())
        right.repo.worktree("fix-1")
        wait_for(lambda: left.there("claim", "right:fix-1", "--agent", "a").code == 0)

        network.set_link("left", "down")
        cut = left.there("claim", "right:feat-right", "--agent", "a")
        assert cut.code == 1 and cut.err.count("\n") == 1 and "10.77.1.1" in cut.err, cut
        wait_for(lambda: left.there("verify-lock", "right:fix-1", "--agent", "a").code == 1)
        wait_for(lambda: right.imi("claim", "fix-1", "--agent", "b").code == 0)
        assert left.there("verify-lock", "right:fix-1", "--agent", "a").code == 1
        assert right.imi("release", "fix-1", "--agent", "b").code == 0

        network.set_link("left", "up")
        wait_for(lambda: left.there("claim", "right:fix-1", "--agent", "a").code == 0)
        assert right.imi("claim", "fix-1", "--agent", "b").code == 1
