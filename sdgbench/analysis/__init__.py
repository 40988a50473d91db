"""What the M-ADA paper looks at beside scores: how far made domains are, and what they cover."""
