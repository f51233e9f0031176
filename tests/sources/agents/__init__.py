"""Agents seen from outside."""
