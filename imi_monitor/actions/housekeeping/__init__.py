"""Disk use, backups of the registry, and taking imi's changes out of a machine."""
