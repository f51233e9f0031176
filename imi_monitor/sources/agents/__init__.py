"""Agents are seen by themselves: a room for each program that reads what it leaves behind; the rest is shared.

A new program is one file with a `Reader` (see `base.py`), in a room of its own, and one line in `readers.py`.
"""
