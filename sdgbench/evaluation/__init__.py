"""Evaluate trained methods: scores, efficiency, distances between domains, verification."""
