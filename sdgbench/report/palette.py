"""How a method looks: the same in all figures, and never marked by its colour alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sdgbench.leaderboard import Leaderboard

# Near the hues of Okabe and Ito (2008), moved until all have a contrast of 3 with the background
# and are far apart for every kind of colour vision. The second set is for a dark background.
COLOURS = ("#001006", "#BE8900", "#858AD5", "#035482", "#0D998F", "#853A4A", "#4D4000", "#D5684F")
ON_DARK = ("#CDFFE2", "#F6A318", "#6C6EA3", "#07C3FF", "#218E5B", "#C29EB3", "#FFF685", "#C81200")
MARKERS = ("circle", "square", "diamond", "triangle", "cross", "plus", "down", "star")
DASHES = ("", "6 3", "2 2", "8 3 2 3")


def luminance(colour: Sequence[float]) -> float:
    """The relative luminance of red, green and blue in [0, 1] (WCAG 2)."""
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def text_on(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more; their contrast is equal at 0.179."""
    return "white" if luminance(colour) < 0.179 else "black"


@dataclass(frozen=True)
class Look:
    """A colour, a marker and a line, by their indices in COLOURS, MARKERS and DASHES."""

    colour: int
    marker: int
    dash: int


def _shared(number: int) -> int:
    """The index of a look whose colour another method has, too, but never the first one's."""
    again, colour = divmod(number, len(COLOURS) - 1)
    return (1 + again) * len(COLOURS) + 1 + colour


def looks(boards: Iterable[Leaderboard], usual: Sequence[str] = ()) -> dict[str, Look]:
    """The look of every row of these leaderboards, by the row's name.

    A method has one colour; its variants differ in marker and dash. The ``usual`` methods have
    the colours in this order on every page.
    """
    variants: dict[str, dict[str, None]] = {}
    for board in boards:
        for row in board.rows:
            variants.setdefault(row.method, {})[row.name] = None
    others = sorted(method for method in variants if method not in usual)
    unused = [index for index, method in enumerate(usual) if method not in variants]
    # A colour that no usual method takes here comes first, then those that must be shared.
    order = [*range(len(usual), len(COLOURS)), *unused]
    indices = {method: index for index, method in enumerate(usual)}
    for number, method in enumerate(others):
        indices[method] = order[number] if number < len(order) else _shared(number - len(order))
    by_name: dict[str, Look] = {}
    for method, names in variants.items():
        index = indices[method]
        for number, name in enumerate(sorted(names, key=lambda name: (len(name), name))):
            again = index // len(COLOURS)
            by_name[name] = Look(
                index % len(COLOURS),
                (index + again + 3 * number) % len(MARKERS),
                (again + number) % len(DASHES),
            )
    return by_name
