"""Tables derived from records. Nothing here imports torch.

``load`` reads folders of runs, ``boards`` groups what may be compared, ``Board.table`` makes a
view of a board, and ``render`` prints tables in any format. Formats decide nothing: what a reader
must be told is in the table.
"""

from sdgbench.leaderboard.ablation import ablate, beside_paper
from sdgbench.leaderboard.corruption import corruption_errors, relative_errors
from sdgbench.leaderboard.formats import FORMATS, SUFFIXES, render
from sdgbench.leaderboard.grouping import BASELINE, Board, Row, boards
from sdgbench.leaderboard.paper import paper_tables
from sdgbench.leaderboard.runs import Ground, Loaded, Run, Scores, as_run, load
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import VIEWS, table

__all__ = [
    "BASELINE", "FORMATS", "SUFFIXES", "VIEWS", "Board", "Cell", "Column", "Ground", "Line",
    "Loaded", "Row", "Run", "Scores", "Table", "ablate", "as_run", "beside_paper", "boards",
    "corruption_errors", "load", "paper_tables", "relative_errors", "render", "table",
]  # fmt: skip
