"""Tests of imi_monitor/git."""
