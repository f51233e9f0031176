"""Which addresses we let git talk to. A URL can name a program (`ext::sh -c …`) or be an option: those never pass."""

from __future__ import annotations

SCHEMES = ("https", "ssh", "git", "file")


def url_problem(url: str) -> str | None:
    """What is wrong with an address, as the end of a sentence that starts with it; None for a good one."""
    if not url:
        return "is empty"
    if url.startswith("-"):
        return "starts with a dash, which git would read as an option"
    if not url.isprintable():
        return "holds control or invisible characters"
    helper, double, _ = url.partition("::")
    if double and all(char.isalnum() or char in "+-." for char in helper):
        return f"would start the program git-remote-{helper}"
    scheme, mark, rest = url.partition("://")
    if mark:
        return _scheme_problem(scheme.lower(), rest)
    head, colon, _ = url.partition(":")
    if colon and "/" not in head and _host(head).startswith("-"):
        return "names a host that ssh would read as an option"
    return None


def _scheme_problem(scheme: str, rest: str) -> str | None:
    if scheme not in SCHEMES:
        return f"uses {scheme}://, and only https, ssh, git and file are allowed"
    authority = rest.partition("/")[0]
    if scheme != "file" and (not authority or _host(authority).startswith("-")):
        return "names no proper host"
    return None


def _host(authority: str) -> str:
    return authority.rpartition("@")[2]
