"""Which project a remote's address stands for, however it is spelled: https, ssh, `git@host:`, or a path on disk."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """`host` is empty for a path on this machine; `project` is `owner/name`, with all the groups before it."""

    host: str
    project: str

    @property
    def owner(self) -> str:
        return self.project.rpartition("/")[0].rpartition("/")[2]

    def same(self, other: RemoteAddress) -> bool:
        """Whether both mean one project. Forges fold the case of names, disks need not."""
        if self.host.lower() != other.host.lower():
            return False
        return self.project == other.project or (bool(self.host) and self.project.lower() == other.project.lower())


def parse_address(url: str) -> RemoteAddress | None:
    """What an address stands for; None when it names nothing one could compare. Ports and user names do not count."""
    if "://" in url:
        parts = split_url(url)
        host = parts.hostname if parts is not None and parts.scheme != "file" else ""
        return None if parts is None or host is None else _address(host, parts.path)
    head, colon, path = url.partition(":")
    if colon and "/" not in head:
        return _address(head.rpartition("@")[2], path)
    return _address("", url)


def with_project(url: str, owner: str, name: str | None = None) -> str | None:
    """The same address with another owner (and name): where a fork lies. None when the address has no owner."""
    prefix, path = _cut(url)
    trimmed = path.rstrip("/")
    folder, slash, last = trimmed.rpartition("/")
    if not slash or folder.rpartition("/")[2] in ("", ".", ".."):
        return None
    suffix = ".git" if last.endswith(".git") else ""
    parent, parent_slash, _ = folder.rpartition("/")
    return f"{prefix}{parent}{parent_slash}{owner}/{last if name is None else name + suffix}"


def split_url(url: str) -> SplitResult | None:
    """`urlsplit` for text from outside, which may be no URL at all."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # only here is a bad port found
    except ValueError:
        return None
    return parts


def _cut(url: str) -> tuple[str, str]:
    """Everything before the path, and the path."""
    scheme, mark, rest = url.partition("://")
    if mark:
        authority, slash, path = rest.partition("/")
        return f"{scheme}://{authority}{slash}", path
    head, colon, path = url.partition(":")
    return (f"{head}:", path) if colon and "/" not in head else ("", url)


def _address(host: str, path: str) -> RemoteAddress | None:
    project = path.rstrip("/").removesuffix(".git").rstrip("/")
    project = project.lstrip("/") if host else project
    return RemoteAddress(host, project) if project else None
