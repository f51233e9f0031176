"""The keys of a team on its Redis, and how long they live. All have one hash tag, so that a cluster keeps them on one node."""

from __future__ import annotations

LIFETIME = 30  # seconds that a home is present after its last sign of life
SEPARATOR = "\x1f"  # between the names of rows in one entry of the news
MOST_NEWS = 1000
MOST_EVENTS = 20_000


class TeamKeys:
    """The names of the keys of one team."""

    def __init__(self, team: str) -> None:
        self.prefix = f"imi:{{{team}}}"
        self.homes = f"{self.prefix}:homes"  # home -> its description: every home that ever was here
        self.news = f"{self.prefix}:news"  # a stream that names the rows that changed

        self.feed = f"{self.prefix}:feed"  # a stream of the last events

    def feed_mark(self, ident: str) -> str:
        """Return the key that says that the feed has events of this home; it is gone when the server has lost its data."""
        return f"{self.prefix}:fed:{ident}"

    def reservation(self, kind: str, name: str) -> str:
        """Return the key that names the home which has something that only one may have."""
        return f"{self.prefix}:rsv:{kind}:{name}"

    def home(self, ident: str) -> str:
        return f"{self.prefix}:home:{ident}"

    def questions(self, ident: str) -> str:
        return f"{self.prefix}:asks:{ident}"

    def reserved(self, kind: str, name: str) -> str:
        """Return the key that names who has reserved a branch or task by `imi reserve`."""
        return f"{self.prefix}:reserved:{kind}:{name}"

    def reserved_epoch(self, kind: str, name: str) -> str:
        return f"{self.prefix}:epoch:{kind}:{name}"

    def sent_contexts(self, ident: str) -> str:
        """There while the server has what this home sent about its terminals."""
        return f"{self.prefix}:contexts:{ident}"

    def answer(self, question: str) -> str:
        return f"{self.prefix}:r:{question}"

    def bell(self, question: str) -> str:
        return f"{self.prefix}:r:{question}:w"

    def waiting(self, question: str) -> str:
        return f"{self.prefix}:r:{question}:s"
