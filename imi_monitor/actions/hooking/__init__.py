"""How imi's hooks come into the settings of agents and out again, without touching anything else there."""
