"""How much the tests of damage tried: ``make soak`` prints the sums."""

import json
import os
from collections import Counter
from pathlib import Path

VARIABLE = "SDGBENCH_FUZZ_COUNTS"  # the file that gets a line for each call of count


def count(what: str, number: int) -> None:
    """Add to what was tried."""
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a") as opened:
            opened.write(json.dumps([what, number]) + "\n")


def read(file: Path) -> Counter[str]:
    """The sums of all calls, by what was tried."""
    sums: Counter[str] = Counter()
    for line in file.read_text().splitlines() if file.exists() else ():
        what, number = json.loads(line)
        sums[what] += number
    return sums
