"""Tests of contained workspaces."""
