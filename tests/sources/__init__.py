"""Tests of imi_monitor/sources."""
