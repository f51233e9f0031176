"""Tests of the walls."""
