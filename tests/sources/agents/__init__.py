"""Tests of the agent readers, on files and processes of fake agent programs."""
