"""Real data: parts that are found, fetched, decoded once, verified and kept."""
