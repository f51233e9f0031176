"""Sizes, counts and long ages as a person reads them in a sentence. Fixed-width columns use `times.age` instead.

`humanize` is imported by the first call, so that a command that prints no amount does not pay for it.
"""

from __future__ import annotations


def size(count: int) -> str:
    """Return a number of bytes: `512 Bytes`, `1.2 MB`."""
    from humanize import naturalsize

    return naturalsize(count)


def count(number: int) -> str:
    """Return a number with its thousands separated: `12,345`."""
    from humanize import intcomma

    return intcomma(number)


def long_age(seconds: float) -> str:
    """Return an age in words: `3 days`, `an hour`, `2 months`."""
    from humanize import naturaldelta

    return naturaldelta(seconds)
