"""Score a model that was trained elsewhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry, storage
from sdgbench.api.arguments import Folder, Names, any_names
from sdgbench.api.records import Records, StoredRecord
from sdgbench.errors import UserError, unknown

if TYPE_CHECKING:
    from torch import nn

Colours = Sequence[float]


def evaluate(
    model: "nn.Module | str",
    dataset: str,
    *,
    name: str = "",
    weights: Folder | None = None,
    mean: Colours | None = None,
    std: Colours | None = None,
    preset: str = "paper",
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    targets: Names = (),
    device: str = "auto",
    runs: Folder = "runs",
    data: Folder = "data",
    progress: bool = True,
) -> Records:
    """Score a model that was trained elsewhere on the unseen domains of a dataset.

    ``model`` is a torch module, or a text: "file.py:function" for a function that makes one, or the
    name of a network such as "timm:resnet18". It takes pixels in [0, 1], normalised by ``mean`` and
    ``std`` if these are given, and returns logits. ``weights`` is a file to fill it with
    (state_dict as .pt, or .safetensors). ``seed`` tells trainings of one model apart.

    The record says that the model was trained elsewhere: tables show it in a block of its own,
    scored, never ranked with runs that were trained here.

    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
    >>> sdgbench.evaluate(model, "digits-mini", name="linear", preset="smoke", progress=False)
    <Records of 1 runs: linear on digits-mini>
    """
    entry = registry.get("dataset", dataset)
    only = any_names(targets, "targets")
    normalise = _check_colours(mean, std)

    import torch
    from rich.console import Console

    from sdgbench.dataset import Dataset
    from sdgbench.launch import foreign
    from sdgbench.launch import progress as reporters
    from sdgbench.records.schema import Elsewhere
    from sdgbench.spec import parameters
    from sdgbench.training import foreign_model
    from sdgbench.training.device import Device

    cls: type[Dataset] = entry.load()
    fields = parameters.fields(cls.Options)
    values = {}
    for key, value in (options or {}).items():
        if key not in fields:
            raise unknown(f"option of {dataset} called", key, fields)
        values[key] = parameters.parse_field(dataset, fields[key], parameters.as_text(value))
    title = name or (model if isinstance(model, str) else type(model).__name__)
    foreign.check_name(title)
    if seed < 0:
        raise UserError(f"The seed {seed} is negative. Seeds are 0 and up.")
    known = cls.target_tags(parameters.build(cls.Options, values))
    for target in only:
        if target not in known:
            raise unknown(f"target of {dataset} called", target, known)
    spec = foreign.specification(title, cls, preset, values, only, seed)
    if isinstance(model, str):
        module = foreign_model.find_model(model, cls.task, cls.recipe(preset).image_size)
    elif isinstance(model, torch.nn.Module):
        module = model
    else:
        raise UserError(f"A {type(model).__name__} is no torch module and no text that names one.")
    if weights is not None:
        foreign_model.load_weights(module, Path(weights))
    if normalise:
        module = foreign_model.Normalised(module, *normalise)
    described = Elsewhere(
        name=title,
        model=model if isinstance(model, str) else f"{type(model).__module__}.{title}",
        model_file_sha256=_file_sha256(model) if isinstance(model, str) else None,
        weights_file=Path(weights).name if weights is not None else None,
        mean=list(mean) if mean else None,
        std=list(std) if std else None,
    )
    console = Console(highlight=False, quiet=not progress)
    was_training = module.training
    try:
        with reporters.reporter(console, f"{title} on {dataset}") as reporter:
            record, folder = foreign.score_model(
                module,
                spec,
                described,
                runs=Path(runs),
                data=Path(data),
                device=Device(device),
                reporter=reporter,
            )
    finally:
        module.train(was_training)
    return Records([StoredRecord(record, folder)])


def _file_sha256(model: str) -> str | None:
    path = Path(model.rpartition(":")[0])
    return storage.sha256(path) if path.suffix == ".py" and path.is_file() else None


def _check_colours(mean: Colours | None, std: Colours | None) -> tuple[Colours, Colours] | None:
    if mean is None and std is None:
        return None
    for what, given in (("mean", mean), ("std", std)):
        if given is None or len(given) != 3 or not all(isinstance(v, (int, float)) for v in given):
            raise UserError(
                f"{what} takes three numbers, for red, green and blue in [0, 1]; "
                "give both mean and std."
            )
    assert mean
    assert std
    if min(std) <= 0:
        raise UserError("std must be above 0.")
    return mean, std
