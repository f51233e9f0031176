"""Notes on lines of a diff: they follow their line, are sent once as one round, and are answered and handled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from imi_monitor.actions.context import Context
from imi_monitor.actions.notes import notes_action
from imi_monitor.actions.runs import message_actions
from imi_monitor.model.errors import ImiError
from tests.actions.removal_kit import act
from tests.git.git_kit import commit_on_main
from tests.helpers import Repo, imi


@pytest.fixture
def feat(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("long.txt", "".join(f"line {number}\n" for number in range(1, 41)))
    made.commit("long")
    made.write("src/api.py", "def api():\n    return 2\n")
    return made


def add(feat: Repo, place: str, text: str = "why?", **values: Any) -> int:
    return int(str(act("notes add", cwd=feat.path, name="feat-x", place=place, text=text, **values).data["id"]))


def listed(feat: Repo, **values: Any) -> list[dict[str, Any]]:
    found = act("notes list", cwd=feat.path, name="feat-x", **values).data["notes"]
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def lines_now(feat: Repo) -> list[tuple[int | None, bool]]:
    return [(note["line_now"], note["code_has_changed"]) for note in listed(feat)]


def test_a_note_follows_its_line_through_edits_commits_and_a_rebase(feat: Repo) -> None:
    add(feat, "src/api.py:2")
    add(feat, "long.txt:30")
    assert lines_now(feat) == [(2, False), (30, False)]
    feat.write("src/api.py", "import os\n\n\ndef api():\n    return 2\n")
    assert lines_now(feat) == [(5, False), (30, False)]
    feat.commit("api")
    commit_on_main(Repo(feat.path.parent / "app"), "trunk.txt", "trunk\n")
    feat.git("rebase", "-q", "main")
    assert lines_now(feat) == [(5, False), (30, False)]
    feat.git("mv", "long.txt", "renamed.txt")
    assert listed(feat)[1]["code_has_changed"], "the new file is not known to be the old one: all of it is new here"
    feat.write("src/api.py", "import os\n\n\ndef api():\n    return 3\n")
    assert lines_now(feat)[0] == (None, True)
    assert "the code has changed" in imi("notes", "x", cwd=feat.path).out
    feat.write("src/api.py", "def api():\n    return 2\n")
    assert lines_now(feat)[0] == (2, False)


def test_a_line_that_was_removed_has_a_note_too(feat: Repo) -> None:
    add(feat, "src/api.py:2", old=True)
    note = listed(feat)[0]
    assert (note["side"], note["excerpt"], note["line_now"]) == ("old", "    return 1", 2)


def test_a_round_is_sent_once(feat: Repo, repo: Repo) -> None:
    first, second = add(feat, "src/api.py:2", "why 2?"), add(feat, "long.txt:30", "two\nlines")
    outcome = act("notes send", cwd=feat.path, name="feat-x")
    assert (outcome.data["sent_to"], outcome.data["ids"]) == (None, [first, second])
    text = str(outcome.data["text"])
    assert f"1. [note {first}] src/api.py:2\n   >     return 2\n   why 2?" in text
    assert f"2. [note {second}] long.txt:30\n   > line 30\n   two\n   lines" in text
    again = imi("notes", "send", "x", cwd=repo.path)
    assert (again.code, again.out) == (1, "") and again.err.startswith("imi: no note on feat-x waits to be sent")
    assert imi("notes", "send", "x", "--again", cwd=repo.path).out.startswith("Review of feat-x: 2 notes.")
    third = add(feat, "src/api.py:1", "and this?")
    assert act("notes send", cwd=feat.path, name="feat-x").data["ids"] == [third]
    assert [(note["round"], note["state"]) for note in listed(feat)] == [(1, "sent"), (1, "sent"), (2, "sent")]


def test_a_round_that_could_not_be_delivered_waits(feat: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    add(feat, "src/api.py:2")
    given: list[str] = []

    class Run:
        """Stands for the row of an open run."""

        id = short = "1b2c3d4e"
        agent_id = "claude-1"

    def fail(_context: Context, _run: object, text: str) -> None:
        given.append(text)
        raise ImiError("its pipe is closed", code="closed")

    monkeypatch.setattr(notes_action, "_run_in", lambda context, target: Run())
    monkeypatch.setattr(message_actions, "say", fail)
    with pytest.raises(ImiError, match="pipe is closed"):
        act("notes send", cwd=feat.path, name="feat-x")
    assert [note["state"] for note in listed(feat)] == ["new"]
    monkeypatch.setattr(message_actions, "say", lambda context, run, text: given.append(text))
    assert act("notes send", cwd=feat.path, name="feat-x").data["sent_to"] == "claude-1"
    assert given[0] == given[1] and [note["sent_to"] for note in listed(feat)] == ["claude-1"]


def test_notes_are_answered_and_done(feat: Repo, repo: Repo) -> None:
    one, two = add(feat, "src/api.py:2"), add(feat, "src/api.py:1")
    assert imi("notes", "answer", str(one), "because", "of 429", "--agent", "claude-1", cwd=repo.path).code == 0
    assert (listed(feat)[0]["answer"], listed(feat)[0]["answered_by"]) == ("because of 429", "claude-1")
    assert imi("notes", "done", str(one), str(two), cwd=feat.path).out == f"note {one} is done\nnote {two} is done\n"
    assert "was done already" in imi("notes", "done", str(one), cwd=feat.path).err
    assert imi("notes", "answer", str(one), "late", cwd=feat.path).code == 1
    assert listed(feat) == [] and len(listed(feat, done=True)) == 2
    assert imi("notes", "x", cwd=repo.path).out == "no open notes on feat-x\n"
    imi("rename", "feat-x", "feat-z", cwd=repo.path)
    assert "done" in imi("notes", "feat-z", "--done", cwd=repo.path).out


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("add", "x", "src/api.py", "text"), 2, "'src/api.py' is no place: give FILE:LINE"),
        (("add", "x", "src/api.py:2"), 2, "imi notes add needs a text"),
        (("add", "x", "src/api.py:99", "text"), 1, "src/api.py has no line 99 in the diff: `imi diff` shows its lines"),
        (("add", "x", "none:1", "text"), 1, "none has no line 1 in the diff: `imi diff` shows its lines"),
        (("answer", "77", "text"), 1, "there is no note '77': `imi notes list` shows them"),
        (("done", "x"), 1, "there is no note 'x': `imi notes list` shows them"),
        (("done",), 2, "name the notes that are done: imi notes done ID…"),
    ],
)
def test_bad_input_is_one_sentence(feat: Repo, words: tuple[str, ...], code: int, error: str) -> None:
    done = imi("notes", *words, cwd=feat.path)
    assert (done.code, done.err) == (code, f"imi: {error}\n")


def test_what_happens_to_a_note_is_archived_and_can_be_forgotten(
    feat: Repo, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = add(feat, "src/api.py:2", "why not 429? password=hunter2supersecret")
    act("notes send", cwd=feat.path, name="feat-x")
    assert (
        imi("notes", "answer", str(one), "the upstream", "answers 503", "--agent", "claude-1", cwd=repo.path).code == 0
    )
    assert imi("notes", "done", str(one), "--agent", "ada", cwd=feat.path).code == 0
    assert imi("archive", cwd=repo.path).code == 0

    def found(*words: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = imi("history", *words, "--json", cwd=repo.path).data["entries"]
        return entries

    said = [one["sentence"] for one in found("--type", "note")]
    assert said[0] == "ada handled a note in feat-x" and said[2].endswith("sent notes to clipboard in feat-x")
    assert said[1] == "claude-1 answered a note in feat-x: the upstream answers 503"
    assert "wrote a note in feat-x on src/api.py:2: why not 429?" in said[3] and "hunter2" not in said[3]
    (answer,) = found("upstream")
    assert imi("history", "--forget", answer["id"], cwd=repo.path).code == 0
    assert found("upstream") == [] and listed(feat, done=True)[0]["answer"] == "(forgotten)"
