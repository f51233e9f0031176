"""What an agent tries from inside of its wall: each attempt that succeeds is an escape. Standard library only.

`escapes.py OUTSIDE`: a JSON file in the workspace that names what lies outside. Prints the names of the attempts that succeeded,
and those of the acts that must work and did not, as JSON.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

TOKEN = "the-secret-of-the-person"


def main() -> None:
    if sys.argv[1] == "plant":
        _plant(sys.argv[2], sys.argv[3:])
        return
    with open(sys.argv[1], encoding="utf-8") as file:
        outside = json.load(file)
    escaped = [
        name for name, attempt in ATTEMPTS.items() if name not in outside["allowed"] and _succeeds(attempt, outside)
    ]
    broken = [name for name, act in NEEDED.items() if name in outside["needed"] and not _succeeds(act, outside)]
    print(json.dumps({"escaped": escaped, "broken": broken, "tried": len(ATTEMPTS)}))


def _plant(folder: str, names: "list[str]") -> None:
    """Try in every way to leave files of these names in the folder; what comes of it is seen outside."""
    for name in names:
        _plant_one(os.path.join(folder, name))
    with contextlib.suppress(OSError):
        os.rename(folder, folder + ".moved")
        os.makedirs(folder)
        _write(os.path.join(folder, names[0]))


def _plant_one(path: str) -> None:
    inner = os.path.join(path, "inner")
    for attempt in (
        lambda: os.makedirs(os.path.dirname(path), exist_ok=True),
        lambda: _write(path),
        lambda: _replace(path),
        lambda: os.symlink("/dev/null", path),
        lambda: os.unlink(path),
        lambda: os.symlink("/dev/null", path),
        lambda: os.rename(path, path + ".moved"),
        lambda: os.makedirs(inner),
        lambda: _write(os.path.join(inner, "new")),
    ):
        with contextlib.suppress(OSError):
            attempt()


def _succeeds(attempt, outside) -> bool:  # type: ignore[no-untyped-def]
    try:
        return attempt(outside) is not False
    except (OSError, subprocess.SubprocessError) as error:
        print(error, getattr(error, "stderr", ""), file=sys.stderr)
        return False


def _read(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return TOKEN in file.read()


def _write(path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("escaped\n")


def _link_and_write(outside) -> None:  # type: ignore[no-untyped-def]
    os.symlink(outside["file"], "link-out")
    _write("link-out")


def _hard_link(outside) -> None:  # type: ignore[no-untyped-def]
    os.link(outside["file"], "hard-out")
    _write("hard-out")


def _move_in(outside) -> None:  # type: ignore[no-untyped-def]
    os.rename(outside["file"], "moved-in")


def _move_out(outside) -> bool:  # type: ignore[no-untyped-def]
    _write("mine")
    subprocess.run(["mv", "mine", os.path.join(outside["folder"], "moved-out")], check=True, capture_output=True)
    return True


def _proc_root(outside) -> bool:  # type: ignore[no-untyped-def]
    for pid in [name for name in os.listdir("/proc") if name.isdecimal()]:
        for path in (f"/proc/{pid}/root{outside['secret']}", f"/proc/{pid}/cwd/../secret.txt"):
            with contextlib.suppress(OSError):
                if _read(path):
                    return True
    return False


def _environment_of_others(outside) -> bool:  # type: ignore[no-untyped-def]
    with open(f"/proc/{outside['pid']}/environ", "rb") as file:
        return b"IMI_TEST_OUTSIDE" in file.read()


def _connect(path) -> None:  # type: ignore[no-untyped-def]
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
        client.settimeout(2)
        client.connect(path)


def _mount(outside) -> bool:  # type: ignore[no-untyped-def]
    done = subprocess.run(["mount", "-o", "remount,rw", "/"], capture_output=True, check=False)
    return done.returncode == 0 and _succeeds(lambda _: _write(outside["file"]), outside)


def _trace(outside) -> bool:  # type: ignore[no-untyped-def]
    with open(f"/proc/{outside['pid']}/mem", "rb"):
        return True


def _git_config(outside) -> None:  # type: ignore[no-untyped-def]
    _write(os.path.join(outside["common_dir"], "config"))


def _git_hook(outside) -> None:  # type: ignore[no-untyped-def]
    _write(os.path.join(outside["common_dir"], "hooks", "post-commit"))


def _git_command_config(outside) -> bool:  # type: ignore[no-untyped-def]
    done = subprocess.run(["git", "config", "core.fsmonitor", "evil"], capture_output=True, check=False)
    return done.returncode == 0


def _replace(path: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("gitdir: /elsewhere\n")
    os.rename(path + ".new", path)


ATTEMPTS = {
    "read": lambda o: _read(o["secret"]),
    "read by ..": lambda o: _read(os.path.join("..", os.path.basename(o["folder"]), "secret.txt")),
    "write": lambda o: _write(o["file"]),
    "write by ..": lambda o: _write(os.path.join("..", os.path.basename(o["folder"]), "file.txt")),
    "make a file": lambda o: _write(os.path.join(o["folder"], "new.txt")),
    "delete": lambda o: os.unlink(o["file"]),
    "link": _link_and_write,
    "hard link": _hard_link,
    "move in": _move_in,
    "move out": _move_out,
    "write in the home folder": lambda o: _write(os.path.join(o["home"], ".bashrc")) or _persists(o),
    "settings of the agent": lambda o: _write(o["settings"]),
    "proc root": _proc_root,
    "environment of others": _environment_of_others,
    "memory of others": _trace,
    "signal": lambda o: os.kill(o["pid"], 0),
    "end a process": lambda o: os.kill(o["pid"], signal.SIGURG),
    "path socket": lambda o: _connect(o["socket"]),
    "path socket in the home folder": lambda o: _connect(o["home_socket"]),
    "abstract socket": lambda o: _connect("\0" + o["abstract"]),
    "docker": lambda o: _connect("/var/run/docker.sock"),
    "ssh agent": lambda o: _connect(os.environ["SSH_AUTH_SOCK"]) if "SSH_AUTH_SOCK" in os.environ else False,
    "mount": _mount,
    "git config": _git_config,
    "git config by git": _git_command_config,
    "configuration of the worktree by git": lambda _: _git("config", "--worktree", "core.fsmonitor", "evil"),
    "git hook": _git_hook,
    "imi's folder in git": lambda o: _write(os.path.join(o["common_dir"], "imi", "x")),
    "packed refs": lambda o: _write(os.path.join(o["common_dir"], "packed-refs")),
    "HEAD of the trunk": lambda o: _write(os.path.join(o["common_dir"], "HEAD")),
    "other worktree's git folder": lambda o: _write(os.path.join(o["other_admin"], "HEAD")),
    "other worktree": lambda o: _write(os.path.join(o["other"], "README.md")),
    "trunk's files": lambda o: _write(os.path.join(o["trunk"], "README.md")),
    ".git of the worktree": lambda o: _replace(".git"),
    ".git moved away": lambda o: os.rename(".git", ".git-old"),
    "commondir": lambda o: _replace(os.path.join(o["admin"], "commondir")),
    "configuration of the worktree": lambda o: _write(os.path.join(o["admin"], "config.worktree")),
    "configuration of the worktree by rename": lambda o: _replace(os.path.join(o["admin"], "config.worktree")),
    "configuration of the worktree deleted": lambda o: os.unlink(os.path.join(o["admin"], "config.worktree")),
    "registry": lambda o: _write(o["registry"]),
    "launch folder": lambda o: _write(os.path.join(o["launch"], "exit.json")),
    "make a folder in a flat workspace": lambda o: os.mkdir("folder"),
    "make a link in a flat workspace": lambda o: os.symlink("/etc/passwd", "a-link"),
    "make a pipe in a flat workspace": lambda o: os.mkfifo("a-pipe"),
}


def _persists(outside) -> bool:  # type: ignore[no-untyped-def]
    """A file in the private home folder is no escape; the test outside looks at the real one."""
    return False


def _git(*words: str) -> bool:
    subprocess.run(["git", *words], check=True, capture_output=True, timeout=30)
    return True


def _commit(_) -> bool:  # type: ignore[no-untyped-def]
    _write("work.txt")
    return _git("add", "work.txt") and _git("commit", "-qm", "work behind a wall")


def _edit(_) -> bool:  # type: ignore[no-untyped-def]
    _write("edited.txt")
    os.rename("edited.txt", "edited-2.txt")
    return True


def _state(outside) -> bool:  # type: ignore[no-untyped-def]
    _write(os.path.join(outside["state"], "projects", "session.jsonl"))
    copied = os.path.join(os.environ["HOME"], ".claude.json")  # a wall may have a home folder of its own
    os.rename(copied, copied + ".old")
    _write(copied)
    return True


def _door(_) -> bool:  # type: ignore[no-untyped-def]
    """The commands of agents run in a login shell, which sets PATH anew."""
    env = {name: os.environ[name] for name in ("HOME", "IMI_WALL")}
    done = subprocess.run(["/bin/bash", "-lc", "imi --version"], env=env, capture_output=True, check=True, timeout=30)
    return done.stdout.startswith(b"imi")


NEEDED = {
    "imi in a login shell": _door,
    "edit": _edit,
    "commit": _commit,
    "branch": lambda _: _git("branch", "feat/behind-a-wall"),
    "status": lambda _: _git("status"),
    "state": _state,
    "temporary file": lambda _: bool(tempfile.mkstemp()),
    "run folder": lambda _: _write(os.path.join(os.environ["IMI_RUN_DIR"], "work_products", "report.md")) or True,
    "network": lambda _: socket.getaddrinfo("localhost", 80) != [],
}

if __name__ == "__main__":
    main()
