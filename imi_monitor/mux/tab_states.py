"""The state of a worktree's agent in the name of its tab or window: `⚠ feat-api`, and `feat-api` when the dashboard ends."""

from __future__ import annotations

from imi_monitor.model.errors import Refused
from imi_monitor.mux import tmux, zellij
from imi_monitor.mux.pane import without_sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class TabStates:
    """Names only tabs that have the name of a worktree, so a tab that the user has named is left alone."""

    def __init__(self, multiplexer: str) -> None:
        self._multiplexer = multiplexer
        self._named: set[str] = set()

    def show(self, signs: Mapping[str, str]) -> None:
        """Put these signs (worktree -> sign, or empty) in front of the tabs' names; a failure leaves them as they are."""
        mux = zellij if self._multiplexer == "zellij" else tmux
        wanted = {mux.tab_name(name): sign for name, sign in signs.items()}
        try:
            for tab, name in mux.list_tabs() or ():
                worktree = without_sign(name)
                if worktree not in wanted:
                    continue
                new = f"{wanted[worktree]} {worktree}".lstrip()
                if new != name:
                    mux.rename_tab(tab, new)
                if wanted[worktree]:
                    self._named.add(worktree)
        except Refused:
            return  # the next change of a state tries again

    def restore(self) -> None:
        """Give the tabs their plain names back."""
        if self._named:
            self.show(dict.fromkeys(self._named, ""))
