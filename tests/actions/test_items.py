"""Items: added once, moved only along the board, and moved by claims, releases and the ends of sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from imi_monitor.actions.context import Context
from imi_monitor.store import db, item_settlement, items
from tests.helpers import Ran, Repo, imi, shift_clock


def add(repo: Repo, title: str = "write the login page", *more: str) -> str:
    return str(imi("item", "add", title, *more, "--json", cwd=repo.path).data["items"][0]["id"])


def show(repo: Repo, item: str) -> dict[str, Any]:
    found: dict[str, Any] = imi("item", "show", item, "--json", cwd=repo.path).data
    return found


def titles(repo: Repo, *words: str) -> list[str]:
    return [one["title"] for one in imi("item", "list", *words, "--json", cwd=repo.path).data["items"]]


def events(repo: Repo) -> list[tuple[str, dict[str, Any]]]:
    lines = imi("events", "--json", "--type", "task.*", cwd=repo.path).out.splitlines()
    return [(one["type"], one["data"]) for one in map(json.loads, lines)]


def test_items_are_ordered_by_priority_and_place(repo: Repo) -> None:
    for title, priority in (("b", "low"), ("c", "medium"), ("a", "high"), ("d", "urgent")):
        add(repo, title, "--priority", priority)
    assert titles(repo) == ["a", "d", "c", "b"]
    imi("item", "edit", "4", "--before", "3", cwd=repo.path)
    imi("item", "edit", "item-1", "--before", "item-3", cwd=repo.path)
    assert titles(repo) == ["d", "b", "a", "c"] and show(repo, "1")["priority"] == "high"
    imi("item", "edit", "4", "--last", "--title", "D", cwd=repo.path)
    assert titles(repo) == ["b", "a", "D", "c"]
    assert titles(repo, "--limit", "1") == ["b"]
    assert "b" in imi("items", cwd=repo.path).out


def test_items_from_json_come_all_or_none_and_only_once(repo: Repo) -> None:
    text = '{"title": "one", "id": "flume-1", "priority": "high"}\n{"title": "two", "external_id": 7, "agent": "ana"}\n'
    for new in (True, False):
        answer = imi("item", "add", "--from", "-", "--json", cwd=repo.path, stdin=text).data
        assert [(one["id"], one["new"]) for one in answer["items"]] == [("item-1", new), ("item-2", new)]
    assert show(repo, "flume-1")["title"] == "one"
    listed = json.dumps([{"title": "three"}, {"title": "", "text": "x"}])
    refused = imi("item", "add", "--from", "-", cwd=repo.path, stdin=listed)
    assert refused.code == 2 and refused.err == "imi: entry 2 has no title\n" and titles(repo) == ["one", "two"]
    kinds = [kind for kind, _ in events(repo)]
    assert kinds == ["task.created", "task.created", "task.assigned"]


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        ("nonsense", "line 1 is no JSON: 'nonsense'"),
        ("", "the input has no items: give JSON objects with a title"),
        ("[1]", "entry 1 is no JSON object"),
        ('{"title": ["x"]}', "entry 1: title must be a text"),
        ('{"title": "x", "colour": "red"}', "entry 1 has the unknown key 'colour': use "),
        ('{"title": "x", "priority": "red"}', "entry 1: 'red' is no priority: use one of high, medium, low"),
        ('{"title": "x", "team": "\\u001b[31m"}', "entry 1: team contains control or invisible characters"),
        ("[" * 100_000, "the JSON is nested too deeply"),
    ],
)
def test_json_that_is_no_item_is_refused_with_its_place(repo: Repo, stdin: str, sentence: str) -> None:
    refused = imi("item", "add", "--from", "-", cwd=repo.path, stdin=stdin)
    assert refused.code == 2 and refused.err.startswith(f"imi: {sentence}") and refused.err.count("\n") == 1


def test_an_item_moves_only_along_the_board(repo: Repo) -> None:
    item = add(repo)
    for verb, status in (("block", "blocked"), ("fail", "failed"), ("retry", "pending"), ("done", "completed")):
        imi("item", verb, item, "--reason", f"because {verb}", cwd=repo.path)
        now = show(repo, item)
        assert now["status"] == status
        assert now["error"] == (f"because {verb}" if status in ("blocked", "failed") else None)
        assert (now["ended_at"] is not None) == (status in ("failed", "completed"))
    refused = imi("item", "fail", item, cwd=repo.path)
    assert refused.code == 1 and "is completed and cannot become failed" in refused.err
    moved = [data for kind, data in events(repo) if kind == "task.moved"]
    assert [(one["from"], one["to"]) for one in moved][-1] == ("pending", "completed")


def test_a_claim_with_its_task_moves_the_item_and_its_outcome_ends_it(repo: Repo) -> None:
    repo.worktree("feat-x")
    first, second = add(repo), add(repo, "another", "--external-id", "T-9")
    imi("claim", "feat-x", "--agent", "claude-1", "--task", first, cwd=repo.path)
    now = show(repo, first)
    assert (now["status"], now["agent_id"], now["worktree_name"]) == ("in_progress", "claude-1", "feat-x")
    assert [one["outcome"] for one in now["attempts"]] == ["open"]
    imi("heartbeat", "feat-x", "--agent", "claude-1", cwd=repo.path)
    imi(*("release", "feat-x", "--agent", "claude-1", "--outcome", "failed", "--reason", "no network"), cwd=repo.path)
    now = show(repo, first)
    assert (now["status"], now["error"], now["retries"]) == ("failed", "no network", 0)
    imi("claim", "feat-x", "--agent", "claude-1", "--task", first, cwd=repo.path)
    assert (show(repo, first)["status"], show(repo, first)["retries"]) == ("in_progress", 1)
    imi("release", "feat-x", "--agent", "claude-1", "--outcome", "completed", cwd=repo.path)
    assert show(repo, first)["status"] == "completed"
    imi("claim", "feat-x", "--agent", "codex-1", "--task", "T-9", cwd=repo.path)
    assert show(repo, second)["agent_id"] == "codex-1", "the id of the other system names the item too"
    imi("release", "feat-x", "--agent", "codex-1", "--outcome", "cancelled", cwd=repo.path)
    assert show(repo, second)["status"] == "pending"
    imi("rename", "feat-x", "y", cwd=repo.path)
    assert show(repo, second)["worktree_name"] == "feat-y"


def test_a_release_without_an_outcome_is_settled_by_what_is_known(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.worktree("feat-x")
    item = add(repo)
    imi("claim", "feat-x", "--agent", "claude-1", "--task", item, cwd=repo.path)
    imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
    assert show(repo, item)["status"] == "in_progress", "its turn may end a moment later"
    shift_clock(monkeypatch, 90)
    with Context(str(repo.path)) as context:
        db.transact(context.connection, item_settlement.settle)
    assert show(repo, item)["status"] == "pending", "nobody works on it"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("item", "add"), 2, "imi item add needs a title, or --from FILE"),
        (("item", "add", "x", "--from", "y"), 2, "give a title or --from, not both"),
        (("item", "add", "--from", "missing.json"), 2, "missing.json cannot be read: No such file or directory"),
        (("item", "add", "x", "--priority", "red"), 2, "'red' is no priority: use one of high, medium, low"),
        (("item", "add", "x", "--text", "y" * 3000), 2, "--text has more than 2 KB: write it to a file and name that"),
        (("item", "show", "99"), 1, "there is no item '99': `imi item list --all` shows them"),
        (("item", "edit", "1"), 2, "say what changes: --title, --text, --priority, --team, --before …"),
        (("item", "move", "1", "red"), 2, "'red' is no status: use one of pending, in_progress, blocked, completed"),
        (("item", "assign", "1", "\x1b[31m"), 2, "agent '\\\\x1b[31m' contains control or invisible characters"),
    ],
)
def test_bad_input_is_one_sentence(repo: Repo, words: tuple[str, ...], code: int, sentence: str) -> None:
    add(repo)
    ran: Ran = imi(*words, cwd=repo.path)
    assert ran.code == code and ran.err.startswith(f"imi: {sentence}") and ran.err.count("\n") == 1


def test_hostile_texts_are_stored_and_shown_harmlessly(repo: Repo) -> None:
    nasty = "a\x1b[2J\u202eb [bold]c[/bold]\nd"
    item = add(repo, nasty, "--text", nasty)
    for words in (("item", "show", item), ("items",)):
        out = imi(*words, cwd=repo.path).out
        assert "\x1b[2J" not in out and "\u202e" not in out and "[bold]" in out


def test_items_outside_of_a_repository_have_none(repo: Repo) -> None:
    add(repo)
    with Context(str(repo.path.parent)) as context:
        db.transact(context.connection, items.add, items.NewItem(title="from a message", external_id="m-1"))
    assert titles(repo) == ["write the login page", "from a message"], "it is for any repository"
    other = Repo.create(repo.path.parent / "other")
    assert titles(other) == ["from a message"] and len(titles(other, "--all")) == 2


def test_a_template_is_a_file_that_a_batch_takes(repo: Repo) -> None:
    def write(*words: str) -> Ran:
        return imi("item", "template", *words, "--json", cwd=repo.path)

    made = {"spring": "tasks/spring.json", "notes.md": "reports/notes.md", "tasks/x.json": "tasks/x.json"}
    for given, place in made.items():
        assert write(given, "--type", "marketing-campaign").data["file"] == str(repo.path / place)
        dry = imi("batch", place, "--dry-run", cwd=repo.path)
        assert dry.code == 0 and len(dry.out.splitlines()) == 2, dry
    definition = json.loads((repo.path / "tasks/spring.json").read_text())
    assert definition["type"] == "marketing-campaign" and definition["target_audience"]
    assert write().code == 0 and len(list((repo.path / "reports").glob("priorities-*.md"))) == 1
    listed = imi("batch", cwd=repo.path).out
    assert all(place in listed for place in made.values()), "the files are where they are looked for"
    (repo.path / "tasks/spring.json").write_text("{}")
    for given, sentence in {
        "spring": "tasks/spring.json exists already",
        "../x.json": "../x.json is outside of the worktree",
        "x.txt": "tasks/x.txt is neither a .json nor a .md file",
    }.items():
        refused = imi("item", "template", given, cwd=repo.path)
        assert refused.code and refused.err.startswith(f"imi: {sentence}") and refused.err.count("\n") == 1
    assert (repo.path / "tasks/spring.json").read_text() == "{}"
