"""The colour themes. Widgets and styles name a meaning, never a colour.

accent = works, warning = asks or stale, error = collision or failure, success = done, muted = age and idle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

STATE_COLOURS = {
    "agent-asks": "warning",
    "agent-intrudes": "error",
    "agent-failed": "error",
    "agent-dead": "error",
    "agent-suspended": "warning",
    "agent-works": "accent",
    "agent-idle": "success",
    "claim-held": "accent",
    "claim-stale": "warning",
    "claim-dead": "error",
    "collision": "error",
    "overlap": "warning",
    "missing": "error",
}
"""Token of a state -> the theme's colour it has. Code names the token (`$agent-asks`); a theme may give one its own colour in
`variables`."""

_DARK_EXTRAS = {
    "text-muted": "#8594a5",
    "text-disabled": "#5a6775",
    "block-cursor-foreground": "#ffffff",
    "block-cursor-background": "#2b4a6f",
    "block-cursor-text-style": "none",
    "block-cursor-blurred-background": "#26303c",
    "block-cursor-blurred-foreground": "#dde4ec",
    "border": "#5fa8e8",
    "border-blurred": "#3a4654",
    "scrollbar": "#3a4654",
    "scrollbar-background": "#12171d",
    "footer-key-foreground": "#7cc4ff",
}
_LIGHT_EXTRAS = {
    "text-muted": "#5f6c79",
    "text-disabled": "#98a3ae",
    "block-cursor-foreground": "#10151b",
    "block-cursor-background": "#bcd9f5",
    "block-cursor-text-style": "none",
    "block-cursor-blurred-background": "#e1e6ec",
    "block-cursor-blurred-foreground": "#10151b",
    "border": "#1f6fb8",
    "border-blurred": "#b9c3ce",
    "scrollbar": "#b9c3ce",
    "scrollbar-background": "#eef1f4",
    "footer-key-foreground": "#1661a5",
}

THEMES = (
    Theme(
        "imi-dark",
        primary="#5fa8e8",
        secondary="#8f9fb3",
        accent="#5cc8d6",
        warning="#f0b429",
        error="#ff6b6b",
        success="#6cc777",
        foreground="#dde4ec",
        background="#12171d",
        surface="#171d25",
        panel="#1d2530",
        dark=True,
        variables=_DARK_EXTRAS,
    ),
    Theme(
        "imi-light",
        primary="#1661a5",
        secondary="#5b6875",
        accent="#0b7285",
        warning="#9a5b00",
        error="#c02626",
        success="#237a35",
        foreground="#1b222a",
        background="#fbfcfd",
        surface="#f4f6f8",
        panel="#e6ebf0",
        dark=False,
        variables=_LIGHT_EXTRAS,
    ),
    # Okabe and Ito's colours: distinguishable without seeing red or green
    Theme(
        "imi-colour-blind",
        primary="#56b4e9",
        secondary="#8f9fb3",
        accent="#56b4e9",
        warning="#f0e442",
        error="#ee7733",
        success="#88ccee",
        foreground="#e6e9ed",
        background="#101418",
        surface="#161b21",
        panel="#1d242c",
        dark=True,
        variables={**_DARK_EXTRAS, "block-cursor-background": "#0f4c75"},
    ),
    Theme(
        "imi-colour-blind-light",
        primary="#005b8f",
        secondary="#5b6875",
        accent="#0072b2",
        warning="#8a6d00",
        error="#b84300",
        success="#00507d",
        foreground="#1b222a",
        background="#fcfcfa",
        surface="#f4f4f0",
        panel="#e8e8e2",
        dark=False,
        variables=_LIGHT_EXTRAS,
    ),
    # the terminal's sixteen colours
    Theme(
        "imi-16",
        primary="ansi_blue",
        secondary="ansi_white",
        accent="ansi_cyan",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=True,
        ansi=True,
        variables={
            **BUILTIN_THEMES["ansi-dark"].variables,
            "block-cursor-blurred-background": "ansi_bright_black",
            "text-muted": "ansi_bright_black",
            "text-disabled": "ansi_bright_black",
            "border": "ansi_cyan",
            "border-blurred": "ansi_bright_black",
            "footer-key-foreground": "ansi_cyan",
        },
    ),
)
NAMES = {
    "imi-dark": "imi, dark",
    "imi-light": "imi, light",
    "imi-colour-blind": "imi, dark, for colour-blind eyes",
    "imi-colour-blind-light": "imi, light, for colour-blind eyes",
    "imi-16": "the terminal's sixteen colours",
}

KNOWN = {
    "nord": "Nord",
    "gruvbox": "Gruvbox",
    "catppuccin-mocha": "Catppuccin, dark",
    "catppuccin-latte": "Catppuccin, light",
    "dracula": "Dracula",
    "solarized-dark": "Solarized, dark",
    "solarized-light": "Solarized, light",
    "tokyo-night": "Tokyo Night",
}
"""Themes of Textual that the menu offers beside ours."""


LEAST_CONTRAST, LEAST_CONTRAST_OF_TEXT = 4.0, 8.5  # of a colour and of plain text, to the background
_MEANINGFUL = ("primary", "secondary", "accent", "warning", "error", "success")


def contrast(one: Color, other: Color) -> float:
    """The contrast of two colours as WCAG defines it, from 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Color) -> float:
    channels = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in colour.normalized]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def _readable(colour: Color, back: Color, least: float) -> Color:
    """The colour, or so much lighter on a dark background, darker on a light one, that its contrast is large enough."""
    end = Color(255, 255, 255) if back.brightness < 0.5 else Color(0, 0, 0)
    steps = (colour.blend(end, step / 20) for step in range(21))
    return next((one for one in steps if contrast(one, back) >= least), end)


def adapted(name: str) -> Theme:
    """A theme of Textual with greys, borders and cursor mixed from its own colours, as ours have them.

    Colours that are too close to the background to be read are moved away from it.
    """
    theme = BUILTIN_THEMES[name]
    colours = theme.to_color_system().generate()
    back = Color.parse(colours["background"])
    fore = _readable(Color.parse(colours["foreground"]), back, LEAST_CONTRAST_OF_TEXT)
    shown = {one: _readable(Color.parse(colours[one]), back, LEAST_CONTRAST) for one in _MEANINGFUL}
    primary = shown["primary"]
    mixed = {
        "text-muted": back.blend(fore, 0.6),
        "text-disabled": back.blend(fore, 0.4),
        "block-cursor-foreground": fore,
        "block-cursor-background": back.blend(primary, 0.22),
        "block-cursor-blurred-foreground": fore,
        "block-cursor-blurred-background": back.blend(fore, 0.12),
        "border": primary,
        "border-blurred": back.blend(fore, 0.25),
        "scrollbar": back.blend(fore, 0.25),
        "scrollbar-background": back,
        "footer-key-foreground": primary,
    }
    ours = {token: colour.hex6 for token, colour in mixed.items()} | {"block-cursor-text-style": "none"}
    return replace(
        theme,
        primary=primary.hex6,
        secondary=shown["secondary"].hex6,
        accent=shown["accent"].hex6,
        warning=shown["warning"].hex6,
        error=shown["error"].hex6,
        success=shown["success"].hex6,
        foreground=fore.hex6,
        variables={**theme.variables, **ours},
    )


def is_unadapted(theme: Theme | None) -> bool:
    """Whether this is one of the known themes as Textual has it."""
    return theme is not None and theme.name in KNOWN and theme is BUILTIN_THEMES[theme.name]


def config_name(name: str) -> str:
    """The theme's name in `ui.theme`."""
    return name.removeprefix("imi-")


def state_tokens(variables: Mapping[str, str]) -> dict[str, str]:
    """The colour of each state's token, given a theme's variables; a token the theme sets itself is left out."""
    return {token: variables[colour] for token, colour in STATE_COLOURS.items() if token not in variables}


def default() -> str:
    """Return the theme used without a choice: `imi-16` for a terminal of few colours."""
    few = os.environ.get("TERM", "") in ("linux", "xterm", "vt100", "vt220", "ansi", "screen", "rxvt")
    rich = os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    return "imi-16" if few and not rich else "imi-dark"
