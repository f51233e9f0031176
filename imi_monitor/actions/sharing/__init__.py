"""Configuration shared by links, and the commands of a trusted repository."""
