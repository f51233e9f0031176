"""Tests of links/."""
