"""File events: which folders are followed, by which means, and what their raw events say about files."""
