"""The bridge of a window whose program reports nothing: runs the screen, and records what imi's readers see of it.

Each change is one line of `out`. A question is what the terminal shows; `window_input` answers it by keys, if the terminal still
shows it then.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from imi_monitor.model.agent import GUESS, UNKNOWN, WAITING, Agent, AgentEvent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key
from imi_monitor.runs import screen_dialog, ways
from imi_monitor.runs.keeper import LONGEST_ARGUMENT
from imi_monitor.runs.launch_folder import PACKET
from imi_monitor.runs.server_bridge import Message, ServerBridge

_LOOKS: Final = 1.0  # seconds between two looks
_FACTS: Final = 5.0  # seconds that growing numbers may be behind


class ScreenBridge(ServerBridge):
    pause = _LOOKS
    _asks = 0

    def run(self) -> int:
        """As above; where the program refuses to resume its session, a new one follows in the same window."""
        code = super().run()
        if code != self.plan.get("refuses"):
            return code
        self._begin_anew(code)
        return super().run()

    def _begin_anew(self, code: int) -> None:
        packet = self.folder.packet()
        if len(os.fsencode(packet)) > LONGEST_ARGUMENT:
            packet = f"Read {self.folder.file(PACKET)} and do what it says."
        self.words = [f"{self.plan['prompt']}{packet}"]
        self.plan = {**self.plan, **self.plan["anew"], "refuses": None}
        why = f"{self.plan['cli']} ended with exit status {code}"
        self.record(json.dumps({"refused": why, "session": self.plan["session"]}).encode())

    def start(self) -> None:
        from imi_monitor.sources import agents
        from imi_monitor.sources.agents.agent_poll import AgentPoll

        cli = str(self.plan["cli"])
        readers = [one for one in agents.all_readers() if one.cli in (cli, "hooks", "titles", "processes")]
        self._poll = AgentPoll(readers, agents.process_scanner(), os.environ)
        self._roots = {os.path.realpath(os.getcwd()): Key("", "", "")}
        self._cli, self._session = cli, self.plan.get("session")
        self._next = self._facts_at = 0.0
        self._last: Message = {}
        self._facts: Message = {}
        self._ask: Message | None = None
        self.start_screen([*self.plan["argv"], *self.words])

    def sources(self) -> list[Any]:
        return []

    def send(self, message: Message) -> None:
        return  # it is typed

    def end(self) -> None:
        if self.screen is not None:
            self._look()

    def receive(self) -> None:
        if time.monotonic() >= self._next:
            self._look()
            self._next = time.monotonic() + _LOOKS

    def _look(self) -> None:
        found = next((one for one in self._poll.poll(None, self._roots).agents if self._is_mine(one.agent)), None)
        if found is None or found.agent.truth.ended:
            return
        agent, now = found.agent, time.monotonic()
        truth = agent.truth
        state = UNKNOWN if truth.confidence == GUESS else truth.state
        self._follow_dialog(state, agent)
        seen: Message = {"state": state, "detail": truth.detail or (str(truth.tool) if truth.tool else None)}
        seen |= {"session": agent.session, "ask": self._ask}
        facts = {name: value for name, value in asdict(agent.facts).items() if value not in (None, ())}
        grown = facts != self._facts and now >= self._facts_at + _FACTS
        if seen == self._last and not found.events and not grown:
            return
        self._last, self._facts, self._facts_at = seen, facts, now
        events = [_as_json(one) for one in found.events]
        self.record(json.dumps({"seen": seen, "facts": facts, "events": events}).encode())

    def _is_mine(self, agent: Agent) -> bool:
        if agent.cli != self._cli:
            return False
        if agent.session is not None and agent.session == self._session:
            return True
        return self.screen is not None and agent.pid == self.screen.pid

    def _follow_dialog(self, state: str, agent: Agent) -> None:
        """What the terminal asks, as long as it does; another text is another question."""
        dialog = None
        if state == WAITING:
            with suppress(ImiError):
                dialog = screen_dialog.find(ways.of(self.folder).screen(self.folder))
        if dialog is None:
            self._ask = None
        elif self._ask is None or self._ask["text"] != dialog.text:
            self._asks += 1
            tool = agent.truth.tool
            self._ask = {
                "id": f"screen-{self._asks}",
                "tool": tool.name if tool is not None else None,
                "text": dialog.text,
                "choices": list(dialog.choices),
            }


def _as_json(event: AgentEvent) -> Message:
    return {name: value for name, value in asdict(event).items() if value not in (None, ())}
