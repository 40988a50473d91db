"""Search for a method's setting on the source alone: what is tried, and how it is chosen."""
