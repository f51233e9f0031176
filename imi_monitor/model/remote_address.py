"""Parses the address of a git remote in all its forms: https, ssh, `git@host:`, or a path on disk."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from urllib.parse import SplitResult


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """The project at an address: `project` is `owner/name` with all groups before it; `host` is empty for a local path."""

    host: str
    project: str

    @property
    def owner(self) -> str:
        return self.project.rpartition("/")[0].rpartition("/")[2]

    def is_same_project(self, other: RemoteAddress) -> bool:
        """Return whether both are the same project. Forges ignore the case of names, file systems may not."""
        if self.host.lower() != other.host.lower():
            return False
        return self.project == other.project or (bool(self.host) and self.project.lower() == other.project.lower())


def parse_address(url: str) -> RemoteAddress | None:
    """Parse an address; None when it has no project to compare. Ports and user names are ignored."""
    if "://" in url:
        parts = split_url(url)
        host = parts.hostname if parts is not None and parts.scheme != "file" else ""
        return None if parts is None or host is None else _address(host, parts.path)
    head, colon, path = url.partition(":")
    if colon and "/" not in head:
        return _address(head.rpartition("@")[2], path)
    return _address("", url)


def proposal_page(url: str, trunk: str, branch: str) -> str | None:
    """Return the web page of the forge at an address on which a branch becomes a pull request; None without one."""
    from urllib.parse import quote, urlencode

    found = parse_address(url) if url else None
    if found is None or not found.host:
        return None
    project, old, new = (quote(part, safe="/") for part in (found.project, trunk, branch))
    if "gitlab" in found.host.lower():
        query = urlencode({"merge_request[source_branch]": branch, "merge_request[target_branch]": trunk})
        return f"https://{found.host}/{project}/-/merge_requests/new?{query}"
    return f"https://{found.host}/{project}/compare/{old}...{new}?expand=1"


def with_project(url: str, owner: str, name: str | None = None) -> str | None:
    """Return the address of a fork: the same address with another owner (and name). None when it has no owner."""
    prefix, path = _cut(url)
    trimmed = path.rstrip("/")
    folder, slash, last = trimmed.rpartition("/")
    if not slash or folder.rpartition("/")[2] in ("", ".", ".."):
        return None
    suffix = ".git" if last.endswith(".git") else ""
    parent, parent_slash, _ = folder.rpartition("/")
    return f"{prefix}{parent}{parent_slash}{owner}/{last if name is None else name + suffix}"


def split_url(url: str) -> SplitResult | None:
    """Return `urlsplit` of a text from outside; None when it is no URL."""

    from urllib.parse import urlsplit  # it imports `re`, which no hot command needs

    try:
        parts = urlsplit(url)
        _ = parts.port  # a bad port raises only here
    except ValueError:
        return None
    return parts


def _cut(url: str) -> tuple[str, str]:
    """Return the part before the path, and the path."""
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
