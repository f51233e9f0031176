"""What a creation is going to make, complete enough that another process can take it back or finish it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.layout import Repository

_TEXTS = ("agent", "base", "branch", "kind", "name", "path", "sha", "shown", "took_over", "upstream")


class Plan:
    """One worktree to be. `branch` is made at `sha` if `new_branch`, else it stands there already."""

    __slots__ = (*_TEXTS, "about", "folders", "new_branch", "pr_number", "repository", "taken")

    def __init__(
        self,
        repository: Repository,
        *,
        kind: str,
        name: str,
        path: str,
        branch: str,
        sha: str,
        new_branch: bool,
        agent: str,
        shown: str | None = None,
        base: str | None = None,
        took_over: str | None = None,
        upstream: str | None = None,
        pr_number: int | None = None,
        folders: list[str] | None = None,
        taken: list[str] | None = None,
        about: dict[str, object] | None = None,
    ) -> None:
        self.repository = repository
        self.kind = kind
        self.name = name
        self.path = path
        self.branch = branch
        self.sha = sha
        self.new_branch = new_branch
        self.agent = agent
        self.shown = shown  # where the branch starts, for people
        self.base = base  # the branch it will be merged into one day
        self.took_over = took_over
        self.upstream = upstream  # REMOTE/BRANCH that a new branch follows
        self.pr_number = pr_number
        self.about = about or {}  # what else its event shall say, such as a pull request's title
        self.folders = folders or []  # those above `path` that do not exist yet, outermost first
        self.taken = taken or []  # what git's directory held before under such names

    def data(self) -> dict[str, object]:
        """For the intent row."""
        texts: dict[str, object] = {name: getattr(self, name) for name in _TEXTS}
        more = {
            "new_branch": self.new_branch,
            "pr_number": self.pr_number,
            "folders": self.folders,
            "taken": self.taken,
            "about": self.about,
        }
        return {**texts, **more, "common_dir": self.repository.common_dir}


def read(data: dict[str, object], repository: Repository) -> Plan:
    """The plan in an intent row."""
    texts = {name: None if data.get(name) is None else str(data[name]) for name in _TEXTS}
    number, about = data.get("pr_number"), data.get("about")
    return Plan(
        repository,
        **texts,  # type: ignore[arg-type]
        new_branch=data.get("new_branch") is True,
        pr_number=number if isinstance(number, int) else None,
        folders=_list(data.get("folders")),
        taken=_list(data.get("taken")),
        about=about if isinstance(about, dict) else None,
    )


def _list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
