"""Each panel declares where it stands; nothing else names its number."""

from __future__ import annotations

import importlib

from imi_monitor.ui.panels import DETAIL_NUMBERS, MODULES, PANELS
from imi_monitor.ui.panels.panel import DETAIL, LIST


def test_numbers_of_panels_are_counted_from_one() -> None:
    assert [panel.number for panel in PANELS] == list(range(1, len(PANELS) + 1))


def test_one_panel_is_the_list_and_the_others_are_details() -> None:
    assert [panel.slot for panel in PANELS] == [LIST, *[DETAIL] * (len(PANELS) - 1)]
    assert tuple(panel.number for panel in PANELS[1:]) == DETAIL_NUMBERS


def test_every_registered_module_declares_its_panel() -> None:
    assert {importlib.import_module(module).PANEL for module in MODULES} == set(PANELS)
    assert all(panel.label for panel in PANELS)


def test_panels_declare_their_columns() -> None:
    assert [panel.column for panel in PANELS] == [0, 1, 0, 2, None]
