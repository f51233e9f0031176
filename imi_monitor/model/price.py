"""What tokens cost, by the user's own table of prices: dollars for a million tokens of input, output and cached input."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from imi_monitor.model.agent import SessionFacts

_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in dollars."""

    tokens_in: float
    tokens_out: float
    cached: float


def amount(text: str) -> float | None:
    """An amount of money such as `5.00` or `$5`; None if it is none, or not above zero."""
    try:
        found = float(text.strip().removeprefix("$"))
    except ValueError:
        return None
    return found if 0 < found < 1e6 else None


def parse(text: str) -> Price | None:
    """The price in `1.25 10 0.125`: input, output, cached input, which is free where it is missing; None if it is none."""
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        return None
    if len(numbers) not in (2, 3) or not all(0 <= one < 1e6 for one in numbers):
        return None
    return Price(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0.0)


def of_model(prices: Mapping[str, str], model: str | None) -> Price | None:
    """The price of a model: that of the longest name in the table with which the model's name begins."""
    names = [name for name in prices if model is not None and model.startswith(name)]
    return parse(prices[max(names, key=len)]) if names else None


def cost(facts: SessionFacts, prices: Mapping[str, str]) -> float | None:
    """Return what a session has cost in dollars: as its program reports it, else by the prices; None: unknown."""
    if facts.cost_usd is not None:
        return facts.cost_usd
    price = of_model(prices, facts.model)
    if price is None or (facts.tokens_in is None and facts.tokens_out is None):
        return None
    paid = (facts.tokens_in or 0) * price.tokens_in + (facts.tokens_out or 0) * price.tokens_out
    return (paid + (facts.tokens_cached or 0) * price.cached) / _MILLION
