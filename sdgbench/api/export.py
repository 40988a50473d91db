"""Export a trained model: weights to share, with the record and a model card."""

from pathlib import Path
from typing import TYPE_CHECKING

from sdgbench import storage
from sdgbench.api.arguments import Folder
from sdgbench.api.finished import FinishedRun, load_run
from sdgbench.errors import UserError
from sdgbench.leaderboard.formats import markdown_text
from sdgbench.records.reading import encode
from sdgbench.records.schema import Choice, Record
from sdgbench.spec.parameters import show

if TYPE_CHECKING:
    from sdgbench.training.trained_model import TrainedModel

CARD_FILE = "README.md"


def export(
    run: FinishedRun | Folder,
    to: Folder,
    *,
    choice: Choice = "last",
    onnx: bool = False,
    runs: Folder = "runs",
) -> Path:
    """Write a run's model to a folder: safetensors, architecture, record, model card.

    ``load_model`` reads it back; that both predict the same, bit for bit, is checked before this
    returns. ``onnx=True`` also writes ``model.onnx``.

    >>> folder = sdgbench.export(records.folders[0], "exported")
    >>> sdgbench.load_model(folder)(torch.rand(5, 3, 32, 32)).shape
    torch.Size([5, 10])
    """
    from sdgbench.training import exported

    finished = run if isinstance(run, FinishedRun) else load_run(run, runs)
    folder = Path(to)
    known = {exported.WEIGHTS_FILE, exported.MODEL_FILE, exported.METHOD_FILE, exported.ONNX_FILE}
    known |= {"record.json", CARD_FILE}
    if folder.exists() and (
        not folder.is_dir() or {path.name for path in folder.iterdir()} - known
    ):
        raise UserError(f"{folder} holds other files. Choose a new folder.")
    record = finished.record
    if record.elsewhere:
        raise UserError("This model was trained elsewhere: its weights are not kept here.")
    model = finished.model(choice, device="cpu")
    storage.write_json(folder / "record.json", encode(record))
    exported.write(model, folder, choice, record.classes)
    card = model_card(record, choice, model)
    storage.write_atomic(folder / CARD_FILE, lambda file: file.write(card.encode()))
    if onnx:
        exported.write_onnx(model, folder)
    return folder


def model_card(record: Record, choice: Choice, model: "TrainedModel") -> str:
    """What a stranger must know of a model before using it, as Markdown."""
    spec, result = record.spec, record.results.get(choice, record.last)
    height, width = spec.recipe["image_size"]
    weights = "the last iterate" if choice == "last" else "chosen on held-out source"
    score = "mIoU" if record.metric == "mIoU" else "accuracy"
    params = ", ".join(f"`{key}={show(value)}`" for key, value in spec.params.items())
    warnings = [
        f"Reduced scale: {markdown_text(record.flags.reduced_scale)}."
        if record.flags.reduced_scale
        else "",
        "It started from pretrained weights." if record.flags.pretrained else "",
        f"Unverified data: {', '.join(record.flags.unverified_data)}."
        if record.flags.unverified_data
        else "",
        *(f"Flag of the method: {flag}." for flag in record.flags.method),
    ]
    rows = "\n".join(
        f"| {markdown_text(name)} | {100 * domain.score(record.metric):.2f} |"
        for name, domain in result.per_domain.items()
    )
    parameters = sum(weight.numel() for weight in model.parameters())
    notes = "\n".join(f"- {text}" for text in warnings if text)
    commit = f", commit {record.code.commit[:12]}" if record.code.commit else ""
    return f"""---
library_name: sdgbench
tags: [domain-generalization, {spec.method}, {spec.dataset}]
---

# {markdown_text(spec.method)} on {markdown_text(spec.dataset)}, seed {spec.seed}

Trained on the one source domain `{record.source.name}` ({record.source.train.count:,} images) and
tested on domains that it had never seen. Weights: {weights}. One seed of one run: not a result by
itself.

- Network: `{spec.recipe["network"]}`, {parameters:,} parameters
- Input: RGB pixels in [0, 1], 3 x {height} x {width}; normalisation is inside
- Output: logits of {len(record.classes)} classes
- Parameters of the method: {params or "none"}
- Preset: {spec.preset}
{notes}

| unseen domain | {score} (per cent) |
|---|--:|
{rows}

```python
import sdgbench

model = sdgbench.load_model(".")  # this folder; a torch module
```

Made by sdgbench {record.code.version}{commit}, run `{record.id}`; `record.json` has every setting,
the hashes of the data, and the machine. Again: `{spec.command}`
"""
