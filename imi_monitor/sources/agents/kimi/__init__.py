"""Kimi Code: the sessions of each workspace, with a record for each step."""
