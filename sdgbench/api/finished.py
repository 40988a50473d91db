"""Finished runs: their model, their curve and their predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from sdgbench.api.arguments import Folder
from sdgbench.errors import UserError, unknown
from sdgbench.records import arrays
from sdgbench.records.curve import read_points
from sdgbench.records.folders import find_finished_run
from sdgbench.records.reading import read
from sdgbench.records.schema import Choice, Record

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from sdgbench.training.trained_model import TrainedModel


class FinishedRun:
    """A finished run: ``record`` is its record, ``folder`` where its files are.

    >>> run = sdgbench.load_run(records.folders[0])
    >>> run.record.spec.method
    'erm'
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder, self.record = folder, record

    def __repr__(self) -> str:
        score = 100 * self.record.last.average
        return f"<{self.record.spec.label}, {score:.1f}% on unseen domains, {self.folder}>"

    def model(self, choice: Choice = "last", device: str = "auto") -> "TrainedModel":
        """The trained model as a torch module: images in [0, 1] to logits.

        ``choice`` is "last" for the last iterate, or "val" for the weights that were best on
        held-out source.

        >>> run.model()(torch.rand(5, 3, 32, 32)).shape
        torch.Size([5, 10])
        """
        from sdgbench.training.device import Device
        from sdgbench.training.trained_model import load_trained

        _check_choice(choice)
        return load_trained(self.record, self.folder, Device(device), choice)

    def predict(self, images: Any, choice: Choice = "last", device: str = "auto") -> "np.ndarray":
        """The predicted class of each image (or pixel): an array of class numbers.

        Images are uint8, or floats in [0, 1], of shape (N, 3, H, W).

        >>> run.predict(torch.rand(5, 3, 32, 32)).shape
        (5,)
        """
        import torch

        from sdgbench.training.trained_model import as_images

        recipe = self.record.spec.build_recipe()
        pixels = as_images(images, recipe.image_size)
        model = self.model(choice, device)
        task, place = model.method.task, model.method.device
        with torch.inference_mode(), place.autocast():
            parts = [
                task.predictions(model(batch.to(place.torch))).cpu()
                for batch in pixels.split(recipe.eval_batch)
            ]
        predicted: np.ndarray = torch.cat(parts).numpy()
        return predicted

    def curve(self) -> "pd.DataFrame":
        """The points of training: phase, step, loss, and the score on held-out source.

        >>> "loss" in run.curve()
        True
        """
        import pandas as pd

        return pd.DataFrame(read_points(self.folder))

    def predictions(self, choice: Choice = "last") -> "dict[str, np.ndarray]":
        """The predicted classes on each unseen domain, as evaluation stored them.

        >>> len(run.predictions()["scan"])
        64
        """
        _check_choice(choice)
        stored = arrays.read_arrays(self.folder / arrays.PREDICTIONS)
        # Where validation chose the last iterate, both choices have the same predictions.
        chosen = {
            name: stored.get(f"{choice}/{name}", stored.get(f"last/{name}"))
            for name in self.record.domains
        }
        found = {name: array for name, array in chosen.items() if array is not None}
        if not found:
            raise UserError(f"{self.folder / arrays.PREDICTIONS} is missing or damaged.")
        return found


def _check_choice(choice: str) -> None:
    if choice not in get_args(Choice):
        raise unknown("choice of weights", choice, get_args(Choice))


def load_run(which: Folder, runs: Folder = "runs") -> FinishedRun:
    """Open a finished run by its folder, or by the first characters of its id in ``runs``.

    >>> sdgbench.load_run(records[0].id[:8]).folder == records.folders[0]
    True
    """
    folder = find_finished_run(which, Path(runs))
    return FinishedRun(folder, read(folder / "record.json"))


def load_model(
    which: Folder, runs: Folder = "runs", *, choice: Choice = "last", device: str = "auto"
) -> "TrainedModel":
    """The trained model of a run as a torch module, whatever its method: images to logits.

    ``which`` is the folder of a run, the first characters of its id in ``runs``, or a folder that
    ``export`` wrote (which has one choice of weights).

    >>> model = sdgbench.load_model(records.folders[0])
    >>> model(torch.rand(5, 3, 32, 32)).shape
    torch.Size([5, 10])
    """
    if (Path(which) / "model.json").is_file():
        from sdgbench.training import exported
        from sdgbench.training.device import Device

        return exported.load(Path(which), Device(device))
    return load_run(which, runs).model(choice, device)
