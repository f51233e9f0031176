"""Replacements for parts of the standard library that cost too much at start-up; nothing here imports other imi modules.

Agents run `imi claim` all day and wait for it: its budget is twice the time of `python -I -c pass`. `python -m bench
fast` measures every replacement with and without; each module names its gain on the reference machine (Python 3.11).
"""
