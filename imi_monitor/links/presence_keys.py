"""The keys of a team on its Redis, and how long they live. All have one hash tag, so that a cluster keeps them on one node."""

from __future__ import annotations

LIFETIME = 30  # seconds that a home is present after its last sign of life
SEPARATOR = "\x1f"  # between the names of rows in one entry of the news
MOST_NEWS = 1000


class TeamKeys:
    """The names of the keys of one team."""

    def __init__(self, team: str) -> None:
        self.prefix = f"imi:{{{team}}}"
        self.homes = f"{self.prefix}:homes"  # home -> its description: every home that ever was here
        self.news = f"{self.prefix}:news"  # a stream that names the rows that changed

    def home(self, ident: str) -> str:
        return f"{self.prefix}:home:{ident}"

    def questions(self, ident: str) -> str:
        return f"{self.prefix}:asks:{ident}"

    def answer(self, question: str) -> str:
        return f"{self.prefix}:r:{question}"
