"""Opens a dataset as a run does, and checks everything that a run would need of it."""

from contextlib import suppress

from sdgbench.conformance.outcome import Failed, Skipped
from sdgbench.dataset import Dataset, Split
from sdgbench.errors import BadData, MissingData


def check_dataset(dataset: Dataset) -> int:
    """Open the source and every target that is stored here; returns how many domains that were."""
    targets = dataset.target_tags(dataset.options)
    if not targets:
        raise Failed(f"{dataset.name} has no target. Name at least one in target_tags.")
    for group, names in dataset.averages(list(targets)).items():
        if strangers := [name for name in names if name not in targets]:
            raise Failed(
                f'{dataset.name}: its average "{group}" covers {strangers[0]}, which target_tags '
                "does not name. Correct averages or target_tags."
            )
    try:
        dataset.prepare()
    except MissingData as error:
        raise Skipped(f"{str(error).split('. ')[0]}.") from None
    splits: tuple[Split, ...] = ("train", "val")
    checked = 1
    try:
        for split in splits:
            dataset.open_source(split)
        for name in targets:
            with suppress(MissingData):
                dataset.open_target(name)
                checked += 1
    except BadData as error:
        raise Failed(str(error)) from None
    return checked
