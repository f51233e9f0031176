"""Agents are seen by themselves: one file per program reads what that program leaves behind; the rest is shared.

A new program is one file with a `Reader` (see `base.py`) and one line in `readers.py`.
"""
