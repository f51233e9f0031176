"""Reading a growing file: the end first, nothing twice, no torn line, and no more than was added."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.sources.agents.foreign_files import Tail


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_added_lines_are_returned_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"a\nb\n")
    tail = Tail(str(path))
    assert tail.read_new() == [b"a", b"b"]
    assert tail.read_new() == []
    append(path, b"c\n\nd")
    assert tail.read_new() == [b"c"]
    append(path, b"d\n")
    assert tail.read_new() == [b"dd"]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path, cut: int) -> None:
    path, whole = tmp_path / "t", b'{"a": "\xc3\xa4"}\n'
    path.write_bytes(b"first\n" + whole[:cut])
    tail = Tail(str(path))
    assert tail.read_new() == [b"first"]
    append(path, whole[cut:])
    assert tail.read_new() == [whole[:-1]]


@pytest.mark.parametrize("window", [1, 7, 64, 1000, 100_000])
def test_the_end_is_read_first_and_the_rest_in_slices(tmp_path: Path, window: int) -> None:
    path = tmp_path / "t"
    lines = [f"line {number} {'x' * (number % 50)}".encode() for number in range(300)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    tail = Tail(str(path), window)
    end = tail.read_new()
    assert end == lines[len(lines) - len(end) :]
    assert end
    older: list[bytes] = []
    while tail.has_older:
        older += tail.read_older(500)
    assert older + end == lines
    assert list(tail.read_older()) == []


def test_a_last_line_longer_than_the_window(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"short\n" + b"y" * 5000 + b"\n")
    assert Tail(str(path), 100).read_new()[-1] == b"y" * 5000
    path.write_bytes(b"z" * 5000)
    tail = Tail(str(path), 100)
    assert tail.read_new() == []
    append(path, b"\n")
    assert tail.read_new() == [b"z" * 5000]


def test_a_cut_or_replaced_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"one\ntwo\nthr")
    tail = Tail(str(path))
    tail.read_new()
    path.write_bytes(b"new\n")
    assert (tail.read_new(), tail.restarted) == ([b"new"], True)
    other = tmp_path / "other"
    other.write_bytes(b"replaced, and longer\n")
    other.replace(path)
    assert (tail.read_new(), tail.restarted) == ([b"replaced, and longer"], True)
    append(path, b"more\n")
    assert (tail.read_new(), tail.restarted) == ([b"more"], False)
    path.unlink()
    assert tail.read_new() == []


def test_a_large_addition_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.touch()
    tail = Tail(str(path), longest_read=1000)
    tail.read_new()
    lines = [b"%05d" % number for number in range(1000)]
    append(path, b"\n".join(lines) + b"\n")
    found: list[bytes] = tail.read_new()
    assert tail.has_more
    while tail.has_more:
        found += tail.read_new()
    assert found == lines
