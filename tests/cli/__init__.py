"""Tests of imi_monitor/cli."""
