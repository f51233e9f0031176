"""Tests of imi_monitor/store."""
