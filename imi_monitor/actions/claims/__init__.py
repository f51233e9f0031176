"""The claim verbs: claim, heartbeat, verify-lock, release, claims, queue."""
