"""Sample images of each unseen domain, with what the methods predicted.

Which images are shown depends on their number only, never on a prediction. An image is shown only
if its domain's content is that of the records: predictions on other content would be a lie.
"""

import colorsys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import Leaderboard, Row, Run, corruption_metrics
from sdgbench.records.arrays import read_arrays
from sdgbench.report.series import CHOICE, ordered

if TYPE_CHECKING:
    import numpy as np

    from sdgbench.data.domain import Domain
    from sdgbench.dataset import Dataset

PER_DOMAIN = 12  # classified images
Colours = list[tuple[int, int, int]]
Predictions = dict[str, "np.ndarray"]


@dataclass(frozen=True)
class Chosen:
    """The run of a row whose predictions are shown: its lowest seed."""

    row: Row
    run: Run
    predictions: Mapping[str, "np.ndarray"]


def collect(board: Leaderboard, data_root: Path, first: Sequence[str] = ()) -> dict[str, Any]:
    """What the page needs, methods in the order of ``first``; or under ``missing``, why not."""
    try:
        return _collect(board, data_root, first)
    except UserError as error:
        return {"missing": str(error)}


def _collect(board: Leaderboard, data_root: Path, first: Sequence[str]) -> dict[str, Any]:
    chosen = _chosen(board, first)
    if not chosen:
        raise UserError("No run of this table has kept its predictions (predictions.npz).")
    dataset = _open(board, data_root)
    names, kind = _shown_domains(board), board.protocol.task
    domains, problems = [], []
    for name in names:
        try:
            domain = _matching(dataset, board, name)
        except UserError as error:
            problems.append(str(error))
            continue
        if kind == "segmentation":
            domains.append(_scene(domain, chosen, class_colours(dataset)))
        else:
            domains.append(_strip(domain, chosen))
    if not domains:
        raise UserError(problems[0])
    return {
        "kind": kind,
        "seeds": {shown.row.name: shown.run.seed for shown in chosen},
        "classes": list(dataset.task.names or map(str, range(dataset.task.classes))),
        "domains": domains,
        "left_out": problems,
        **(
            {"palette": class_colours(dataset, dataset.task.classes)}
            if kind == "segmentation"
            else {}
        ),
    }


def _open(board: Leaderboard, data_root: Path) -> "Dataset":
    """The dataset as the runs used it, without making or fetching any data."""
    from sdgbench.data.generated_dataset import GeneratedDataset
    from sdgbench.dataset import Dataset
    from sdgbench.recipe import Recipe
    from sdgbench.spec import parameters

    known = registry.entries("dataset")
    if board.dataset not in known:
        raise unknown("dataset", board.dataset, known, "Sample images need it: --plugin FILE.py")
    cls: type[Dataset] = known[board.dataset].load()
    recipe = parameters.build(Recipe, board.protocol.recipe)
    dataset = cls(data_root, parameters.build(cls.Options, board.protocol.options), recipe)
    if isinstance(dataset, GeneratedDataset) and not dataset.root.is_dir():
        raise UserError(
            f"The images of {board.dataset} are not in the data folder. They are made by the "
            f"first run: sdgbench run --method {registry.BASELINE} --dataset {board.dataset} "
            f"--preset {board.preset}"
        )
    return dataset


def _chosen(board: Leaderboard, first: Sequence[str]) -> list[Chosen]:
    rows = ordered(board)
    rows.sort(key=lambda row: first.index(row.method) if row.method in first else len(first))
    chosen = []
    for row in rows:
        run = row.runs[min(row.runs)]
        if run.folder and (predictions := _read(run.folder / "predictions.npz")):
            chosen.append(Chosen(row, run, predictions))
    return chosen


def _read(path: Path) -> Predictions:
    """The predictions of the ranked weights by domain; empty: missing or damaged."""
    prefix = f"{CHOICE}/"
    stored = read_arrays(path)
    return {k.removeprefix(prefix): stored[k] for k in stored if k.startswith(prefix)}


def _shown_domains(board: Leaderboard) -> list[str]:
    """All domains, but of corruptions only the clean images and the highest severity."""
    protocol = board.protocol
    if not corruption_metrics.is_corrupted(protocol):
        return list(board.domains)
    highest = corruption_metrics.indices(protocol, corruption_metrics.HIGHEST)
    indices = [protocol.index_of(None, 0), *highest.values()]
    return [board.domains[index] for index in indices if index is not None]


def _matching(dataset: "Dataset", board: Leaderboard, name: str) -> "Domain":
    domain = dataset.target(name).subsample(dataset.recipe_used.test_images)
    recorded = board.protocol.hashes[board.domains.index(name)]
    if domain.sha256() != recorded:
        raise UserError(f"The data folder's {name} has other content than these runs were given.")
    return domain


def _strip(domain: "Domain", chosen: Sequence[Chosen]) -> dict[str, Any]:
    """A few images as one strip, with the truth and each row's predictions."""
    import numpy as np

    from sdgbench.report import images
    from sdgbench.spec.seeds import permutation

    indices = np.sort(permutation(0, len(domain), "report")[:PER_DOMAIN])
    return {
        "name": domain.name,
        "strip": images.strip(np.asarray(domain.images[indices])),
        "truth": [int(label) for label in domain.labels[indices]],
        "predicted": {
            name: [int(label) for label in predictions[indices]]
            for name, predictions in _predictions(domain, chosen)
        },
    }


@dataclass(frozen=True)
class Scene:
    """One image of a domain, its truth and each row's prediction."""

    name: str
    image: "np.ndarray"
    truth: "np.ndarray"
    predictions: "dict[str, np.ndarray]"


def scenes(
    board: Leaderboard, data_root: Path, domains: Sequence[str], rows: Sequence[str]
) -> tuple[list[Scene], Colours]:
    """The scene of each domain with the predictions of these rows, and the classes' colours."""
    dataset = _open(board, data_root)
    chosen = [shown for shown in _chosen(board, ()) if shown.row.name in rows]
    picked = [_pick(_matching(dataset, board, name), chosen) for name in domains]
    return picked, class_colours(dataset)


def _pick(domain: "Domain", chosen: Sequence[Chosen]) -> Scene:
    import numpy as np

    from sdgbench.spec.seeds import permutation

    index = int(permutation(0, len(domain), "report")[0])
    return Scene(
        domain.name,
        np.asarray(domain.images[index]),
        np.asarray(domain.labels[index]),
        {
            name: np.asarray(predictions[index])
            for name, predictions in _predictions(domain, chosen)
        },
    )


def _scene(domain: "Domain", chosen: Sequence[Chosen], colours: Colours) -> dict[str, Any]:
    """One image, its truth and each row's prediction, with the share of pixels that are right."""
    from sdgbench.report import images

    scene = _pick(domain, chosen)
    return {
        "name": domain.name,
        "image": images.photo(scene.image),
        "truth": images.label_map(scene.truth, colours),
        "predicted": {
            name: {
                "map": images.label_map(predicted, colours),
                "right": float((predicted == scene.truth).mean()),
            }
            for name, predicted in scene.predictions.items()
        },
    }


def _predictions(domain: "Domain", chosen: Sequence[Chosen]) -> "Iterator[tuple[str, np.ndarray]]":
    """Each row's predictions on a domain, where they have its shape."""
    for shown in chosen:
        predictions = shown.predictions.get(domain.name)
        if predictions is not None and predictions.shape == domain.labels.shape:
            yield shown.row.name, predictions


def class_colours(dataset: "Dataset", count: int = 256) -> Colours:
    """The colours of a dataset's classes, then others that are far from their neighbours."""
    colours: Colours = list(dataset.colours[:count])
    for number in range(len(colours), count):
        red, green, blue = colorsys.hsv_to_rgb(number * 0.618 % 1, 0.65, 0.85)
        colours.append((int(255 * red), int(255 * green), int(255 * blue)))
    return colours
