"""Tests of imi_monitor/ui, on the real app without a terminal."""
