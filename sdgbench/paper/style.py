"""How the methods of the M-ADA paper are shown: their colours and their order."""

COLOUR_ORDER = ("erm", "gud", "mada", "jigen", "ccsa", "dsne", "gud-ensemble")
SHOWN_FIRST = ("erm", "gud", "mada")  # among sample images; then the others, best first
