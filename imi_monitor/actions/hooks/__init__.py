"""Hooks of agent programs: installed into their settings, shown, and removed byte for byte."""
