"""What ``make soak`` tried, and what went wrong."""

from collections import Counter
from dataclasses import dataclass, field

DAMAGE = "damage"
WRONG = ("lost", "different", "tracebacks", "hangs", "silent")


@dataclass
class Tally:
    """Counts of all kinds; what went wrong is kept in words as well."""

    kills: dict[str, Counter[str]] = field(default_factory=dict)  # by mode: what was killed
    matrices: Counter[str] = field(default_factory=Counter)  # by mode: finished and compared
    damage: Counter[str] = field(default_factory=Counter)  # by kind of file, and crash states
    wrong: list[tuple[str, str]] = field(default_factory=list)  # one of WRONG and what happened

    def kill(self, mode: str, what: str) -> None:
        self.kills.setdefault(mode, Counter())[what] += 1

    def add(self, kind: str, text: str) -> None:
        assert kind in WRONG
        self.wrong.append((kind, text))

    def add_damage(self, counts: Counter[str]) -> None:
        for what, number in counts.items():
            if what == "crash points":  # of the same run in each round
                self.damage[what] = max(number, self.damage[what])
            else:
                self.damage[what] += number

    def number_of(self, kind: str) -> int:
        return sum(kind == other for other, _ in self.wrong)

    def line(self, activity: str) -> str:
        """One activity in one line."""
        if activity == DAMAGE:
            states = self.damage["crash states"]
            return f"{activity}: {self.mutations():,} mutations, {states:,} crash states"
        kinds = self.kills.get(activity, Counter())
        parts = ", ".join(f"{what} {n}" for what, n in sorted(kinds.items())) or "none"
        matrices = self.matrices[activity]
        return f"{activity}: {kinds.total()} kills ({parts}), {matrices} matrices finished"

    def mutations(self) -> int:
        return sum(n for what, n in self.damage.items() if what.startswith("mutations"))

    def wrongs(self) -> str:
        return ", ".join(f"{self.number_of(kind)} {kind}" for kind in WRONG)

    def untried(self, activities: list[str]) -> list[str]:
        """The activities that did nothing: a soak of nothing shows nothing."""
        return [
            name
            for name in activities
            if not (self.kills.get(name) if name != DAMAGE else self.mutations())
        ]

    def summary(self, activities: list[str]) -> str:
        """All of it."""
        kills = sum(kinds.total() for kinds in self.kills.values())
        lines = [f"kills: {kills:,}"]
        lines += [f"  {self.line(name)}" for name in activities if name != DAMAGE]
        kinds = sorted((what, n) for what, n in self.damage.items() if what.startswith("mutations"))
        lines.append(f"mutations: {self.mutations():,}")
        lines += [f"  {what.removeprefix('mutations ').strip('()')}: {n:,}" for what, n in kinds]
        states, points = self.damage["crash states"], self.damage["crash points"]
        lines.append(f"crash points: {points:,} in a run; resumed from {states:,} states of them")
        lines += [f"{kind}: {text}" for kind, text in self.wrong]
        for name in self.untried(activities):
            lines.append(f"not tried: {name}; it needs more minutes")
        lines.append(self.wrongs())
        return "\n".join(lines)
