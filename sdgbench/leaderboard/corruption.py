"""Numbers of datasets whose domains are corruptions at severities."""

import math
from collections.abc import Callable
from functools import lru_cache

from sdgbench import metrics
from sdgbench.errors import UserError
from sdgbench.leaderboard.runs import Ground, Run

HIGHEST = 5  # the severity that mCE is taken at


def is_corrupted(ground: Ground) -> bool:
    """Say whether there are clean images and the highest severity."""
    return {0, HIGHEST} <= {tags.get("severity") for tags in ground.tags}


def severities(ground: Ground) -> list[int]:
    """The severities above clean, in order."""
    return sorted({tags["severity"] for tags in ground.tags if tags.get("severity")})


@lru_cache
def places(ground: Ground, severity: int) -> dict[str, int]:
    """Where each corruption at a severity stands, grouped as in the paper."""
    found = {
        str(tags.get("corruption")): position
        for position, tags in enumerate(ground.tags)
        if tags.get("severity") == severity
    }
    known = [name for names in metrics.GROUPS.values() for name in names]
    ordered = sorted(found, key=lambda name: known.index(name) if name in known else len(known))
    return {name: found[name] for name in ordered}


def category(corruption: str) -> str:
    """The paper's group of a corruption."""
    return next((group for group, names in metrics.GROUPS.items() if corruption in names), "other")


def corruption_errors(run: Run, severity: int = HIGHEST, choice: str = "last") -> dict[str, float]:
    """Error per corruption at a severity."""
    values = run.scores[choice].values
    return {name: 1 - values[place] for name, place in places(run.ground, severity).items()}


def clean_error(run: Run, choice: str = "last") -> float:
    """Error on clean images."""
    place = run.ground.place(None, 0)
    assert place is not None
    return 1 - run.scores[choice].values[place]


def relative_names(ground: Ground, baseline: str) -> tuple[str, str]:
    """What mCE and RmCE are called here, in full."""
    suffix = f"{len(places(ground, HIGHEST))}_L{HIGHEST}_vs_{baseline}"
    return f"mCE{suffix}", f"RmCE{suffix}"


def relative_errors(
    run: Run, baseline: Run | None, choice: str = "last", name: str = "erm"
) -> dict[str, float]:
    """MCE and RmCE against the baseline's run of the same ground and seed; NaN: no ratio exists."""
    ground = run.ground
    if baseline is None:
        raise UserError(
            f"mCE needs the {name} run of {ground.dataset} ({ground.preset}) with seed "
            f"{run.seed}: sdgbench run --method {name} --dataset {ground.dataset} "
            f"--preset {ground.preset} --seeds {run.seed}"
        )
    # Only here: NumPy, which it needs, takes as long to import as a thousand records to read.
    from sdgbench.metrics import mean_corruption_error, relative_mean_corruption_error

    errors, reference = (corruption_errors(one, HIGHEST, choice) for one in (run, baseline))
    clean, clean_reference = clean_error(run, choice), clean_error(baseline, choice)
    plain, relative = relative_names(ground, name)
    return {
        plain: _or_nan(lambda: mean_corruption_error(errors, reference)),
        # Where the baseline is as good on a corruption as on clean images there is no ratio.
        relative: _or_nan(
            lambda: relative_mean_corruption_error(errors, clean, reference, clean_reference)
        ),
    }


def _or_nan(compute: Callable[[], float]) -> float:
    try:
        return compute()
    except UserError:
        return math.nan
