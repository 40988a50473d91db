"""Records of finished runs: their schema, where they are kept, and how they are read."""
