"""Which project of which forge a repository belongs to, and the list of its pull requests."""

from __future__ import annotations

from imi_monitor import programs
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import layout
from imi_monitor.model import remote_address
from imi_monitor.model.pull_request import MERGE
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.forges.forge_program import ForgeUnavailable
    from imi_monitor.model.pull_request import PullRequest, PullRequestMention
    from imi_monitor.model.remote_address import RemoteAddress

_MOST_NUMBERS = 50


@dataclass(frozen=True, slots=True)
class ForgeProject:
    """The project that has a repository's pull requests; `own` are the projects of its remotes, in small letters."""

    address: RemoteAddress
    own: frozenset[str]

    @property
    def key(self) -> str:
        return f"{self.address.host}/{self.address.project}".lower()


@dataclass(frozen=True, slots=True)
class ForgeAnswer:
    """What a forge listed: `via` is the program that asked it, `total` the number of open pull requests there."""

    via: str
    pulls: tuple[PullRequest, ...]
    total: int


def forge_project(repository: layout.Repository, remote: str) -> ForgeProject | None:
    """The project on a server: of `upstream` if there is one, because pull requests of a fork live there, else of `remote`."""
    urls = (layout.remote_url(repository, name) for name in ("upstream", remote))
    found = [address for url in urls if url and (address := remote_address.parse_address(url)) and address.host]
    own = frozenset(address.project.lower() for address in found)
    return ForgeProject(found[0], own) if found else None


def view(
    address: RemoteAddress | None, mention: PullRequestMention, cancelled: Callable[[], bool] | None = None
) -> PullRequest:
    """The details of one pull request; ForgeUnavailable, with an empty text if no installed program can know it."""
    from imi_monitor.forges import github_cli, gitlab_cli
    from imi_monitor.forges.forge_program import ForgeUnavailable

    number = mention.number
    merge_request = address is not None and (mention.kind == MERGE or not github_cli.may_have(address))
    if address is None or number is None or not merge_request or not gitlab_cli.may_have(address):
        return github_cli.view_pull_request(address, mention, cancelled)
    pulls, _ = gitlab_cli.list_merge_requests(address, [number], cancelled)
    found = next((pull for pull in pulls if pull.number == number), None)
    if found is None:
        raise ForgeUnavailable(f"glab lists no merge request {number}")
    return found


def can_ask(project: ForgeProject) -> bool:
    """Return whether a program is installed that may know the project."""
    from imi_monitor.forges import github_cli, gitlab_cli

    return any(one.may_have(project.address) and programs.find(one.PROGRAM) for one in (github_cli, gitlab_cli))


def ask(project: ForgeProject, numbers: Sequence[int] = (), cancelled: Callable[[], bool] | None = None) -> ForgeAnswer:
    """The pull requests of the project, by `gh` or `glab`; ForgeUnavailable says why there are none.

    Which server runs at an unknown host only the login of one of the programs shows.
    """
    from imi_monitor.forges import github_cli, gitlab_cli
    from imi_monitor.forges.forge_program import LIMITED, MISSING, OFFLINE, ForgeUnavailable

    address, asked = project.address, sorted(set(numbers))[-_MOST_NUMBERS:]
    problems: list[ForgeUnavailable] = []
    for program, may_have, listed in (
        (github_cli.PROGRAM, github_cli.may_have, github_cli.list_pull_requests),
        (gitlab_cli.PROGRAM, gitlab_cli.may_have, gitlab_cli.list_merge_requests),
    ):
        if not may_have(address) or (problems and problems[-1].code in (OFFLINE, LIMITED)):
            continue
        try:
            pulls, total = listed(address, asked, cancelled)
        except ForgeUnavailable as error:
            problems.append(
                error if error.code != MISSING else ForgeUnavailable(f"{program} is not installed", MISSING)
            )
        else:
            return ForgeAnswer(program, tuple(sorted(pulls, key=lambda pull: -(pull.number or 0))), total)
    raise _clearest(address.host, problems)


def _clearest(host: str, problems: Sequence[ForgeUnavailable]) -> ForgeUnavailable:
    """What to tell the user when no program gave an answer: of one that is not installed only if no other failed."""
    from imi_monitor.forges.forge_program import LOGIN, MISSING, ForgeUnavailable

    if not problems:
        return ForgeUnavailable(f"{safe(host)} is no server that gh or glab can list pull requests of")
    codes = [problem.code for problem in problems]
    if codes == [LOGIN, LOGIN]:
        return ForgeUnavailable(f"neither gh nor glab is logged in to {safe(host)}", LOGIN)
    return next((problem for problem in problems if problem.code != MISSING), problems[0])
