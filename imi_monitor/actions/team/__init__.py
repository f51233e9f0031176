"""Actions on the homes of a team."""
