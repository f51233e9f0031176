"""`imi stage`, `imi unstage` and `imi discard`: byte-exact against git's own, undoable, and only on what was shown."""

from __future__ import annotations

import os
import random
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.action import Outcome
from imi_monitor.git.worktree_files import WorktreeFiles
from imi_monitor.model.errors import ImiError, Refused
from tests.actions.removal_kit import act, admin_of, trash_root
from tests.git.git_kit import commit_on_main
from tests.helpers import Repo, imi, tree_hash

HOSTILE = [
    "-rf",
    ":(top)x",
    "*.py",
    'a"b\\',
    "new\nline",
    "\x1b]52;c;aGk=\x07",
    "tab\tname",
    "é ü",
    "bad\udcff",
    "a b/c d",
]


@pytest.fixture
def feat(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("long.txt", "".join(f"line {number}\n" for number in range(60)))
    made.write("script.sh", "#!/bin/sh\n")
    made.commit("base")
    return made


def run(verb: str, feat: Repo, *paths: str, **values: Any) -> Outcome:
    return act(verb, cwd=feat.path, name="feat-x", path=list(paths), **values)


def staged(feat: Repo) -> str:
    return feat.git("ls-files", "-s", "-z")


def blob(feat: Repo, name: str) -> bytes:
    return subprocess.run(["git", "show", name], cwd=feat.path, capture_output=True, check=True).stdout


def write_bytes(feat: Repo, name: str, data: bytes) -> None:
    path = os.path.join(os.fsencode(feat.path), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def change_lines(feat: Repo, *numbers: int, word: str = "LINE") -> None:
    lines = (feat.path / "long.txt").read_text().splitlines()
    for number in numbers:
        lines[number] = f"{word} {number}"
    feat.write("long.txt", "\n".join(lines) + "\n")


def hunk_ids(feat: Repo, path: str, *options: str) -> list[str]:
    files = act("diff", cwd=feat.path, **dict.fromkeys(options, True)).data["files"]
    return next([str(hunk["id"]) for hunk in file["hunks"]] for file in files if file["path"] == path)  # type: ignore[attr-defined]


def file_id(feat: Repo, path: str, *options: str) -> str:
    files = act("diff", cwd=feat.path, **dict.fromkeys(options, True)).data["files"]
    return next(str(file["id"]) for file in files if file["path"] == path)  # type: ignore[attr-defined]


def every_kind_of_change(feat: Repo) -> list[str]:
    """A file of each kind; returns their names."""
    (feat.path / "README.md").unlink()
    feat.write("src/api.py", "no newline at the end")
    write_bytes(feat, "long.txt", b"CRLF\r\nand\rothers\n\r\n")
    write_bytes(feat, "new.bin", bytes(range(256)) * 3)
    os.chmod(feat.path / "script.sh", 0o755)
    (feat.path / "src/db.py").unlink()
    (feat.path / "src/db.py").symlink_to("../nowhere")
    (feat.path / "link").symlink_to("/etc/passwd")
    feat.write("empty", "")
    for name in HOSTILE:
        write_bytes(feat, name, f"{name!r}\n".encode())
    return ["README.md", "src/api.py", "long.txt", "new.bin", "script.sh", "src/db.py", "link", "empty", *HOSTILE]


def test_stage_is_what_git_add_stages_and_unstage_takes_it_back(feat: Repo) -> None:
    before = staged(feat)
    names = every_kind_of_change(feat)
    files = tree_hash(feat.path)
    outcome = run("stage", feat, *names)
    assert (outcome.data["act"], outcome.data["trash_id"]) == ("staged", None)
    ours = staged(feat)
    run("unstage", feat)
    assert staged(feat) == before
    feat.git("add", "-A")
    assert ours == staged(feat)
    assert tree_hash(feat.path) == files, "no file was touched"


def test_discard_is_the_last_commit_and_undo_brings_every_byte_back(feat: Repo) -> None:
    clean, names = tree_hash(feat.path), every_kind_of_change(feat)
    (feat.path / "a b").chmod(0o750)
    dirty, index = tree_hash(feat.path), staged(feat)
    written = {name: os.lstat(os.path.join(feat.path, name)).st_mtime_ns for name in ("new.bin", "long.txt")}
    outcome = run("discard", feat, ".")
    assert sorted(outcome.data["files"]) == sorted(names)  # type: ignore[call-overload]
    left = tree_hash(feat.path)
    assert {name: left[name] for name in clean} == clean and set(left) - set(clean) == {"a b"}
    assert feat.git("status", "--porcelain") == ""
    act("undo", cwd=feat.path)
    assert (tree_hash(feat.path), staged(feat)) == (dirty, index)
    assert {name: os.lstat(os.path.join(feat.path, name)).st_mtime_ns for name in written} == written
    assert not trash_root(feat).exists(), "nothing is left of the entry"


def test_discard_goes_back_to_what_is_staged_and_with_staged_to_the_commit(feat: Repo) -> None:
    change_lines(feat, 1, word="STAGED")
    feat.git("add", "long.txt")
    index = staged(feat)
    kept = (feat.path / "long.txt").read_bytes()
    change_lines(feat, 40)
    both = (feat.path / "long.txt").read_bytes()
    run("discard", feat, "long.txt")
    assert (feat.path / "long.txt").read_bytes() == kept and staged(feat) == index
    act("undo", cwd=feat.path)
    assert (feat.path / "long.txt").read_bytes() == both and staged(feat) == index
    run("discard", feat, "long.txt", staged=True)
    assert feat.git("status", "--porcelain") == ""
    act("undo", cwd=feat.path)
    assert (feat.path / "long.txt").read_bytes() == both and staged(feat) == index


def test_a_renamed_file_goes_back_under_both_names(feat: Repo) -> None:
    feat.git("mv", "long.txt", "moved.txt")
    index = staged(feat)
    run("unstage", feat, "moved.txt")
    assert feat.git("status", "--porcelain").split() == ["D", "long.txt", "??", "moved.txt"]
    feat.git("add", "-A")
    run("discard", feat, "moved.txt", staged=True, shown=file_id(feat, "moved.txt"))
    assert feat.git("status", "--porcelain") == "" and (feat.path / "long.txt").exists()
    act("undo", cwd=feat.path)
    assert staged(feat) == index and not (feat.path / "long.txt").exists()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_hunk_is_staged_unstaged_and_discarded(feat: Repo, end: str) -> None:
    lines = [f"line {number}" for number in range(60)]
    base = end.join(lines).encode()  # without a newline at the end
    write_bytes(feat, "part.txt", base)
    feat.commit("part")
    texts = [base.replace(f"line {at}{end}".encode(), f"LINE {at}{end}more{end}".encode()) for at in (5, 30)]
    write_bytes(feat, "part.txt", texts[0].replace(f"line 30{end}".encode(), b"").replace(b"line 59", b"LAST"))
    whole = (feat.path / "part.txt").read_bytes()
    first, _, last = hunk_ids(feat, "part.txt")
    run("stage", feat, "part.txt", hunk=first)
    assert blob(feat, ":part.txt") == texts[0]
    assert act("diff", cwd=feat.path, staged=True).data["added"] == 2
    run("stage", feat, "part.txt", hunk=last)  # the ids of the other hunks stay
    assert act("diff", cwd=feat.path, staged=True).data["added"] == 3
    run("unstage", feat, "part.txt", hunk=first)
    assert act("diff", cwd=feat.path, staged=True).data["added"] == 1
    run("discard", feat, "part.txt", hunk=first)
    restored = whole.replace(f"LINE 5{end}more{end}".encode(), f"line 5{end}".encode())
    assert (feat.path / "part.txt").read_bytes() == restored
    act("undo", cwd=feat.path)
    assert (feat.path / "part.txt").read_bytes() == whole


def test_a_hunk_that_is_partly_staged_goes_to_the_commit_with_staged(feat: Repo) -> None:
    change_lines(feat, 10, 40)
    feat.git("add", "-A")
    change_lines(feat, 11)
    index, dirty = staged(feat), (feat.path / "long.txt").read_bytes()
    hunk = hunk_ids(feat, "long.txt")[0]
    run("discard", feat, "long.txt", hunk=hunk, staged=True)
    text = (feat.path / "long.txt").read_text()
    assert "line 10\nline 11\n" in text and "LINE 40\n" in text
    assert feat.git("diff", "--stat") == "" and "LINE 40" in feat.git("diff", "--cached")
    act("undo", cwd=feat.path)
    assert (staged(feat), (feat.path / "long.txt").read_bytes()) == (index, dirty)


def test_line_ends_that_git_converts_stay_in_the_other_lines(feat: Repo) -> None:
    feat.write(".gitattributes", "long.txt text eol=crlf\n")
    feat.git("add", "-A")
    feat.git("commit", "-qm", "attributes")
    text = (feat.path / "long.txt").read_bytes().replace(b"\n", b"\r\n")
    write_bytes(feat, "long.txt", text.replace(b"line 5\r", b"LINE 5\r").replace(b"line 40\r", b"LINE 40\r"))
    first = hunk_ids(feat, "long.txt")[0]
    run("discard", feat, "long.txt", hunk=first)
    assert (feat.path / "long.txt").read_bytes() == text.replace(b"line 40\r", b"LINE 40\r")
    write_bytes(feat, "long.txt", text.replace(b"line 5\r", b"LINE 5\r").replace(b"line 9\r\n", b"line 9\n"))
    with pytest.raises(Refused, match="mixed"):
        run("discard", feat, "long.txt", hunk=first)


def test_nothing_happens_to_what_changed_since_it_was_shown(feat: Repo) -> None:
    change_lines(feat, 5, 40)
    shown, first = file_id(feat, "long.txt"), hunk_ids(feat, "long.txt")[0]
    change_lines(feat, 5, word="NEWER")
    files, index = tree_hash(feat.path), staged(feat)
    for verb in ("stage", "discard"):
        for values in ({"shown": shown}, {"hunk": first}):
            with pytest.raises(Refused) as refused:
                run(verb, feat, "long.txt", **values)
            assert refused.value.code == "changed"
    assert (tree_hash(feat.path), staged(feat)) == (files, index)
    change_lines(feat, 5)
    run("stage", feat, "long.txt", shown=shown)
    assert staged(feat) != index


def test_a_file_that_is_written_while_it_is_discarded_stays(feat: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    feat.write("README.md", "mine\n")
    feat.write("src/api.py", "shown\n")
    take = WorktreeFiles.take

    def write_first(files: WorktreeFiles, path: str, *more: Any) -> None:
        if path == "src/api.py":
            feat.write(path, "written a moment ago\n")
        take(files, path, *more)

    monkeypatch.setattr(WorktreeFiles, "take", write_first)
    with pytest.raises(Refused, match="changed since"):
        run("discard", feat, "README.md", "src/api.py")
    assert (feat.path / "src/api.py").read_text() == "written a moment ago\n"
    assert (feat.path / "README.md").read_text() == "mine\n", "the first file is back"
    assert act("trash list", cwd=feat.path).data["entries"] == []


def test_undo_leaves_a_file_alone_that_changed_since(feat: Repo) -> None:
    feat.write("README.md", "mine\n")
    feat.write("src/api.py", "mine too\n")
    identity = run("discard", feat, ".").data["trash_id"]
    feat.write("src/api.py", "newer\n")
    with pytest.raises(Refused, match="changed since it was discarded"):
        act("undo", cwd=feat.path)
    assert (feat.path / "README.md").read_text() == "hello\n", "all or nothing"
    feat.git("checkout", "src/api.py")
    assert act("undo", cwd=feat.path, which=str(identity)).data["files"] == ["README.md", "src/api.py"]
    assert (feat.path / "src/api.py").read_text() == "mine too\n"


def test_lines_that_only_the_index_has_are_kept(feat: Repo) -> None:
    feat.write("README.md", "only staged\n")
    feat.git("add", "README.md")
    index = staged(feat)
    feat.write("README.md", "hello\n")
    outcome = run("unstage", feat, "README.md")
    assert outcome.data["trash_id"] is not None
    feat.git("reflog", "expire", "--all", "--expire=now")
    feat.git("gc", "-q", "--prune=now")
    act("undo", cwd=feat.path)
    assert staged(feat) == index and feat.git("show", ":README.md") == "only staged"


def test_a_locked_index_refuses_every_act(feat: Repo) -> None:
    feat.write("README.md", "mine\n")
    lock = admin_of(feat.path) / "index.lock"
    lock.write_text("")
    files = tree_hash(feat.path)
    for verb in ("stage", "discard"):
        with pytest.raises(Refused, match="another git is running") as refused:
            run(verb, feat, "README.md")
        assert refused.value.code == "git-busy"
    assert tree_hash(feat.path) == files and lock.exists(), "nothing was done, and the lock is not ours"
    lock.unlink()
    run("stage", feat, "README.md")
    assert sorted(path.name for path in admin_of(feat.path).glob("index*")) == ["index"]


def test_submodules_and_nested_repositories(feat: Repo, tmp_path: Path) -> None:
    inner = Repo.create(tmp_path / "inner")
    feat.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "sub")
    feat.git("commit", "-qm", "sub")
    Repo(feat.path / "sub").git("checkout", "-q", "HEAD~1")
    run("stage", feat, "sub")
    ours = staged(feat)
    run("unstage", feat, "sub")
    feat.git("add", "sub")
    assert staged(feat) == ours
    with pytest.raises(Refused, match="is a submodule"):
        run("discard", feat, "sub", staged=True)
    Repo.create(feat.path / "nested")
    with pytest.raises(Refused, match="another repository"):
        run("stage", feat, "nested")


def test_no_link_is_followed_and_no_folder_replaced(feat: Repo, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "api.py").write_text("not ours\n")
    feat.git("rm", "-q", "--cached", "src/api.py")
    (feat.path / "src/api.py").unlink()
    (feat.path / "src/db.py").unlink()
    (feat.path / "src").rmdir()
    (feat.path / "src").symlink_to(outside)
    with pytest.raises(ImiError):
        run("discard", feat, "src/db.py")
    (feat.path / "README.md").unlink()
    (feat.path / "README.md").mkdir()
    feat.write("README.md/inside", "mine\n")
    with pytest.raises(Refused, match="is a folder now"):
        run("discard", feat, "README.md")
    assert os.listdir(outside) == ["api.py"] and (feat.path / "README.md/inside").exists()


def test_programs_of_the_repository_and_claims_are_refused(feat: Repo, repo: Repo) -> None:
    feat.write("README.md", "mine\n")
    imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
    with pytest.raises(Refused, match="claude-1") as refused:
        run("stage", feat, "README.md")
    assert refused.value.code == "claimed"
    run("stage", feat, "README.md", force=True)
    act("release", cwd=feat.path, name="feat-x", agent="claude-1", force=True, reason="over")
    feat.git("config", "filter.up.clean", "tr a-z A-Z")
    feat.write(".gitattributes", "*.txt filter=up\n")
    feat.write("long.txt", "small\n")
    with pytest.raises(Refused, match="imi trust"):
        run("stage", feat, "long.txt")


def test_a_file_in_conflict_is_refused(feat: Repo, repo: Repo) -> None:
    feat.write("README.md", "ours\n")
    feat.commit("ours")
    commit_on_main(repo, "README.md", "theirs\n")
    feat.git("merge", "main", check=False)
    with pytest.raises(Refused, match="is in conflict"):
        run("stage", feat, "README.md")


def test_the_command_line(feat: Repo, repo: Repo) -> None:
    feat.write("README.md", "mine\n")
    os.chmod(feat.path / "README.md", 0o640)
    done = imi("discard", "x", cwd=repo.path)
    assert (done.code, done.err) == (2, "imi: name the files to discard; a dot stands for all of them\n")
    done = imi("discard", "x", "none", cwd=repo.path)
    assert (done.code, done.err) == (1, "imi: none has no such change: see `imi diff`\n")
    done = imi("discard", "x", "README.md", cwd=repo.path)
    identity = done.out.split("`imi undo ")[1].split("`")[0]
    assert done.out == f"discarded README.md in feat-x; `imi undo {identity}` restores it\n"
    assert stat.S_IMODE((feat.path / "README.md").stat().st_mode) == 0o640, "the permissions are the file's own"
    listed = imi("trash", "list", cwd=repo.path).out
    assert identity in listed and listed.endswith(": README.md\n")
    entry = imi("trash", "list", "--json", cwd=repo.path).data["entries"][0]
    assert (entry["files"], entry["how"], entry["restorable"]) == (["README.md"], "discarded", True)
    assert "restored README.md, discarded in feat-x" in imi("undo", cwd=repo.path).out
    imi("discard", "x", ".", cwd=repo.path)
    assert "purged feat-x" in imi("trash", "purge", "--all", "--yes", cwd=repo.path).out
    assert not trash_root(repo).exists() and imi("undo", cwd=repo.path).code == 1


@pytest.mark.parametrize("seed", range(6))
def test_random_hunks_are_staged_as_git_apply_does(feat: Repo, seed: int) -> None:
    draw = random.Random(seed)
    lines = [f"line {draw.randrange(5)}\n" for _ in range(80)]  # many equal lines
    feat.write("many.txt", "".join(lines))
    feat.commit("many")
    for _ in range(8):
        at = draw.randrange(len(lines))
        lines[at : at + draw.randrange(3)] = [f"new {draw.randrange(3)}\n"] * draw.randrange(3)
    feat.write("many.txt", "".join(lines).removesuffix("\n" if draw.random() < 0.5 else ""))
    whole = (feat.path / "many.txt").read_bytes()
    patch = subprocess.run(
        ["git", "diff", "--", "many.txt"], cwd=feat.path, capture_output=True, check=True
    ).stdout.decode()
    head, *hunks = re.split(r"(?m)^(?=@@ )", patch)
    ids = hunk_ids(feat, "many.txt", "unstaged")
    assert len(ids) == len(hunks)
    for index in draw.sample(range(len(ids)), min(3, len(ids))):
        run("stage", feat, "many.txt", hunk=ids[index])
        ours = blob(feat, ":many.txt")
        run("unstage", feat, "many.txt")
        subprocess.run(
            ["git", "apply", "--cached", "-"], cwd=feat.path, input=(head + hunks[index]).encode(), check=True
        )
        assert ours == blob(feat, ":many.txt")
        feat.git("reset", "-q")
        run("discard", feat, "many.txt", hunk=ids[index])
        left = (feat.path / "many.txt").read_bytes()
        act("undo", cwd=feat.path)
        assert (feat.path / "many.txt").read_bytes() == whole
        subprocess.run(["git", "apply", "-R", "-"], cwd=feat.path, input=(head + hunks[index]).encode(), check=True)
        assert left == (feat.path / "many.txt").read_bytes()
        write_bytes(feat, "many.txt", whole)
