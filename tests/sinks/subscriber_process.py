"""A subscriber of another team for the chain test: plain pika, one effect for each event, acknowledged after its commit.

Arguments: the broker's URL, an exchange, a queue, an SQLite file. It may be killed at any moment.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time

import pika
import pika.exceptions


def consume(url: str, exchange: str, queue: str, store: sqlite3.Connection) -> None:
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.exchange_declare(exchange, "topic", durable=True)
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, "#")
    channel.basic_qos(prefetch_count=100)
    for delivery, _, body in channel.consume(queue):
        event = json.loads(body)
        with store:
            new = store.execute(
                "INSERT OR IGNORE INTO effects (id, subject, sequence) VALUES (?, ?, ?)",
                (event["id"], event.get("subject"), int(event["sequence"])),
            ).rowcount
            store.execute("UPDATE counts SET deliveries = deliveries + 1, effects = effects + ?", (new,))
        channel.basic_ack(delivery.delivery_tag)


def main() -> None:
    url, exchange, queue, path = sys.argv[1:]
    store = sqlite3.connect(path, timeout=30)
    store.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
        "CREATE TABLE IF NOT EXISTS effects (at INTEGER PRIMARY KEY, id TEXT UNIQUE, subject TEXT, sequence INTEGER);"
        "CREATE TABLE IF NOT EXISTS counts (deliveries INTEGER, effects INTEGER);"
        "INSERT INTO counts SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM counts);"
    )
    while True:
        try:
            consume(url, exchange, queue, store)
        except (pika.exceptions.AMQPError, OSError):
            time.sleep(0.3)


if __name__ == "__main__":
    main()
