"""How a method looks: the same in all figures, and never told by its colour alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sdgbench.leaderboard import Board

# Okabe and Ito, 2008. Yellow comes last: it is faint on white.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#F0E442")
MARKERS = ("circle", "square", "diamond", "triangle", "cross", "plus", "down", "star")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
USUAL = ("erm", "gud", "mada", "jigen", "ccsa", "dsne", "gud-ensemble")  # their colours, in order


def luminance(colour: Sequence[float]) -> float:
    """The relative luminance of red, green and blue in [0, 1] (WCAG 2)."""
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def text_on(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more; their contrast is equal at 0.179."""
    return "white" if luminance(colour) < 0.179 else "black"


@dataclass(frozen=True)
class Look:
    """A colour, a marker and a line, by their places in COLOURS, MARKERS and DASHES."""

    colour: int
    marker: int
    dash: int


def looks(boards: Iterable[Board]) -> dict[str, Look]:
    """The look of every row of some boards, by the row's name.

    A method has one colour; its variants differ in marker and dash. The usual methods have the
    same look on every page.
    """
    variants: dict[str, dict[str, None]] = {}
    for board in boards:
        for row in board.rows:
            variants.setdefault(row.method, {})[row.name] = None
    others = sorted(method for method in variants if method not in USUAL)
    free = [place for place, method in enumerate(USUAL) if method not in variants]
    # A colour that no usual method takes here comes first, then those that must be shared.
    order = [*range(len(USUAL), len(COLOURS)), *free]
    places = {method: place for place, method in enumerate(USUAL)}
    for number, method in enumerate(others):
        places[method] = order[number] if number < len(order) else len(COLOURS) + number
    found = {}
    for method, names in variants.items():
        place = places[method]
        for number, name in enumerate(sorted(names, key=lambda name: (len(name), name))):
            again = place // len(COLOURS)
            found[name] = Look(
                place % len(COLOURS),
                (place + again + 3 * number) % len(MARKERS),
                (again + number) % len(DASHES),
            )
    return found
