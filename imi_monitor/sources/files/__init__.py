"""File watching: watch roots, the watchers behind them, and changes made of their events."""
