"""The rules of the house, enforced: layers, who may import what, and that every verb is described."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.cli import help_pages as pages
from tests.helpers import ROOT, imi

PACKAGE = ROOT / "imi_monitor"
MODULES = sorted(PACKAGE.rglob("*.py"))

FOREIGN_SQL = ("foreign_db.py",)  # reads the databases of agent programs, and cannot write


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_says_what_the_room_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), path


def test_only_ui_knows_textual() -> None:
    for path in MODULES:
        if "ui" not in path.relative_to(PACKAGE).parts:
            assert not {n for n in imported(path) if n.split(".")[0] in ("textual", "rich")}, path


def test_only_git_starts_processes_for_git_and_only_store_speaks_sql() -> None:
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0]
        names = {n.split(".")[0] for n in imported(path)}
        if room != "git":
            assert "git" not in names, f"{path} imports GitPython"
            assert not re.search(r'\["git"', path.read_text()), f"{path} seems to run git itself"
        if room != "store":
            assert "aiosqlite" not in names, path
            assert ".execute(" not in path.read_text() or room in ("ui",) or path.name in FOREIGN_SQL, (
                f"{path} speaks SQL"
            )


_LOOK_UP = re.compile(
    r"(shutil\.)?which|os\.(system|popen|get_exec_path|exec[lv]pe?|spawn[lv]pe?|posix_spawnp)"
    r"|subprocess\.(getoutput|getstatusoutput)|(asyncio\.)?create_subprocess_shell|webbrowser\..*"
)
_START = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output)|(asyncio\.)?create_subprocess_exec|(os\.posix)?_?spawn"
)


def _names_a_program(call: ast.Call) -> bool:
    """True for a call that finds a program by PATH, or that starts one by a plain name."""
    called = ast.unparse(call.func)
    if _LOOK_UP.fullmatch(called):
        return True
    if not _START.fullmatch(called) or not call.args or any(word.arg == "executable" for word in call.keywords):
        return False
    first = call.args[0]
    if isinstance(first, ast.List | ast.Tuple) and first.elts:
        first = first.elts[0]
    return isinstance(first, ast.Constant) and not str(first.value).startswith("/")


def test_only_programs_looks_up_programs() -> None:
    """PATH may lead into a worktree, where an agent can put a program of any name."""
    for path in MODULES:
        tree = ast.parse(path.read_text())
        found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _names_a_program(node)]
        assert not found, f"{path}, lines {found}: find the program with programs.find"
        taken = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
                 if node.module in ("os", "shutil", "subprocess", "webbrowser")}  # fmt: skip
        assert not taken, f"{path} hides where {taken} comes from: import the module"


@pytest.mark.parametrize(
    "line",
    [
        "shutil.which('git')",
        "subprocess.run(['tmux', '-V'])",
        "subprocess.Popen(('sh', '-c', x))",
        "asyncio.create_subprocess_exec('git')",
        "os.execvp(x, y)",
        "os.posix_spawnp(x, y, z)",
        "spawn(['gh', 'pr'], env=e)",
        "os.system(x)",
    ],
)
def test_the_rule_about_programs_finds_each_form(line: str) -> None:
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call) and _names_a_program(call)


def test_the_layers_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_whole_command_line_loads_without_textual() -> None:
    code = (
        "import sys; from imi_monitor.cli import command_runner; from imi_monitor import actions; actions.all_actions();"
        "print([m for m in ('textual', 'rich', 'git', 'redis', 'watchfiles', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_verb_is_described() -> None:
    found = actions.all_actions()
    for verb in actions.verbs():
        action = actions.find(verb)
        assert action is not None, verb
        assert (action.help and action.help[0].islower()) or action.help[:1].isupper(), verb
        assert len(action.help) < 100, f"{verb}: one short sentence"
        for option in action.options:
            assert option.help, f"{verb} --{option.name}"
        for argument in action.arguments:
            assert argument.help, f"{verb} {argument.name}"
    assert {word for action in found for word in action.words} == set(actions.verbs())


def test_keys_are_not_given_twice() -> None:
    keys = [action.key for action in actions.all_actions() if action.key]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("verb", actions.verbs())
def test_every_verb_has_a_help_page(verb: str) -> None:
    action = actions.find(verb)
    assert action is not None
    shown = pages.of_action(action, verb)
    assert shown.lines[0].startswith(f"imi {verb}") and shown.data["command"]["words"] == list(action.words)  # type: ignore[index]


def test_help_is_wrapped_and_answers_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for words in ([], ["claim"], ["remove"]):
        assert max(map(len, pages.of_words(words).lines)) <= 60
    assert imi("help", "--help").out == imi("help").out
    assert imi("version", "--json").json["data"] == {"version": imi("--version").out.split()[1]}
    assert imi("help", "claim", "--json").json["data"]["command"]["group"] == "Claims"
    assert imi("help", "--json").json["data"]["commands"][0]["words"]


def test_help_version_and_unknown_words() -> None:
    everything = imi("--help")
    assert everything.code == 0
    for action in actions.all_actions():
        assert action.words[0].split(" ")[0] in everything.out, "aliases are told on each action's own page"
    assert imi("--version").out.startswith("imi 0.")
    wrong = imi("clam", "x")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "imi: imi has no command 'clam': did you mean claim or claims?\n"
    option = imi("claim", "x", "--agnet", "me")
    assert (option.code, option.out) == (2, "")
    assert "did you mean --agent?" in option.err


def test_the_project_needs_nothing_beside_it() -> None:
    for path in [*MODULES, *ROOT.glob("tests/**/*.py"), ROOT / "Makefile", ROOT / "README.md", ROOT / "pyproject.toml"]:
        if path.name != "test_house.py":
            assert "/work/shared" not in path.read_text(), path
