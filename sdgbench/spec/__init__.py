"""The specification of a run: typed parameters, seeds, precision and its id."""
