"""Benchmarks: each figure is a ratio to a floor measured in the same run, because machines differ and are noisy."""
