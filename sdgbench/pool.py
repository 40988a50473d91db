"""Images that a method generates: augmented domains, kept on disk while the run lasts."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench import parallel
from sdgbench.errors import UserError, explain_os_errors


class Pool:
    """Labelled float32 images in append-only files.

    A checkpoint stores only how many images there were: on resume the files are cut back to that
    length, and the images that were added since are generated again, bit for bit.
    """

    def __init__(
        self, folder: Path, image_shape: Sequence[int], label_shape: Sequence[int]
    ) -> None:
        self.folder = folder
        self.image_shape, self.label_shape = tuple(image_shape), tuple(label_shape)
        self.count = 0
        self.domains: list[tuple[int, int]] = []  # stretches of it, in the order they were made
        self.origins = np.empty(0, np.int64)  # which source image each was made of; -1: not known
        self._bytes = (4 * int(np.prod(image_shape)), int(np.prod(label_shape)))

    def __len__(self) -> int:
        return self.count

    @property
    def files(self) -> tuple[Path, Path]:
        """Pixels and labels."""
        return self.folder / "images.f32", self.folder / "labels.u8"

    def add(self, images: Tensor, labels: Tensor) -> None:
        """Append a batch. Pixels are kept as they are: not clamped, not rounded.

        Where several processes made a part each, the first one writes them all, in order.
        """
        arrays = (
            images.detach().to("cpu", torch.float32).contiguous().numpy(),
            labels.detach().to("cpu", torch.uint8).contiguous().numpy(),
        )
        if arrays[0].shape[1:] != self.image_shape or arrays[1].shape[1:] != self.label_shape:
            raise ValueError(f"the pool takes images of {self.image_shape}")
        if parallel.part():
            parts = parallel.gathered(arrays)
            arrays = (
                np.concatenate([part[0] for part in parts]),
                np.concatenate([part[1] for part in parts]),
            )
        parallel.from_first(lambda: self._append(arrays))
        self.count += len(arrays[0])
        self.origins = np.concatenate([self.origins, np.full(len(arrays[0]), -1)])

    def _append(self, arrays: Sequence[np.ndarray]) -> None:
        with explain_os_errors("write", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for path, array in zip(self.files, arrays, strict=True):
                with path.open("ab") as file:
                    file.write(array.tobytes())

    def trace(self, before: int, origins: np.ndarray) -> None:
        """Note what a step's images were made of, if it made one of each of its batch."""
        if self.count - before == len(origins):
            self.origins[before:] = origins

    def end_domain(self) -> None:
        """What was added since the last domain's end is one augmented domain."""
        start = self.domains[-1][1] if self.domains else 0
        if self.count > start:
            self.domains.append((start, self.count))

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Read some images and labels, in the given order."""
        image_file, label_file = self.files
        images = np.memmap(image_file, np.float32, "r", shape=(self.count, *self.image_shape))
        labels = np.memmap(label_file, np.uint8, "r", shape=(self.count, *self.label_shape))
        return (
            torch.from_numpy(images[indices]),
            torch.from_numpy(labels[indices].astype(np.int64)),
        )

    def state_dict(self) -> dict[str, Any]:
        """Flush to disk and say how long the files are."""
        with explain_os_errors("write", self.folder):
            for path in self.files:
                if path.exists():
                    with path.open("rb") as file:
                        os.fsync(file.fileno())
        return {
            "count": self.count,
            "domains": [list(domain) for domain in self.domains],
            "origins": torch.from_numpy(self.origins.astype(np.int32)),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Cut the files back to a checkpoint's length."""
        self.count = int(state["count"])
        self.domains = [(start, stop) for start, stop in state.get("domains", ())]
        known = state.get("origins", torch.full((self.count,), -1))
        self.origins = known.cpu().numpy().astype(np.int64)
        for path, size in zip(self.files, self._bytes, strict=True):
            if not path.exists():
                if self.count:
                    raise UserError(f"{path} is gone. Delete {self.folder.parent} to start anew.")
                continue
            if not parallel.is_first():
                continue  # it is not ours to cut
            if path.stat().st_size < self.count * size:
                raise UserError(f"{path} is too short. Delete {self.folder.parent} to start anew.")
            with explain_os_errors("write", path):
                os.truncate(path, self.count * size)
