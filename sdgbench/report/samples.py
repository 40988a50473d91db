"""Sample images of each unseen domain, with what the methods decided.

Which images are shown depends on their number only, never on a decision. An image is shown only if
its domain's content is that of the records: decisions on other content would be a lie.
"""

import colorsys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import Board, Row, Run, corruption
from sdgbench.report.series import CHOICE, ordered

if TYPE_CHECKING:
    import numpy as np

    from sdgbench.dataset import Dataset, Domain

PER_DOMAIN = 12  # classified images
FIRST = ("erm", "gud", "mada")  # in this order, then the others, best first
Decisions = dict[str, "np.ndarray"]


@dataclass(frozen=True)
class Chosen:
    """The run of a row whose decisions are shown: its lowest seed."""

    row: Row
    run: Run
    decisions: Mapping[str, "np.ndarray"]


def collect(board: Board, data_root: Path) -> dict[str, Any]:
    """What the page needs; where that is not to be had, ``missing`` says why."""
    try:
        return _collect(board, data_root)
    except UserError as error:
        return {"missing": str(error)}


def _collect(board: Board, data_root: Path) -> dict[str, Any]:
    chosen = _chosen(board)
    if not chosen:
        raise UserError("No run of this table has kept its decisions (predictions.npz).")
    dataset = _open(board, data_root)
    names, kind = _shown_domains(board), board.ground.task
    domains, problems = [], []
    for name in names:
        try:
            domain = _matching(dataset, board, name)
        except UserError as error:
            problems.append(str(error))
            continue
        if kind == "segmentation":
            domains.append(_scene(domain, chosen))
        else:
            domains.append(_strip(domain, chosen))
    if not domains:
        raise UserError(problems[0])
    return {
        "kind": kind,
        "seeds": {one.row.name: one.run.seed for one in chosen},
        "classes": list(dataset.task.names or map(str, range(dataset.task.classes))),
        "domains": domains,
        "left_out": problems,
        **({"palette": palette(dataset.task.classes)} if kind == "segmentation" else {}),
    }


def _open(board: Board, data_root: Path) -> "Dataset":
    """The dataset as the runs used it, without making or fetching any data."""
    from sdgbench import settings
    from sdgbench.dataset import Dataset, Recipe
    from sdgbench.embedded import EmbeddedDataset

    known = registry.entries("dataset")
    if board.dataset not in known:
        raise unknown("dataset", board.dataset, known, "Sample images need it: --plugin FILE.py")
    cls: type[Dataset] = known[board.dataset].load()
    recipe = settings.build(Recipe, _revived(board.ground.recipe))
    dataset = cls(data_root, settings.build(cls.Options, _revived(board.ground.options)), recipe)
    if isinstance(dataset, EmbeddedDataset) and not dataset.root.is_dir():
        raise UserError(
            f"The images of {board.dataset} are not in the data folder. They are made by the "
            f"first run: sdgbench run --method erm --dataset {board.dataset} "
            f"--preset {board.preset}"
        )
    return dataset


def _revived(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}


def _chosen(board: Board) -> list[Chosen]:
    rows = ordered(board)
    rows.sort(key=lambda row: FIRST.index(row.method) if row.method in FIRST else len(FIRST))
    found = []
    for row in rows:
        run = row.runs[min(row.runs)]
        if run.folder and (decisions := _decisions(run.folder / "predictions.npz")):
            found.append(Chosen(row, run, decisions))
    return found


def _decisions(path: Path) -> Decisions:
    """The decisions of the ranked weights by domain; empty: not there, or damaged."""
    import numpy as np

    prefix = f"{CHOICE}/"
    try:
        with np.load(path) as stored:
            return {k.removeprefix(prefix): stored[k] for k in stored if k.startswith(prefix)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return {}


def _shown_domains(board: Board) -> list[str]:
    """All domains, but of corruptions only the clean images and the highest severity."""
    ground = board.ground
    if not corruption.is_corrupted(ground):
        return list(board.domains)
    places = [ground.place(None, 0), *corruption.places(ground, corruption.HIGHEST).values()]
    return [board.domains[place] for place in places if place is not None]


def _matching(dataset: "Dataset", board: Board, name: str) -> "Domain":
    domain = dataset.target(name).take(dataset.recipe_used.test_images)
    recorded = board.ground.hashes[board.domains.index(name)]
    if domain.sha256() != recorded:
        raise UserError(f"The data folder's {name} has other content than these runs were given.")
    return domain


def _strip(domain: "Domain", chosen: Sequence[Chosen]) -> dict[str, Any]:
    """Some images as one strip, with the truth and each row's decisions."""
    import numpy as np

    from sdgbench.report import images
    from sdgbench.seeds import permutation

    shown = np.sort(permutation(0, len(domain), "report")[:PER_DOMAIN])
    return {
        "name": domain.name,
        "strip": images.strip(np.asarray(domain.images[shown])),
        "truth": [int(label) for label in domain.labels[shown]],
        "decided": {
            one.row.name: [int(label) for label in one.decisions[domain.name][shown]]
            for one in chosen
            if _fits(one, domain)
        },
    }


@dataclass(frozen=True)
class Scene:
    """One image of a domain, its truth and each row's decision."""

    name: str
    image: "np.ndarray"
    truth: "np.ndarray"
    decided: "dict[str, np.ndarray]"


def scenes(
    board: Board, data_root: Path, domains: Sequence[str], rows: Sequence[str]
) -> list[Scene]:
    """Of each domain the scene that the page shows, with the decisions of some rows."""
    dataset = _open(board, data_root)
    chosen = [one for one in _chosen(board) if one.row.name in rows]
    return [_pick(_matching(dataset, board, name), chosen) for name in domains]


def _pick(domain: "Domain", chosen: Sequence[Chosen]) -> Scene:
    import numpy as np

    from sdgbench.seeds import permutation

    place = int(permutation(0, len(domain), "report")[0])
    return Scene(
        domain.name,
        np.asarray(domain.images[place]),
        np.asarray(domain.labels[place]),
        {
            one.row.name: np.asarray(one.decisions[domain.name][place])
            for one in chosen
            if _fits(one, domain)
        },
    )


def _scene(domain: "Domain", chosen: Sequence[Chosen]) -> dict[str, Any]:
    """One image, its truth and each row's decision, with the share of pixels that are right."""
    from sdgbench.report import images

    scene, colours = _pick(domain, chosen), palette(256)
    return {
        "name": domain.name,
        "image": images.photo(scene.image),
        "truth": images.label_map(scene.truth, colours),
        "decided": {
            name: {"map": images.label_map(found, colours),
                   "right": float((found == scene.truth).mean())}
            for name, found in scene.decided.items()
        },
    }  # fmt: skip


def _fits(one: Chosen, domain: "Domain") -> bool:
    found = one.decisions.get(domain.name)
    return found is not None and found.shape == domain.labels.shape


def palette(count: int) -> list[tuple[int, int, int]]:
    """SYNTHIA's colours, then others that are far from their neighbours."""
    from sdgbench.datasets._scenes import PALETTE

    colours = [(int(r), int(g), int(b)) for r, g, b in PALETTE[:count]]
    for number in range(len(colours), count):
        red, green, blue = colorsys.hsv_to_rgb(number * 0.618 % 1, 0.65, 0.85)
        colours.append((int(255 * red), int(255 * green), int(255 * blue)))
    return colours
