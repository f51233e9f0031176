"""What the claim verbs share: who asks, whose it is, waiting in line."""
