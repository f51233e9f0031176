"""Prints a table of every scenario, with the live registry and by transcripts alone, judged step by step.

Run `python -m tests.sources.agents.claude_state_table`. `right`: the right state; `unknown`: unknown, or the right state is
among the alternatives (`or_else`); `wrong`: anything else.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, RUNNING, UNKNOWN, WAITING, Agent
from tests.sources.agents.claude_kit import Scene
from tests.sources.agents.fakes.claude import Claude
from tests.sources.agents.test_claude_processes import killed, process
from tests.sources.agents.test_claude_scenarios import SCENARIOS, Step, judged

Life = Callable[[Scene, Claude], Agent]


def _killed(scene: Scene, claude: Claude) -> Agent:
    claude.tool("Bash", command="make")
    killed(scene, claude)
    return scene.agent()


def _killed_at_rest(scene: Scene, claude: Claude) -> Agent:
    claude.finish("y")
    killed(scene, claude)
    return scene.agent()


def _resumed(scene: Scene, claude: Claude) -> Agent:
    _killed(scene, claude)
    scene.wait(5)
    scene.claude(claude.session).start()
    return scene.agent()


def _terminal_closed(scene: Scene, claude: Claude) -> Agent:
    claude.leave()
    return scene.agent(whole=True)


def _cleared(scene: Scene, claude: Claude) -> Agent:
    claude.finish("y")
    scene.read()
    claude.clear()
    claude.prompt("anew")
    return scene.agent(claude.session)


def _cleared_before(scene: Scene, claude: Claude) -> Agent:
    old = claude.session
    _cleared(scene, claude)
    return scene.agent(old)


def _dialog(scene: Scene, claude: Claude) -> Agent:
    claude.leave()
    scene.reader = type(scene.reader)()
    Path(claude.path).unlink()
    (agent,) = scene.agents(whole=True, processes=(process(scene),))
    return agent


def _torn(scene: Scene, claude: Claude) -> Agent:
    claude.raw(b'{"parentUuid":"1","isSide')
    return scene.agent()


def _strange_status(scene: Scene, claude: Claude) -> Agent:
    claude.register("hibernating")
    return scene.agent()


LIVES: dict[str, tuple[Life, str]] = {
    "kill -9 in a tool": (_killed, DEAD),
    "kill -9 after a turn": (_killed_at_rest, COMPLETED),
    "kill -9, then resumed": (_resumed, CANCELLED),
    "terminal closed in a turn": (_terminal_closed, DEAD),
    "/clear, the new session": (_cleared, RUNNING),
    "/clear, the old session": (_cleared_before, COMPLETED),
    "a dialog at the start": (_dialog, WAITING),
    "a torn last line": (_torn, RUNNING),
    "an unknown status": (_strange_status, UNKNOWN),
}


def played(name: str, registers: bool) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        claude = scene.claude() if registers else scene.claude(registers=False, version="2.0.50")
        claude.start()
        verdicts = []
        for step in SCENARIOS[name]:
            scene.wait(1.5)
            step.act(claude)
            scene.wait(step.quiet)
            verdicts.append(judged(scene.agent(), step))
    return Counter(verdicts)


def lived(name: str) -> Counter[str]:
    life, state = LIVES[name]
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        claude = scene.claude()
        claude.start()
        claude.prompt("x")
        return Counter([judged(life(scene, claude), Step(lambda c: None, state))])


def main() -> None:
    print(f"{'claude':52}  registry               transcript alone")
    for name in SCENARIOS:
        print(f"{name:52}  {_row(played(name, True)):21}  {_row(played(name, False))}")
    for name in LIVES:
        print(f"{name:52}  {_row(lived(name)):21}  –")


def _row(verdicts: Counter[str]) -> str:
    return " ".join(f"{verdicts[one]} {one}" for one in ("right", "unknown", "wrong") if verdicts[one])


if __name__ == "__main__":
    main()
