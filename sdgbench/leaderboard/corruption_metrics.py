"""mCE, RmCE and other numbers of datasets whose domains are corruptions at severities."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from sdgbench.corruptions.names import GROUPS
from sdgbench.errors import UserError
from sdgbench.leaderboard.protocol import Protocol
from sdgbench.leaderboard.runs import Run
from sdgbench.registry import BASELINE

HIGHEST = 5  # the severity that mCE is taken at


def is_corrupted(protocol: Protocol) -> bool:
    """Whether there are clean images and the highest severity."""
    return {0, HIGHEST} <= {tags.get("severity") for tags in protocol.tags}


def severities(protocol: Protocol) -> list[int]:
    """The severities above clean, in order."""
    return sorted({tags["severity"] for tags in protocol.tags if tags.get("severity")})


@lru_cache
def indices(protocol: Protocol, severity: int) -> dict[str, int]:
    """The domain's index of each corruption at a severity, in the order of GROUPS."""
    by_name = {
        str(tags.get("corruption")): index
        for index, tags in enumerate(protocol.tags)
        if tags.get("severity") == severity
    }
    known = [name for names in GROUPS.values() for name in names]
    ordered = sorted(by_name, key=lambda name: known.index(name) if name in known else len(known))
    return {name: by_name[name] for name in ordered}


def category(corruption: str) -> str:
    """The group of GROUPS that a corruption belongs to."""
    return next((group for group, names in GROUPS.items() if corruption in names), "other")


def corruption_errors(run: Run, severity: int = HIGHEST, choice: str = "last") -> dict[str, float]:
    """Error per corruption at a severity."""
    values = run.scores[choice].values
    return {name: 1 - values[index] for name, index in indices(run.protocol, severity).items()}


def clean_error(run: Run, choice: str = "last") -> float:
    """Error on clean images."""
    index = run.protocol.index_of(None, 0)
    assert index is not None
    return 1 - run.scores[choice].values[index]


def relative_names(protocol: Protocol, baseline: str) -> tuple[str, str]:
    """What mCE and RmCE are called here, in full."""
    suffix = f"{len(indices(protocol, HIGHEST))}_L{HIGHEST}_vs_{baseline}"
    return f"mCE{suffix}", f"RmCE{suffix}"


def relative_errors(
    run: Run, baseline: Run | None, choice: str = "last", name: str = BASELINE
) -> dict[str, float]:
    """MCE and RmCE against the baseline's run of the same protocol and seed; NaN: undefined."""
    protocol = run.protocol
    if baseline is None:
        raise UserError(
            f"mCE needs the {name} run of {protocol.dataset} ({protocol.preset}) with seed "
            f"{run.seed}: sdgbench run --method {name} --dataset {protocol.dataset} "
            f"--preset {protocol.preset} --seeds {run.seed}"
        )
    errors, reference = (corruption_errors(r, HIGHEST, choice) for r in (run, baseline))
    clean, clean_reference = clean_error(run, choice), clean_error(baseline, choice)
    plain, relative = relative_names(protocol, name)
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


def mean_corruption_error(errors: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """MCE: the mean over corruptions of the error divided by the baseline's error."""
    return _mean_ratio(errors, baseline, 0.0, 0.0)


def relative_mean_corruption_error(
    errors: Mapping[str, float],
    clean: float,
    baseline: Mapping[str, float],
    baseline_clean: float,
) -> float:
    """RmCE: as mCE, of the errors' growth over the clean error.

    A method with a worse clean error looks better here; show clean accuracy next to it.
    """
    return _mean_ratio(errors, baseline, clean, baseline_clean)


def _mean_ratio(
    errors: Mapping[str, float], baseline: Mapping[str, float], clean: float, baseline_clean: float
) -> float:
    if set(errors) != set(baseline):
        different = ", ".join(sorted(set(errors) ^ set(baseline)))
        raise UserError(f"The baseline covers other corruptions than the method: {different}.")
    for name in errors:
        if baseline[name] == baseline_clean:
            raise UserError(f"The baseline's error on {name} is not above its reference: no ratio.")
    ratios = [(errors[name] - clean) / (baseline[name] - baseline_clean) for name in errors]
    return math.fsum(ratios) / len(ratios)
