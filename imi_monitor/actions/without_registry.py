"""Running what git alone can answer (`Action.needs_registry` is False) also while the registry cannot be used.

The worktrees are git's then, claims are unknown and count as held, and the outcome carries one warning that says why.
"""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.model.errors import ImiError, RegistryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.context import Context


def run(context: Context, read: Callable[[], Outcome], *, again: bool = True) -> Outcome:
    """The outcome of `read`; with `again` it is called once more when the registry fails meanwhile, so it must only read."""
    context.needs_registry = False
    problem = context.registry_problem
    if problem is None and not again:
        return read()
    if problem is None:
        try:
            return read()
        except Exception as error:
            problem = _registry_error(error, context.database)
            if problem is None:
                raise
        context.do_without_registry(problem)
    return _read_without(read, problem)


def _read_without(read: Callable[[], Outcome], problem: RegistryError) -> Outcome:
    try:
        outcome = read()
    except ImiError as error:
        if error.code == "no-repository":  # outside of a repository only the registry lists any
            raise problem from error
        error.details = (*error.details, warning(problem))
        raise
    outcome.warnings.insert(0, warning(problem))
    outcome.data["registry"] = {"code": problem.code, "error": problem.sentence}
    return outcome


def warning(problem: RegistryError) -> str:
    return f"claims are unknown and count as held: {problem.sentence}"


def _registry_error(error: Exception, path: str) -> RegistryError | None:
    from imi_monitor.store import db

    if isinstance(error, RegistryError):
        return error
    return db.registry_error(error, path) if isinstance(error, db.Error) else None
