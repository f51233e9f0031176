"""Tests of imi_monitor/actions."""
