"""The rules of the house, enforced: layers, who may import what, and that every verb is described."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import actions, programs
from imi_monitor.actions.action import Action
from imi_monitor.cli import argument_parser
from imi_monitor.cli import help_pages as pages
from tests.helpers import ROOT, imi
from tests.source_trees import nodes, syntax_tree

PACKAGE = ROOT / "imi_monitor"
MODULES = sorted(PACKAGE.rglob("*.py"))

# reads the databases of agent programs, and cannot write; speaks to the PostgreSQL of a team
FOREIGN_SQL = ("foreign_db.py", "postgres_link.py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_says_what_the_room_is_for(path: Path) -> None:
    assert ast.get_docstring(syntax_tree(path)), path


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


def test_the_time_of_day_has_one_source() -> None:
    """`times.clock`, so that tests can set it; durations are measured by clocks that cannot be set."""
    for path in MODULES:
        if path.name != "times.py":
            assert not re.search(r"\btime\.time(_ns)?\b|datetime\.(now|utcnow|today)\(", path.read_text()), path


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
        found = [node.lineno for node in nodes(path) if isinstance(node, ast.Call) and _names_a_program(node)]
        assert not found, f"{path}, lines {found}: find the program with programs.find"
        taken = {
            alias.name
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if node.module in ("os", "shutil", "subprocess", "webbrowser")
        }
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


# Without a limit of their own, or with a partner that has one.
_UNLIMITED = {
    "tests/fork_server.py": "its clients give it up: they have a limit, and end it with themselves",
    "tests/limits.py": "holds the limits",
}
_IN_A_LOOP = ("ensure_future", "create_task", "wait_for", "gather")  # of asyncio


def _waits_for_ever(call: ast.Call, parent: ast.AST) -> bool:
    """True for a call that waits for another process or thread, however long that takes."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name, of = call.func.attr, ast.unparse(call.func.value)
    if name in ("wait", "join", "get"):  # an awaited one ends with its loop
        in_loop = isinstance(parent, ast.Call) and ast.unparse(parent.func).rpartition(".")[2] in _IN_A_LOOP
        return not (call.args or call.keywords or isinstance(parent, ast.Await) or in_loop)
    if name == "communicate":
        limited = any(word.arg == "timeout" for word in call.keywords)
        return not limited and not (isinstance(parent, ast.Call) and ast.unparse(parent.func).endswith("wait_for"))
    if name == "waitpid":
        return "os.WNOHANG" not in map(ast.unparse, call.args)
    if name in ("read", "readlines") and of.rpartition(".")[2] in ("stdout", "stderr"):
        return True
    return name == "readline" or (name == "waitid" and "WNOHANG" not in ast.unparse(call))


def _parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def test_no_test_waits_for_ever() -> None:
    """What hangs has to fail by itself and be named; the programs that tests start end with the test."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name in _UNLIMITED or "/fakes/" in name:
            continue
        calls = [(node, above) for node, above in _parents(syntax_tree(path)).items() if isinstance(node, ast.Call)]
        found = [call.lineno for call, above in calls if _waits_for_ever(call, above)]
        assert not found, f"{name}, lines {found}: give it a limit, see tests/limits.py"
        sockets = any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr in ("accept", "recv")
            and "LIMIT" not in ast.unparse(call)  # a WebSocket's takes one
            for call, _ in calls
        )
        assert not sockets or "settimeout(" in path.read_text(), f"{name}: a socket needs a limit"


@pytest.mark.parametrize(
    ("line", "forbidden"),
    [
        ("process.wait()", True),
        ("process.wait(LIMIT)", False),
        ("process.communicate('x')", True),
        ("process.communicate(timeout=LIMIT)", False),
        ("thread.join()", True),
        ("queue.get()", True),
        ("process.stdout.readline()", True),
        ("process.stdout.read()", True),
        ("os.waitpid(pid, 0)", True),
        ("os.waitpid(pid, os.WNOHANG)", False),
        ("', '.join(names)", False),
        ("table.get(name)", False),
    ],
)
def test_the_rule_about_waits_finds_each_form(line: str, forbidden: bool) -> None:
    tree = ast.parse(line)
    calls = {node: above for node, above in _parents(tree).items() if isinstance(node, ast.Call)}
    assert any(_waits_for_ever(call, above) for call, above in calls.items()) == forbidden


MOST_REPLACED, MOST_PRIVATE = 90, 90


def _private_names() -> set[str]:
    """What the package defines under a name that begins with an underscore."""
    found = set()
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return {name for name in found if name.startswith("_") and not name.startswith("__")} - {"_"}


def test_tests_use_the_public_surface() -> None:
    """A test that replaces an attribute or reads a private one stands in the way of a change of the code inside."""
    private, replaced, reached = _private_names(), [], []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in nodes(path):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
                if ast.unparse(node.args[0]).strip("'").split(".")[0] not in sys.stdlib_module_names:
                    replaced.append(place)
                reached += [place for word in node.args[:2] if isinstance(word, ast.Constant) and word.value in private]
            elif isinstance(node, ast.Attribute) and node.attr in private and node.attr != "_exit":
                reached += [place] if ast.unparse(node.value) not in ("self", "cls") else []
    assert 0 < len(replaced) <= MOST_REPLACED, replaced
    assert 0 < len(reached) <= MOST_PRIVATE, reached


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


@pytest.mark.parametrize("action", actions.all_actions(), ids=lambda action: action.words[0])
def test_the_examples_of_a_command_are_valid_command_lines(action: Action) -> None:
    for command, meaning in action.examples:
        words = shlex.split(command.removeprefix('eval "$(').removesuffix(')"'))
        assert words[0] == "imi" and argument_parser.parse(words[1:]).action is action, command
        assert meaning and not meaning.endswith(".") and meaning[0].islower(), meaning


def test_the_manual_page_has_every_command_and_no_warnings() -> None:
    page = ROOT / "docs" / "man" / "imi.1"
    for action in actions.all_actions():
        assert f"\n.SS {action.words[0]}\n".replace("-", "\\-") in page.read_text()
    groff = programs.find("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    shown = subprocess.run(
        [groff, "-ww", "-man", "-Tascii", str(page)], capture_output=True, text=True, check=True, timeout=60
    )
    assert all(f"\n.SH {heading}\n.TP" in page.read_text() for heading in ("EXIT STATUS", "ENVIRONMENT", "FILES"))
    assert shown.stderr == "" and "claim a worktree for one agent" in shown.stdout.lower()


def test_help_is_wrapped_and_answers_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for words in ([], ["claim"], ["remove"]):
        assert max(map(len, pages.of_words(words).lines)) <= 60
    assert imi("help", "--help").out == imi("help", "help").out == imi("help").out
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


def test_what_make_quick_runs_and_leaves_out_exists() -> None:
    """pytest says nothing about a file to leave out that is gone."""
    named = re.findall(r"tests/[\w/]+(?:\.py)?", (ROOT / "Makefile").read_text().partition(".PHONY")[0])
    assert len(named) > 20 and [path for path in named if not (ROOT / path).exists()] == []


def test_the_project_needs_nothing_beside_it() -> None:
    for path in [*MODULES, *ROOT.glob("tests/**/*.py"), ROOT / "Makefile", ROOT / "README.md", ROOT / "pyproject.toml"]:
        if path.name != "test_house.py":
            assert "/work/shared" not in path.read_text(), path
