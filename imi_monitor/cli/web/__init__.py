"""`imi web`: the dashboard in a browser. A viewer has a dashboard of its own, in a pseudo-terminal behind a WebSocket."""
