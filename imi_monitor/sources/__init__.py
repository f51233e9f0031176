"""Sources: modules that each observe one part of the outside world and report readings to the engine."""
