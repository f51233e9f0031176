"""The state of a worktree's agent in the name of its tab or window: `⚠ feat-api`, and `feat-api` when the dashboard ends."""

from __future__ import annotations

import time

from imi_monitor.model.errors import Refused
from imi_monitor.mux import tmux, zellij
from imi_monitor.mux.pane import without_sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class TabHolder(Protocol):
        """What has tabs: the modules of tmux and Zellij."""

        def tab_name(self, name: str, /) -> str: ...
        def list_tabs(self) -> list[tuple[str, str]] | None: ...
        def rename_tab(self, tab: str, name: str, /) -> None: ...


_RESTORE_SECONDS, _RESTORE_PAUSE = 1.0, 0.1


def tab_states(multiplexer: str) -> TabStates:
    return TabStates(zellij if multiplexer == "zellij" else tmux)


class TabStates:
    """Names only tabs that have the name of a worktree, so a tab that the user has named is left alone."""

    def __init__(self, holder: TabHolder) -> None:
        self._holder = holder
        self._named: set[str] = set()

    def show(self, signs: Mapping[str, str]) -> bool:
        """Put these signs (worktree -> sign, or empty) in front of the tabs' names; False if the multiplexer refused."""
        wanted = {self._holder.tab_name(name): sign for name, sign in signs.items()}
        try:
            tabs = self._holder.list_tabs() or ()
        except Refused:
            return False
        done = True
        for tab, name in tabs:
            worktree = without_sign(name)
            if worktree not in wanted:
                continue
            new = f"{wanted[worktree]} {worktree}".lstrip()
            if wanted[worktree]:
                self._named.add(worktree)
            if new != name:
                done = self._rename(tab, new) and done
        return done

    def restore(self) -> None:
        """Give the tabs their plain names back; a refusal is tried again for a moment."""
        until = time.monotonic() + _RESTORE_SECONDS
        while self._named and not self.show(dict.fromkeys(self._named, "")) and time.monotonic() < until:
            time.sleep(_RESTORE_PAUSE)

    def _rename(self, tab: str, name: str) -> bool:
        try:
            self._holder.rename_tab(tab, name)
        except Refused:  # it is closed, or the multiplexer is busy
            return False
        return True
