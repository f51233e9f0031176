"""Notes on lines of a diff: kept, sent to the agent as one round, answered and handled."""
