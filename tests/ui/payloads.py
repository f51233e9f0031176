"""Texts that would steer a terminal, break a layout or crash a program, if they got through."""

from __future__ import annotations

import re

PAYLOADS = {
    "markup": "[/nope] [bold]x[/bold] [@click=app.quit]y[/]",
    "broken markup": "a[/b] [a=b:] [",
    "title": "\x1b]0;owned\x07",
    "title st": "\x1b]2;owned\x1b\\",
    "clipboard bel": "\x1b]52;c;b3duZWQ=\x07",
    "clipboard st": "\x1b]52;c;b3duZWQ=\x1b\\",
    "clipboard c1": "\x9d52;c;b3duZWQ=\x9c",
    "open osc": "\x1b]52;c;b3duZWQ=",
    "notification": "\x1b]9;owned\x07\x1b]777;notify;a;b\x1b\\",
    "link": "\x1b]8;;https://example.invalid\x1b\\x\x1b]8;;\x1b\\",
    "dcs": "\x1bP+q544e\x1b\\",
    "tmux": "\x1bPtmux;\x1b\x1b]52;c;b3duZWQ=\x07\x1b\\",
    "kitty picture": "\x1b_Gi=31,s=1,v=1,a=q;AAAA\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "report": "\x1b[6n\x1b[c\x1b[?2026$p",
    "leave screen": "\x1b[?1049l\x1b[?25h\x1bc",
    "keys": "\x1b[>31u\x1b[?1003h",
    "c1": "\x9b31m\x90q\x9c\x85\x8d",
    "controls": "a\x00\x07\x08\x0b\x0c\x0e\x0f\x1a\x7fb",
    "lines": "one\ntwo\rthree\r\nfour\tfive\u2028six",
    "bidi": "a\u202eb\u2066c\u2069\u200fd\u061c",
    "invisible": "a\u200bb\u2060c\ufeffd\u00ad\U000e0041",
    "zalgo": "z" + "\u0301\u0316" * 60,
    "surrogates": "a\udcff\udc80\ud800b",
    "wide": "日本語🦀👩‍👩‍👧‍👦🏳️‍🌈" * 4,
    "long": "x" * 10_000,
    "long wide": "漢" * 5_000,
    "empty": "",
    "spaces": "   ",
    "option": "--help -rf /",
}

# What must not reach the terminal: sequences that Textual itself never writes, and invisible or reordering characters.
_POINTER = re.compile(rb"\x1b\]22;[a-z]+\x07")  # Textual's: the pointer's shape
_BAD = (b"\x1b]", b"\x1bP", b"\x1b_", b"\x1b^", b"\x1bX", b"\x1bc", b"\x1b[2J", b"\x1b[6n", b"\x1b[c", b"\x1b[>31u")
_BAD_CHARACTERS = "\u202e\u2066\u2069\u200f\u061c\u200b\u2060\ufeff\u00ad\U000e0041\u2028"
_STEERING = "\r\n\x1b"  # in Textual's own output; never in a text that is shown


def leaked(output: bytes) -> list[str]:
    """The parts of the payloads that reached the terminal unchanged."""
    output = _POINTER.sub(b"", output)
    found = [repr(bad) for bad in _BAD if bad in output]
    return found + bad_characters(output.decode("utf-8", "replace"), but=_STEERING)


def bad_characters(text: str, *, but: str = "") -> list[str]:
    """Control characters, and characters that hide or reorder text, except those in `but`."""
    controls = (
        char for char in set(text) if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000
    )
    hidden = (char for char in _BAD_CHARACTERS if char in text)
    return sorted(ascii(char) for char in {*controls, *hidden} if char not in but)
