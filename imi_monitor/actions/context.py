"""What an action works with: the caller's folder, the settings, the registry, git, and a way to report progress.

Each is opened at its first use and closed at the end. The store is imported late, because it takes a quarter of the time
of a hot command; `imi release` runs git meanwhile.
"""

from __future__ import annotations

import os

from imi_monitor import config
from imi_monitor.git import layout
from imi_monitor.model import names
from imi_monitor.model.errors import ImiError, Refused, RegistryError, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.action import Request
    from imi_monitor.git.runner import Git
    from imi_monitor.store.followed_registry import FollowedRegistry
    from imi_monitor.store.lost_registry import RegistryTrace
    from imi_monitor.store.repositories import RepositoryRegistration


def _discard(_: str) -> None:
    """Progress without a display."""


def _never() -> bool:
    return False


def _no_choice(_title: str, _lines: list[str]) -> int | None:
    """The choice where no user can answer."""
    return None


class Context:
    """The surroundings of one caller. As a context manager it closes the registry, also after an error."""

    def __init__(
        self,
        cwd: str | None = None,
        *,
        database: str | None = None,
        repo: str | None = None,
        progress: Callable[[str], None] | None = None,
        notify: Callable[[str], None] | None = None,
        emit: Callable[[str | None, dict[str, object]], None] | None = None,
        cancelled: Callable[[], bool] = _never,
        choose: Callable[[str, list[str]], int | None] = _no_choice,
    ) -> None:
        self._cwd = cwd
        self._repo = repo
        self.database = config.database_path(database)
        self.progress = progress or _discard
        self.shows_progress = progress is not None  # without a display, git is not asked for progress
        self.notify = notify or _discard  # what must be known while the action still runs
        self.cancelled = cancelled
        self.choose = choose  # (title, lines) -> the index of the chosen line, or None
        self._emit = emit
        self.tolerated_settings: tuple[str, ...] = ()  # sections whose problems do not matter here
        self.prints_json = False  # stdout is for one JSON object
        self.notes: list[str] = []  # what the user should know beside the outcome
        self.process_ends = False  # the process ends afterwards, so the kernel may close the registry
        self.needs_registry = True  # False: reads find an empty registry while the real one cannot be used
        self.reads_only = False  # a registry that cannot be written is read
        self.registry_is_read_only = False  # set when the registry is opened
        self._problem: RegistryError | None = None
        self._connection: sqlite3.Connection | None = None
        self._followed: FollowedRegistry | None = None  # instead of the connection, once `follow_registry` was called
        self._settings: dict[str | None, config.Settings] = {}  # by cluster
        self._repository: layout.Repository | None = None
        self._places: dict[str, layout.RepositoryLocation | None] = {}

    def __enter__(self) -> Context:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        opened = self._connection is not None or self._followed is not None
        if self.process_ends and self._connection is not None:
            from imi_monitor.store import db

            db.leave_open(self._connection)
            self._connection = None
        self.close()
        if error is None or not opened:
            return
        from imi_monitor.store import db

        if isinstance(error, db.Error):  # from a query outside of `db.read` and `db.transact`
            raise db.registry_error(error, self.database) from error

    def close(self) -> None:
        if self._followed is not None:
            self._followed.close()
            self._followed = None
        if self._connection is not None:
            from imi_monitor.store import db

            db.close(self._connection)
            self._connection = None

    @property
    def cwd(self) -> str:
        """The caller's folder; Refused when it no longer exists."""
        if self._cwd is None:
            try:
                self._cwd = os.getcwd()
            except OSError as error:
                raise Refused("the current folder no longer exists: cd to another one", code="no-cwd") from error
        return self._cwd

    def emit(self, line: str | None, data: dict[str, object]) -> None:
        """Print one entry of a stream at once, for `--follow`; without a line it is in JSON only."""
        if self._emit is not None:
            self._emit(line, data)

    @property
    def connection(self) -> sqlite3.Connection:
        """The open registry. When it cannot be used: RegistryError, or its empty stand-in if it is not needed."""
        if self._followed is not None:
            return self._followed.connection()
        if self._connection is None:
            problem = self.registry_problem
            if problem is not None:
                self._connection = self._stand_in(problem)
        assert self._connection is not None
        return self._connection

    @property
    def registry_problem(self) -> RegistryError | None:
        """Why the registry cannot be used; None if it can."""
        if self._connection is None and self._problem is None and self._followed is None:
            try:
                self._connection = self._connect()
            except RegistryError as error:
                self._connection = self._connect_read_only(error)
                self._problem = error if self._connection is None else None
        return self._problem

    @property
    def is_registry_writable(self) -> bool:
        return self.registry_problem is None and not self.registry_is_read_only

    def _connect_read_only(self, problem: RegistryError) -> sqlite3.Connection | None:
        if not self.reads_only or problem.code != "registry-readonly":
            return None
        from imi_monitor.store import stand_in

        found = stand_in.open_read_only(problem, self.database)
        if found is not None:
            self.registry_is_read_only = True
            self.notes.append(f"what was recorded so far is shown: {problem.sentence}")
        return found

    def _connect(self, create: bool = True) -> sqlite3.Connection:
        from imi_monitor.store import db

        connection = db.connect(self.database, create=create, find_traces=self.find_traces)
        self.notes += db.notes(connection)
        return connection

    def follow_registry(self) -> None:
        """Let `connection` follow the registry when its file is replaced, for an action that runs for long."""
        if self._followed is None:
            from imi_monitor.store.followed_registry import FollowedRegistry

            opened, self._connection = self.connection, None
            self._followed = FollowedRegistry(self.database, self._connect, opened=opened)

    def handle_registry_error(self, error: RegistryError) -> None:
        """Open the registry again at its next use, if it is followed."""
        if self._followed is not None:
            self._followed.handle(error)

    def find_traces(self, real: str) -> list[RegistryTrace]:
        """Return what names the registry at `real` in the repository around the caller, and in the hooks' folder."""
        from imi_monitor import registry_traces

        folder = os.path.join(self.cwd, self._repo or "")
        try:
            place = layout.discover(folder if os.path.isdir(folder) else self.cwd)
        except (ImiError, OSError):
            place = None
        return registry_traces.find_traces(real, [place.repository] if place else [])

    def do_without_registry(self, problem: RegistryError) -> None:
        """Use the empty stand-in from now on: the registry was opened and failed later."""
        self.close()
        self.needs_registry, self._problem = False, problem

    def _stand_in(self, problem: RegistryError) -> sqlite3.Connection:
        if self.needs_registry:
            raise problem
        from imi_monitor.store import stand_in

        return stand_in.open_stand_in(problem, self.database)

    @property
    def settings(self) -> config.Settings:
        return self.settings_of(self._repository)

    def settings_of(self, repository: layout.Repository | None) -> config.Settings:
        """The user's settings, overridden by those of the repository's cluster; raises what is wrong with them."""
        settings = self.read_settings(repository)
        settings.check(self.tolerated_settings)
        return settings

    def read_settings(self, repository: layout.Repository | None) -> config.Settings:
        """Return the settings like `settings_of`, but with their problems as a list instead of an error."""
        cluster = repository.cluster if repository else None
        if cluster not in self._settings:
            extra = os.path.join(cluster, ".iMi", "config.toml") if cluster else None
            self._settings[cluster] = config.read(extra)
        return self._settings[cluster]

    def settings_read(self) -> list[config.Settings]:
        """All settings that were read, by cluster."""
        return list(self._settings.values())

    @property
    def explicit_repo(self) -> bool:
        """Whether the caller named a repository with `--repo`."""
        return self._repo is not None

    @property
    def repo_option(self) -> str | None:
        """The value of `--repo`."""
        return self._repo

    def repo_filter(self, request: Request) -> str | None:
        """The repository that a listing is about: that of `--repo`, else the one around the caller.

        None for all: with `--all`, or outside of a repository. Empty if the repository is not registered.
        """
        if request.flag("all"):
            return None
        repository = self.find_repository()
        return None if repository is None else self.repo_name(repository) or ""

    def place(self) -> layout.RepositoryLocation | None:
        """The worktree around the caller's folder, if there is one. `--repo` does not change this."""
        return layout.discover(self.cwd)

    def place_at(self, path: str) -> layout.RepositoryLocation | None:
        """The worktree at `path`, cached: some verbs need it twice within milliseconds."""
        if path not in self._places:
            self._places[path] = layout.discover(path)
        return self._places[path]

    def repository(self, named: str | None = None) -> layout.Repository:
        """The repository called `named`, else that of `--repo`, else the one around the caller; Refused when there is none."""
        if named is not None:
            return self.named_repository(named)
        if self._repository is None:
            self._repository = self.named_repository(self._repo) if self._repo is not None else self._around()
        return self._repository

    def find_repository(self) -> layout.Repository | None:
        """Like `repository()`, but None when `--repo` is not given and the caller is outside of any repository."""
        if self._repository is None and self._repo is None:
            place = self.place()
            self._repository = place.repository if place else None
            return self._repository
        return self.repository()

    def named_repository(self, named: str) -> layout.Repository:
        """A repository by path, by its name in the registry, or by its folder, as the dashboard calls it."""
        if os.path.exists(os.path.join(self.cwd, named)):
            place = layout.discover(os.path.join(self.cwd, named))
            if place is not None:
                return place.repository
            raise Refused(f"{safe(named)} is not inside a git repository", code="no-repository")
        from imi_monitor.store import repositories

        common_dir = repositories.list_common_dirs(self.connection).get(named)
        if common_dir is None:
            rows = repositories.list_repositories(self.connection)
            in_folder = [row for row in rows if os.path.basename(row.path.rstrip("/")) == named]
            row = next((row for row in rows if row.name == named), in_folder[0] if len(in_folder) == 1 else None)
            place = layout.discover(row.path) if row and os.path.isdir(row.path) else None
            common_dir = place.repository.common_dir if place else None
        if common_dir is None or not os.path.isdir(common_dir):
            known = ", ".join(safe(row.name) for row in repositories.list_repositories(self.connection)) or "none"
            raise Refused(
                f"no repository {safe(named)!r} here or in the registry (known: {known}): give a path or one of these",
                code="no-repository",
            )
        return layout.repository_at(common_dir)

    def open_known_repositories(self) -> None:
        """Open the repository around the caller and all of the registry, for verbs that need none of them but run programs:
        programs inside the worktrees of an opened repository are not run."""
        from contextlib import suppress

        from imi_monitor import roster

        with suppress(ImiError):  # the folder is gone, or its .git file leads nowhere
            layout.discover(self.cwd)
        with suppress(ImiError):  # the registry is damaged
            if os.path.exists(self.database):
                roster.known_repositories(self.connection)

    def _around(self) -> layout.Repository:
        place = self.place()
        if place is None:
            raise Refused(
                f"{safe(self.cwd)} is not inside a git repository: cd into one, or name one with --repo",
                code="no-repository",
            )
        return place.repository

    def repo_name(self, repository: layout.Repository) -> str | None:
        """The name the repository is registered under; None when it is not registered yet."""
        from imi_monitor.store import repositories

        return repositories.find_name(self.connection, repository.common_dir, repository.main_path)

    def registration(self, repository: layout.Repository) -> RepositoryRegistration:
        """Return what the registry records about the repository."""
        from imi_monitor.store import repositories

        branch = layout.read_head(repository.common_dir, repository.common_dir)[0] or "main"
        known = self.repo_name(repository)
        if known is not None:
            branch = next(r.default_branch for r in repositories.list_repositories(self.connection) if r.name == known)
        return repositories.RepositoryRegistration(
            layout.repository_name(repository),
            common_dir=repository.common_dir,
            path=repository.home,
            remote_url=layout.remote_url(repository),
            default_branch=branch,
        )

    def register(self, repository: layout.Repository, connection: sqlite3.Connection | None = None) -> str:
        """Register the repository if it is not; pass the connection inside a transaction, else this is one."""
        from imi_monitor.store import db, repositories

        if connection is not None:
            return repositories.register(connection, self.registration(repository))
        return db.transact(self.connection, repositories.register, self.registration(repository))

    def git(self, repository: layout.Repository, admin_dir: str | None = None, path: str | None = None) -> Git:
        """git on the repository or on one of its worktrees, with the repository's trust."""
        from imi_monitor.git.runner import Git

        if admin_dir is None:
            admin_dir, path = repository.common_dir, repository.main_path
        return Git(repository.common_dir, admin_dir, path, trusted=self.trusted(repository))

    def trusted(self, repository: layout.Repository) -> bool:
        """Whether the repository's programs may run: the user trusts them and they have not changed since."""
        from imi_monitor.store import repositories

        stored = repositories.trusted_fingerprint(self.connection, repository.common_dir)
        if stored is None:
            return False
        from imi_monitor.git import safety

        return stored == safety.fingerprint(repository.common_dir)

    def agent(self, request: Request) -> str:
        """The acting agent: `--agent`, else IMI_AGENT_ID, else the configured one, else `human:$USER`."""
        agent = request.text("agent")
        if agent is None:  # an empty value is an error (an unset variable in a script), not the default
            agent = os.environ.get("IMI_AGENT_ID")
        if agent is None:
            agent = self.settings.text("claims.agent") or f"human:{_user()}"
        problem = names.agent_problem(agent)
        if problem:
            raise UsageError(f"agent {safe(agent)!r} {problem}", code="bad-agent")
        return agent


def _user() -> str:
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    if name:
        return name
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
