"""What every test gets: a home of its own, no network, no git configuration of the machine, real repositories on request."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from imi_monitor import host, programs
from tests import postgres_server, rabbitmq_server
from tests.helpers import Repo
from tests.postgres_server import PostgresServer
from tests.rabbitmq_server import RabbitServer
from tests.redis_server import RedisServer, running_server
from tests.shared_server import shared_server

# A shell's `&` leaves ctrl-c ignored and `nohup` the hangup, and so they would be in every program that a test starts; what
# has a handler here is as usual there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# A claim knows its holder's session by the session's leader. Where the leader is outside of this system or gone, as under
# some CI services, the tests make a session of their own.
if host.start_time(os.getsid(0)) is None and os.getpgrp() != os.getpid():
    os.setsid()

# How long an example takes says more about the machine than about the code; examples share the folders of their test.
settings.register_profile(
    "imi", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("imi")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers for each core: half of the suite's time is waiting for terminals, timers, disks and processes."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_finish() -> None:
    """Modules live until the end. Without them in each garbage collection, tests of the dashboard take a quarter less
    processor time, and an eighth less again with rarer collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long forms run only when asked for by `-m soak`. They are left out and not skipped: what is skipped lacks
    something, and its reason is told."""
    if "soak" in (config.option.markexpr or ""):
        return
    long = [item for item in items if "soak" in item.keywords]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if "soak" not in item.keywords]


PACKAGE = str(Path(__file__).parent.parent / "imi_monitor") + os.sep


def _refuse_plain_names(event: str, args: tuple[object, ...]) -> None:
    """Let a call fail by which imi starts a program that it has not looked up with `programs.find`."""
    if event not in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        return
    if isinstance(args[0], str | bytes | os.PathLike) and os.path.isabs(os.fsdecode(args[0])):
        return
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith((PACKAGE, os.path.dirname(__file__))):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        raise AssertionError(f"{frame.f_code.co_filename}:{frame.f_lineno} starts {args[0]!r} by its name")


sys.addaudithook(_refuse_plain_names)


@pytest.fixture(scope="session")
def path_without_gh(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH with everything but `gh`: whether the machine has one, and is logged in, must not show in any test."""
    kept = []
    for folder in os.get_exec_path():
        if os.path.exists(os.path.join(folder, "gh")):
            copy = tmp_path_factory.mktemp("path")
            for name in os.listdir(folder):
                if name != "gh":
                    (copy / name).symlink_to(os.path.join(folder, name))
            folder = str(copy)
        kept.append(folder)
    return os.pathsep.join(kept)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, path_without_gh: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private HOME and a clean git environment, so that no test reads or writes the user's own."""
    home = tmp_path / "home"
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_", "IMI_", "ZELLIJ", "TMUX", "CLAUDE", "CODEX", "GEMINI")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", path_without_gh)
    monkeypatch.setenv("DENKER_MEMORY_DATA_PATH", str(tmp_path / "denker" / "memory"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Test\n\temail = test@example.invalid\n"
        '[init]\n\tdefaultBranch = main\n[protocol "file"]\n\tallow = always\n'
    )
    monkeypatch.setattr(programs, "_repositories", {})  # those of other tests
    monkeypatch.chdir(tmp_path)
    yield home


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A real Redis of this test alone."""
    with running_server(tmp_path / "redis") as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """The RabbitMQ of this session, for all workers: names of exchanges and queues are a test's own."""
    rabbitmq_server.skip_without()
    root = _session_folder(tmp_path_factory)

    def start() -> dict[str, Any]:
        server = RabbitServer(root / "rabbitmq")
        server.start()
        return {"ports": [server.port, server.epmd, server.dist, server.tls]}

    def of(info: dict[str, Any]) -> RabbitServer:
        return RabbitServer(root / "rabbitmq", *info["ports"])

    with shared_server(root, "rabbitmq", start, lambda info: of(info).stop()) as info:
        yield of(info)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The PostgreSQL of this session, for all workers: each test has a database of its own."""
    postgres_server.skip_without()

    def start() -> dict[str, Any]:
        server = PostgresServer(postgres_server.new_folder())
        server.create()
        server.start()
        return {"folder": str(server.folder), "port": server.port}

    def stop(info: dict[str, Any]) -> None:
        PostgresServer(Path(info["folder"])).stop()
        shutil.rmtree(info["folder"])

    with shared_server(_session_folder(tmp_path_factory), "postgres", start, stop) as info:
        yield PostgresServer(Path(info["folder"]), info["port"])


@pytest.fixture
def database_url(postgres: PostgresServer) -> Iterator[str]:
    """The address of a new, empty database of this test."""
    with postgres.new_database() as url:
        yield url


@pytest.fixture
def small_disk(tmp_path: Path) -> tuple[str, ...]:
    """The command that runs another one with a file system of 2 MB at `tmp_path/small`, gone when it ends."""
    unshare = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
    place = tmp_path / "small"
    place.mkdir()
    script = 'mount -t tmpfs -o size=2m,mode=0700 none "$0" && exec "$@"'
    command = (*unshare, "sh", "-c", script, str(place))
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode:
        pytest.skip("this user may not mount a small file system")
    return command


def _session_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of the session have."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A plain repository `app` with three files and two commits on `main`, and no remote."""
    return Repo.create(tmp_path / "app")


@pytest.fixture
def cloned(tmp_path: Path) -> Repo:
    """A clone of a bare `origin`: `main` is pushed, so there is an upstream."""
    return Repo.create_with_origin(tmp_path / "app", tmp_path / "origin.git")


@pytest.fixture
def cluster(tmp_path: Path) -> Repo:
    """iMi's layout: `coolcode/trunk-main` with an origin, `.iMi/` and `sync/repo/` beside it."""
    home = tmp_path / "coolcode"
    made = Repo.create_with_origin(home / "trunk-main", tmp_path / "coolcode.git")
    (home / ".iMi").mkdir()
    (home / "sync" / "repo").mkdir(parents=True)
    return made


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that puts a shell script in place of git and returns its folder; `$real_git` is the real program."""
    folder, real = tmp_path / "shim", shutil.which("git")
    folder.mkdir()

    def put(script: str) -> Path:
        program = folder / "git"
        program.write_text(f"#!/bin/sh\nreal_git='{real}'\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return folder

    return put


@pytest.fixture
def count_git(shim: Callable[[str], Path], tmp_path: Path) -> Callable[[], int]:
    """Return a function that counts the git processes of imi (not those of the test) since the start of the test."""
    log = tmp_path / "git-processes"
    log.touch()
    shim(f'[ "$GIT_OPTIONAL_LOCKS" = 0 ] && echo started >> "{log}"; exec "$real_git" "$@"')
    return lambda: len(log.read_text().splitlines())
