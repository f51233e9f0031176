"""Standard streams that cannot be used, and every verb with what shows that it was done."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import fork_server
from tests.cli.faults import World, make
from tests.helpers import Ran, git, imi, imi_argv

OPEN, CLOSED, FULL, BROKEN = "open", "closed", "full", "broken"
Streams = tuple[str, str, str]
USUAL: Streams = (OPEN, OPEN, OPEN)
EVERY_CLOSED = [streams for streams in itertools.product((OPEN, CLOSED), repeat=3) if CLOSED in streams]
UNUSABLE: list[Streams] = [
    *EVERY_CLOSED,
    (OPEN, FULL, OPEN),
    (OPEN, OPEN, FULL),
    (OPEN, FULL, FULL),
    (CLOSED, FULL, FULL),
    (OPEN, BROKEN, OPEN),
    (OPEN, OPEN, BROKEN),
    (OPEN, BROKEN, BROKEN),
    (OPEN, CLOSED, FULL),
    (OPEN, FULL, CLOSED),
]
SOME: list[Streams] = [
    (CLOSED, CLOSED, CLOSED),
    (OPEN, CLOSED, OPEN),
    (OPEN, OPEN, CLOSED),
    (OPEN, FULL, FULL),
    (OPEN, BROKEN, BROKEN),
]


@dataclass(frozen=True)
class Verb:
    """A command line, what comes before it, whether it only prints, and how to see that it was done."""

    words: str
    before: tuple[str, ...] = ()
    done: Callable[[World], bool] | None = None  # None: it only prints
    status: int = 0
    removes_before: bool = False  # in each copy of the world: a trash entry is refused when its folder is a copy


def _owner(world: World) -> object:
    found = world.ask("SELECT agent_id FROM claims WHERE worktree_name = 'feat-login'")
    return found[0][0] if found else None


def _heartbeats(world: World) -> object:
    return world.ask("SELECT heartbeat_at IS NOT claimed_at FROM claims WHERE worktree_name = 'feat-login'")[0][0]


def _there(name: str) -> Callable[[World], bool]:
    return lambda world: (world.path(name) / "src" / "api.py").is_file()


def _gone(name: str) -> Callable[[World], bool]:
    return lambda world: not world.path(name).exists()


def _type(world: World) -> bool:
    return bool(world.ask("SELECT 1 FROM worktree_types WHERE name = 'spike'"))


def _trash(world: World) -> object:
    return world.ask("SELECT count(*) FROM trash WHERE purged_at IS NULL AND restored_at IS NULL")[0][0]


def _merged(world: World) -> bool:
    return (
        bool(git("branch", "--merged", "main", "--list", "feat/login", cwd=world.trunk))
        and (world.trunk / "new.txt").exists()
    )


def _hooked(world: World) -> bool:
    settings = world.root / "home" / ".claude" / "settings.json"
    return settings.exists() and "imi-hook" in settings.read_text()


def _staged(world: World) -> bool:
    return bool(git("diff", "--cached", "--name-only", cwd=world.path("feat-login")))


def _note(world: World, state: str) -> bool:
    return bool(world.ask(f"SELECT 1 FROM notes WHERE {state}"))


def _item(world: World, state: str) -> bool:
    return bool(world.ask(f"SELECT 1 FROM items WHERE {state}"))


def _served(world: World) -> bool:
    settings = world.root / "home" / ".claude.json"
    return settings.exists() and "imi" in settings.read_text()


def _workspace(world: World) -> Path:
    return world.root / "denker" / "workspace" / "default"


LOGIN = ("feat login",)
ITEM = (*LOGIN, "item add page")
CHANGED = (*LOGIN, "(change)")
NOTED = (*CHANGED, "notes add login new.txt:1 why")
CLAIMED = (*LOGIN, "claim login --agent a")
VERBS = {
    "feat": Verb("feat other", LOGIN, _there("feat-other")),
    "add": Verb("add fix other", LOGIN, _there("fix-other")),
    "review": Verb("review 7", ("(pull request)",), _there("review-7")),
    "go": Verb("go login", LOGIN),
    "trunk": Verb("trunk"),
    "rename": Verb("rename login sign-in", LOGIN, _there("feat-sign-in")),
    "sync": Verb("sync", (*LOGIN, "(shared file)"), lambda world: (world.path("feat-login") / "new.toml").is_symlink()),
    "command": Verb(
        "command touch login", ("(command)", *LOGIN), lambda world: (world.path("feat-login") / "ran").exists()
    ),
    "commands": Verb("commands", ("(command)", *LOGIN)),
    "exec": Verb("exec login -- touch ran", LOGIN, lambda world: (world.path("feat-login") / "ran").exists()),
    "types list": Verb("types list"),
    "types add": Verb("types add spike", (), _type),
    "types remove": Verb("types remove spike", ("types add spike",), lambda world: not _type(world)),
    "list": Verb("list", LOGIN),
    "status": Verb("status", LOGIN),
    "diff": Verb("diff login", LOGIN),
    "log": Verb("log login", LOGIN),
    "collisions": Verb("collisions", LOGIN),
    "stage": Verb("stage login", CHANGED, _staged),
    "unstage": Verb("unstage login", (*CHANGED, "stage login"), lambda world: not _staged(world)),
    "discard": Verb("discard login .", CHANGED, lambda world: not (world.path("feat-login") / "new.txt").exists()),
    "read": Verb("read login .", CHANGED, lambda world: bool(world.ask("SELECT 1 FROM read_parts"))),
    "unread": Verb("unread", CHANGED),
    "notes list": Verb("notes list login", NOTED),
    "notes add": Verb("notes add login new.txt:1 why", CHANGED, lambda world: _note(world, "text = 'why'")),
    "notes send": Verb("notes send login", NOTED, lambda world: _note(world, "round = 1")),
    "notes answer": Verb("notes answer 1 because", NOTED, lambda world: _note(world, "answer = 'because'")),
    "notes done": Verb("notes done 1", NOTED, lambda world: _note(world, "done_at IS NOT NULL")),
    "item add": Verb("item add page", LOGIN, lambda world: _item(world, "title = 'page'")),
    "board": Verb("board", ITEM),
    "batch": Verb("batch", LOGIN, lambda _: True),
    "workspace watch": Verb("workspace watch .", LOGIN, status=1),  # it is none
    "workspace unwatch": Verb("workspace unwatch .", LOGIN, status=1),
    "workspace watched": Verb("workspace watched", LOGIN, lambda _: True),
    "sync-state": Verb("sync-state", LOGIN, status=1),  # there are no state files
    "item template": Verb(
        "item template tasks/x.json", LOGIN, lambda world: (world.trunk / "tasks" / "x.json").exists()
    ),
    "item start": Verb("item start 1 codex", ITEM, status=1),  # no codex is installed
    "item list": Verb("item list", ITEM),
    "item show": Verb("item show 1", ITEM),
    "item edit": Verb("item edit 1 --title more", ITEM, lambda world: _item(world, "title = 'more'")),
    "item assign": Verb("item assign 1 ana", ITEM, lambda world: _item(world, "agent_id = 'ana'")),
    "item move": Verb("item move 1 blocked", ITEM, lambda world: _item(world, "status = 'blocked'")),
    "item block": Verb("item block 1", ITEM, lambda world: _item(world, "status = 'blocked'")),
    "item done": Verb("item done 1", ITEM, lambda world: _item(world, "status = 'completed'")),
    "item fail": Verb("item fail 1", ITEM, lambda world: _item(world, "status = 'failed'")),
    "item cancel": Verb("item cancel 1", ITEM, lambda world: _item(world, "status = 'cancelled'")),
    "item retry": Verb("item retry 1", (*ITEM, "item done 1"), lambda world: _item(world, "status = 'pending'")),
    "query": Verb("query performance", LOGIN),
    "events": Verb("events", LOGIN),
    "monitor": Verb("monitor", LOGIN, status=1),
    "watch": Verb("watch --once", LOGIN),
    "hosts": Verb("hosts", LOGIN, status=1),
    "layout": Verb("layout tmux"),
    "serve": Verb("serve --unit"),
    "demo": Verb("demo watch --once"),
    "claim": Verb("claim login --agent a", LOGIN, lambda world: _owner(world) == "a"),
    "claim --json": Verb("claim login --agent a --json", LOGIN, lambda world: _owner(world) == "a"),
    "claim of another": Verb("claim login --agent b --json", CLAIMED, lambda world: _owner(world) == "a", status=1),
    "heartbeat": Verb("heartbeat login --agent a", CLAIMED, lambda world: bool(_heartbeats(world))),
    "verify-lock": Verb("verify-lock login --agent a", CLAIMED, lambda world: _owner(world) == "a"),
    "verify-lock of another": Verb("verify-lock login --agent b --json", CLAIMED, lambda _: True, status=1),
    "verify-lock of nothing": Verb("verify-lock nothing --agent b", CLAIMED, lambda _: True, status=2),
    "release": Verb("release login --agent a", CLAIMED, lambda world: _owner(world) is None),
    "claims": Verb("claims", CLAIMED),
    "queue": Verb("queue", CLAIMED),
    "commit": Verb(
        "commit login -m done",
        (*CHANGED, "stage login"),
        lambda world: git("log", "-1", "--format=%s", cwd=world.path("feat-login")) == "done",
    ),
    "push": Verb(
        "push login",
        (*LOGIN, "(commit)"),
        lambda world: bool(git("ls-remote", "origin", "feat/login", cwd=world.trunk)),
    ),
    "update": Verb("update login", LOGIN, _there("feat-login")),
    "propose": Verb("propose login", LOGIN, status=1),
    "merge": Verb("merge login", (*LOGIN, "(commit)"), _merged),
    "remove": Verb("remove login", LOGIN, _gone("feat-login")),
    "close": Verb("close login", LOGIN, _gone("feat-login")),
    "undo": Verb("undo", LOGIN, _there("feat-login"), removes_before=True),
    "trash list": Verb("trash list", LOGIN, removes_before=True),
    "trash restore": Verb("trash restore feat-login", LOGIN, _there("feat-login"), removes_before=True),
    "trash purge": Verb("trash purge feat-login --yes", LOGIN, lambda world: _trash(world) == 0, removes_before=True),
    "prune": Verb("prune --dry-run", LOGIN, _there("feat-login")),
    "repair": Verb("repair", LOGIN, _there("feat-login")),
    "sessions": Verb("sessions", LOGIN),
    "session show": Verb("session show nothing", LOGIN, status=1),
    "tasks": Verb("tasks", LOGIN),
    "stats": Verb("stats", LOGIN),
    "agents describe": Verb(
        "agents describe a --role tester", CLAIMED, lambda world: bool(world.ask("SELECT 1 FROM agents"))
    ),
    "agents forget": Verb("agents forget nothing", LOGIN, status=1),
    "agents teams": Verb("agents teams", LOGIN),
    "integrations": Verb("integrations", LOGIN),
    "hooks install": Verb("hooks install claude", ("(claude)",), _hooked),
    "hooks status": Verb("hooks status", ("(claude)",)),
    "hooks uninstall": Verb(
        "hooks uninstall claude", ("(claude)", "hooks install claude"), lambda world: not _hooked(world)
    ),
    "agents": Verb("agents", LOGIN),
    "agents explain": Verb("agents explain nothing", LOGIN, status=1),
    "agents seen": Verb("agents seen", LOGIN),
    "start": Verb("start codex --prompt hello --in login", LOGIN, status=1),  # no codex is installed
    "runs": Verb("runs", LOGIN),
    "prs": Verb("prs", LOGIN),
    **{
        verb.split()[0]: Verb(verb, LOGIN, status=1)
        for verb in (
            "logs 7",
            "answer 7 yes",
            "say 7 hello",
            "interrupt 7",
            "stop 7",
            "resume 7",
            "attach 7",
            "checkpoints 7",
        )
    },
    **{
        verb.rsplit(" ", 1)[0]: Verb(verb, LOGIN, status=1)  # there is no such run, workspace or team
        for verb in (
            "runs archive 7",
            "runs restore 7",
            "compare 7",
            "keep login",
            "file read a",
            "file find a",
            "workspace archive nothing",
            "workspace clean nothing",
            "workspace show nothing",
            "workspace deliver nothing",
        )
    },
    "file list": Verb("file list", LOGIN, status=1),
    "file research": Verb("file research", LOGIN, status=1),
    "file edit": Verb("file edit a --old x --new y", LOGIN, status=1),
    "file deliver": Verb("file deliver a b", LOGIN, status=1),
    "file write": Verb("file write a --content x", LOGIN, lambda world: _workspace(world).joinpath("a").is_file()),
    "file history": Verb("file history", LOGIN),
    "workspace list": Verb("workspace list", LOGIN),
    "workspace migrate": Verb("workspace migrate", LOGIN, lambda _: True),
    "where": Verb("where", LOGIN),
    "overview": Verb("overview", LOGIN),
    "history": Verb("history nothing", LOGIN),
    "archive": Verb("archive", LOGIN),
    "reserve": Verb("reserve branch feat/x", LOGIN, status=1),
    "intent": Verb("intent ship", LOGIN, lambda world: _note(world, "kind = 'intent'")),
    "milestone": Verb("milestone reached", LOGIN, lambda world: _note(world, "kind = 'milestone'")),
    "note": Verb("note learned", LOGIN, lambda world: _note(world, "kind = 'lesson'")),
    "context list": Verb("context list", LOGIN),
    "context show": Verb("context show", LOGIN),
    "context save": Verb("context save", LOGIN, status=1),
    "context resume": Verb("context resume", LOGIN, status=1),
    "context open": Verb("context open", LOGIN, lambda _: True),  # there is no terminal
    "web": Verb("web --port none", LOGIN, status=2),  # it serves until it is stopped
    "mcp": Verb("mcp", LOGIN, lambda _: True),
    "mcp install": Verb("mcp install claude", ("(claude)",), _served),
    "mcp status": Verb("mcp status", ("(claude)",)),
    "mcp uninstall": Verb("mcp uninstall claude", ("(claude)", "mcp install claude"), lambda world: not _served(world)),
    "trust": Verb("trust", LOGIN, lambda world: bool(world.ask("SELECT 1 FROM trust"))),
    "doctor": Verb("doctor", LOGIN),
    "disk": Verb("disk", LOGIN),
    "backup": Verb("backup kept.backup", LOGIN, lambda world: (world.trunk / "kept.backup").stat().st_size > 1000),
    "backup restore": Verb(
        "backup restore kept.backup", (*LOGIN, "backup kept.backup", "types add spike"), lambda world: not _type(world)
    ),
    "uninstall": Verb("uninstall", ("(claude)", "hooks install claude"), lambda world: not _hooked(world)),
    "config": Verb("config"),
    "paths": Verb("paths"),
    "shell-init": Verb("shell-init bash"),
    "completion": Verb("completion zsh", LOGIN),
    "reset-terminal": Verb("reset-terminal", status=1),
    "help": Verb("help"),
    "--version": Verb("--version"),
    "unknown": Verb("clam", status=2),
    "bad option": Verb("claim login --agnet a", LOGIN, lambda world: _owner(world) is None, status=2),
    "plain": Verb("", LOGIN),
}


def _pull_request(world: World) -> None:
    git("push", "-q", "origin", "main:refs/pull/7/head", cwd=world.trunk)


def _commit(world: World) -> None:
    (world.path("feat-login") / "new.txt").write_text("new\n")
    git("add", "new.txt", cwd=world.path("feat-login"))
    git("commit", "-q", "-m", "new", cwd=world.path("feat-login"))


def _config(world: World) -> Path:
    path = world.root / "home" / ".config" / "iMi" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _change(world: World) -> None:
    (world.path("feat-login") / "new.txt").write_text("new\n")


STEPS: dict[str, Callable[[World], object]] = {
    "(pull request)": _pull_request,
    "(commit)": _commit,
    "(change)": _change,
    "(shared file)": lambda world: (world.path("sync") / "repo" / "new.toml").write_text("b = 2\n"),
    "(command)": lambda world: _config(world).write_text('[commands]\ntouch = "touch ran"\n'),
    "(claude)": lambda world: (world.root / "home" / ".claude").mkdir(),
}


def prepare(tmp_path: Path, verb: Verb) -> World:
    world = make(tmp_path)
    for step in verb.before:
        if step in STEPS:
            STEPS[step](world)
        else:
            _must(world, step)
    world.keep()
    put_back(world, verb)
    return world


def put_back(world: World, verb: Verb) -> None:
    """The world as it is before the verb."""
    world.put_back()
    if verb.removes_before:
        _must(world, "remove login")


def _must(world: World, words: str) -> None:
    ran = imi(*words.split(), cwd=world.trunk, env=environment(world))
    assert ran.code == 0, (words, ran)


def environment(world: World) -> dict[str, str]:
    return {key: value for key, value in world.env.items() if not key.startswith("PYTHON")}


def error_log(world: World) -> Path:
    return world.root / "home" / ".local" / "state" / "imi" / "errors.log"


def run(world: World, words: str, streams: Streams, *, real: bool = False) -> Ran:
    """`imi` with these streams; `out` and `err` are what arrived at the open ones."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_stream(kind, number, world.root.parent)) for number, kind in enumerate(streams)]
        status = (_real if real else _forked)(world, words, files)
    said = [_content(world.root.parent / f"stream{number}") for number in (1, 2)]
    return Ran(status, *said)


@contextlib.contextmanager
def _stream(kind: str, number: int, folder: Path) -> Iterator[int | None]:
    target = folder / f"stream{number}"
    target.unlink(missing_ok=True)
    if kind == CLOSED:
        yield None
        return
    if kind == BROKEN:
        reader, handle = os.pipe()
        os.close(reader)
    elif kind == FULL:
        handle = os.open("/dev/full", os.O_RDWR)
    else:
        handle = os.open(target, os.O_RDWR | os.O_CREAT)
    try:
        yield handle
    finally:
        os.close(handle)


def _content(path: Path) -> str:
    return path.read_text(errors="surrogateescape") if path.exists() else ""


def _forked(world: World, words: str, files: list[int | None]) -> int:
    env = {**os.environ, **environment(world)}
    return fork_server.run_with_streams(words.split(), files, cwd=world.trunk, env=env, timeout=60)


def _real(world: World, words: str, files: list[int | None]) -> int:
    closing = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number, file in enumerate(files) if file is None)
    argv = ["sh", "-c", f'exec "$@" {closing}', "sh", *imi_argv(*words.split())]
    nothing = subprocess.DEVNULL
    given = [nothing if file is None else file for file in files]
    done = subprocess.run(
        argv, stdin=given[0], stdout=given[1], stderr=given[2], cwd=world.trunk, env=world.env, timeout=60, check=False
    )
    return done.returncode
