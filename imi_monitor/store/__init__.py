"""The only place with SQL: the registry, its migrations and its transactions."""
