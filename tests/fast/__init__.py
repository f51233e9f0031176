"""Tests of the start-up replacements."""
