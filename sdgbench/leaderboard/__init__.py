"""Tables derived from records. Nothing here imports torch.

``load`` reads folders of runs, ``leaderboards`` groups what may be compared, ``make_table`` makes
a view of a leaderboard, and ``render`` prints tables in any format. Formats add nothing: all that
a reader must know is in the table.
"""

from sdgbench.leaderboard.corruption_metrics import corruption_errors, relative_errors
from sdgbench.leaderboard.formats import FORMATS, SUFFIXES, render
from sdgbench.leaderboard.grouping import Leaderboard, Row, leaderboards
from sdgbench.leaderboard.protocol import Protocol
from sdgbench.leaderboard.runs import Loaded, Run, Scores, as_run, load
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import VIEWS, available, make_table
from sdgbench.leaderboard.views.view import View

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "VIEWS",
    "Cell",
    "Column",
    "Leaderboard",
    "Line",
    "Loaded",
    "Protocol",
    "Row",
    "Run",
    "Scores",
    "Table",
    "View",
    "as_run",
    "available",
    "corruption_errors",
    "leaderboards",
    "load",
    "make_table",
    "relative_errors",
    "render",
]
