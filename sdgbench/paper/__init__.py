"""What knows the M-ADA paper: published tables, verdicts, its experiments and figures."""
