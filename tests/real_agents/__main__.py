"""`make agents`: install the real programs, drive each through the steps, and write docs/agents-matrix.md.

`make agents ARGS="codex gemini"` runs some of them; `--record` among them keeps what they write as recordings for the tests.
Needs npm, node and tmux; the programs go into ~/.cache/imi-agents (or IMI_AGENTS_CACHE), not into the checkout. Exits with 1
if imi is certain of a wrong state.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import psutil

from tests.real_agents.matrix import Finding, ProgramRun, drive
from tests.real_agents.programs import CACHE, PROGRAMS, RealProgram, binary, packages
from tests.real_agents.stub_model import serving
from tests.real_agents.terminals import tmux_server

_PAGE = Path(__file__).parents[2] / "docs" / "agents-matrix.md"
_OURS = ("TMUX", "ZELLIJ", "CLAUDE", "CODEX", "GEMINI", "COPILOT", "OPENCODE", "XDG_", "ANTHROPIC", "OPENAI")
_HEAD = """\
# What imi says of real agents

Real programs, driven in tmux against a stub model by `make agents`. Each cell has what a monitor says that runs all the time,
and what one says that starts at that moment: *right*; *likely* (right, and imi marks it with `~`); *unknown*; *unsure* (another
state, marked with `~`); *WRONG* (another state, without a mark).

"""
_FOOT = """
A dash: the program has no such dialog. Where imi is unsure:

- Gemini, killed while a command ran, to a monitor that starts later: Gemini records a tool once it has finished, so the records
  end as those of an answer do. A monitor that ran saw the title of the terminal.
- Kimi Code, one of two in a folder, killed: nothing records which process has which session (no lock, open file, environment
  variable, log or command line has it), so it may be the other one's.

Where imi is not certain of what is right: Gemini and Qwen record neither a question nor the end of a turn; Codex records no
answer to a question; a dialog at the start is told from the lists of trusted folders, from a log (Copilot) or from what is
missing (Claude, Codex).
"""


def main(words: list[str]) -> int:
    records, names = "--record" in words, [word for word in words if word != "--record"]
    chosen = [one for one in PROGRAMS if not names or one.cli in names]
    for tool in ("npm", "node", "tmux", "git"):
        if shutil.which(tool) is None:
            print(f"make agents needs {tool}: install it and try again", file=sys.stderr)
            return 1
    missing = [name for one in chosen if not binary(one).exists() for name in packages(one)]
    if missing:
        print("installing", *missing, f"into {CACHE}")
        subprocess.run(
            ["npm", "install", "--force", "--no-audit", "--no-fund", "--prefix", str(CACHE), *missing], check=True
        )
    findings: list[Finding] = []
    failures: dict[str, str] = {}
    # not in /tmp, where Codex refuses to put the helpers of its sandbox
    with tempfile.TemporaryDirectory(prefix="imi-agents-", dir=CACHE) as folder, serving() as port:
        for program in chosen:
            findings += _run(program, Path(folder) / program.cli, port, failures, records)
    page = (
        _HEAD
        + _table(findings, chosen)
        + _FOOT
        + "".join(f"\n{cli} did not finish: {why}\n" for cli, why in failures.items())
    )
    print(page)
    for one in findings:
        print(one.program, "|", one.step, "|", one.who, "|", one.verdict, one.state, one.confidence, one.source)
    if not names:
        _PAGE.write_text(page)
    return 1 if failures or any(one.verdict == "WRONG" for one in findings) else 0


def _run(program: RealProgram, folder: Path, port: int, failures: dict[str, str], records: bool) -> list[Finding]:
    home, tree = folder / "home", folder / "app"
    for each in (home, tree):
        each.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    env |= {"HOME": str(home), "TMUX_TMPDIR": str(folder)}
    os.environ.clear()
    os.environ.update(env)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tree, check=True)
    (tmux := folder / f"tmux-{os.getuid()}").mkdir(mode=0o700)
    with tmux_server(tmux, env) as server:
        run = ProgramRun(program, tree, home, port, server, records=records)
        try:
            drive(run, program)
        except (TimeoutError, OSError, subprocess.SubprocessError, psutil.Error) as error:
            traceback.print_exc()
            failures[program.cli] = str(error).partition("\n")[0]
        finally:
            server.kill_all()
            run.close()
    return run.findings


def _table(findings: list[Finding], chosen: list[RealProgram]) -> str:
    steps = list(dict.fromkeys(one.step for one in findings))
    cells = {(one.step, one.program, one.who): one.verdict for one in findings}
    rows = [["step", *(f"{one.cli} {one.package.rpartition('@')[2]}" for one in chosen)], ["---"] * (len(chosen) + 1)]
    for step in steps:
        pairs = [
            (cells.get((step, one.cli, "running"), "-"), cells.get((step, one.cli, "fresh"), "-")) for one in chosen
        ]
        rows.append([step, *(left if left == right else f"{left}, fresh: {right}" for left, right in pairs)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
