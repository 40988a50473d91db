"""The arrays that a run keeps in .npz files: its predictions, and samples in the embedding."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sdgbench import storage

if TYPE_CHECKING:  # tables are made without loading NumPy
    import numpy as np

PREDICTIONS = "predictions.npz"  # keys: choice of weights/domain


def write_arrays(path: Path, arrays: "Mapping[str, np.ndarray]") -> None:
    """Write named arrays as one compressed file, atomically."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    storage.write_atomic(path, lambda file: file.write(buffer.getvalue()))


def read_arrays(path: Path) -> "dict[str, np.ndarray]":
    """All arrays of a file by name; empty: it is missing or damaged."""
    import numpy as np

    try:
        with storage.open_regular(path) as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception:  # zip and NumPy raise errors of a dozen kinds for damaged files
        return {}
