"""Ways to run a matrix: in this process, in several, on a cluster."""
