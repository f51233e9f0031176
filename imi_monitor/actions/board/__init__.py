"""Items, the board, and the files they are made of."""
