"""The main table of a leaderboard alone, for a page that is drawn again and again."""

from typing import Any

from sdgbench.leaderboard import VIEWS, Leaderboard, available, make_table
from sdgbench.leaderboard.order import with_variants
from sdgbench.leaderboard.views import Views
from sdgbench.report.content import plain_table, ranked_first, title
from sdgbench.report.series import CHOICE


def main_table(board: Leaderboard, views: Views = VIEWS) -> dict[str, Any]:
    """The table as plain values, without what figures and tips need."""
    table = make_table(board, available(board, views)[0], CHOICE, views=views)
    shown = plain_table(ranked_first(table, board.ranked))
    for line, plain in zip(table.lines, shown["lines"], strict=True):
        plain["unranked"] = bool(line.missing_seeds)
    return {
        "title": title(board),
        "metric": board.metric,
        "reduced": board.reduced,
        "ranked": board.ranked,
        "has_variants": bool(with_variants(board.rows)),
        "table": shown,
    }
