"""The views with what the paper printed in them."""

import sample_records as records

from sdgbench import leaderboard
from sdgbench.paper.views import VIEWS


def cells(*found):
    (board,) = records.leaderboards(found)
    table = leaderboard.make_table(board, "transport", views=VIEWS)
    return {line.method: line.cells for line in table.lines}, table


def test_the_papers_numbers_stand_next_to_the_rows_that_it_has():
    changed = records.make(
        "mada", 0, params={"relaxation": "ae"}, flags={"params_changed": ["relaxation"]}
    )
    plain = records.make("mada", 0, params={"relaxation": "wae"})
    shown, table = cells(records.make("erm"), plain, changed, records.make("mada-no-relax"))
    printed = {name: line["paper"].mean for name, line in shown.items()}
    assert printed == {
        "erm": None,
        "mada": 0.078,
        "mada (relaxation=ae)": None,
        "mada-no-relax": 0.032,
    }
    assert any("normalisation are not stated" in note for note in table.notes)
    assert any(note.endswith("does not tell: erm") for note in table.notes)


def test_only_the_paper_adds_its_column():
    (board,) = records.leaderboards([records.make("mada")])
    plain, printed = (
        [column.name for column in leaderboard.make_table(board, "transport", views=views).columns]
        for views in (leaderboard.VIEWS, VIEWS)
    )
    assert printed == [*plain, "paper"]
    assert list(VIEWS) == list(leaderboard.VIEWS)
