"""Tests of imi_monitor/model."""
