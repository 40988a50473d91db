"""The orders of the nine tiles that JiGen classifies, in addition to the right order.

Chosen greedily from all orders but the right one: by the largest mean Hamming distance to those
chosen before, then by the largest minimum distance, then at random (seed 0).
"""

# For each position, row by row, the number of the tile that is put there.
PERMUTATIONS = (
    (7, 4, 6, 3, 2, 5, 1, 8, 0),
    (6, 0, 3, 8, 5, 2, 4, 7, 1),
    (2, 8, 5, 1, 3, 7, 0, 4, 6),
    (1, 5, 7, 0, 4, 3, 2, 6, 8),
    (4, 3, 8, 2, 6, 1, 5, 0, 7),
    (3, 6, 2, 4, 7, 0, 8, 1, 5),
    (8, 2, 1, 6, 0, 4, 7, 5, 3),
    (0, 7, 4, 5, 1, 8, 6, 3, 2),
    (5, 1, 0, 7, 8, 6, 3, 2, 4),
    (4, 8, 0, 3, 1, 2, 7, 6, 5),
    (8, 0, 4, 7, 2, 3, 5, 1, 6),
    (2, 6, 1, 0, 8, 5, 4, 3, 7),
    (0, 4, 7, 2, 3, 6, 8, 5, 1),
    (1, 3, 5, 8, 7, 4, 6, 2, 0),
    (6, 5, 2, 1, 0, 7, 3, 8, 4),
    (5, 1, 3, 4, 6, 0, 2, 7, 8),
    (3, 7, 8, 6, 5, 1, 0, 4, 2),
    (7, 2, 6, 5, 4, 8, 1, 0, 3),
    (7, 2, 3, 8, 1, 0, 5, 4, 6),
    (8, 3, 0, 4, 5, 6, 2, 1, 7),
    (2, 4, 7, 6, 8, 3, 1, 0, 5),
    (5, 1, 4, 0, 2, 7, 6, 8, 3),
    (6, 5, 1, 2, 4, 8, 7, 3, 0),
    (3, 8, 2, 5, 6, 4, 0, 7, 1),
    (1, 0, 8, 7, 3, 5, 4, 6, 2),
    (0, 6, 5, 3, 7, 1, 8, 2, 4),
    (4, 7, 6, 1, 0, 2, 3, 5, 8),
    (5, 4, 8, 0, 1, 3, 7, 2, 6),
    (8, 2, 0, 1, 7, 5, 6, 3, 4),
    (7, 6, 3, 2, 0, 1, 4, 8, 5),
)
