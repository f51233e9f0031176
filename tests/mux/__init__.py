"""Tests of mux/."""
