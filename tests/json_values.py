"""JSON of any shape, for tests of what reads foreign JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

JsonStrategy = st.SearchStrategy[Any]


def json_values(*keys: str, most_leaves: int = 6) -> JsonStrategy:
    """Any JSON value; the tables in it have these keys, or any."""
    names = st.sampled_from(keys) if keys else st.text(max_size=8)
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=most_leaves,
    )


def replace_a_field(data: st.DataObject, table: object, values: JsonStrategy) -> None:
    """Sometimes put another value into one field of the table, if it is one."""
    if isinstance(table, dict) and table and data.draw(st.booleans()):
        table[data.draw(st.sampled_from(sorted(table)))] = data.draw(values)
