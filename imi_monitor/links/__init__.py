"""The only place that talks to servers. Each is optional and lazy."""
