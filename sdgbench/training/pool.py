"""Images that a method generates: augmented domains, kept on disk while the run lasts."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench import storage
from sdgbench.data.domain import label_type
from sdgbench.errors import Damaged, explain_os_errors
from sdgbench.training import distributed
from sdgbench.training.device import Device
from sdgbench.training.device_pool import DevicePool, fits

LABEL_SUFFIXES = {"uint8": "u8", "int16": "i16", "int32": "i32"}


class Pool:
    """Labelled float32 images in append-only files.

    A checkpoint stores only how many images there were: on resume the files are cut back to that
    length, and the images that were added since are generated again, bit for bit.
    """

    def __init__(
        self,
        folder: Path,
        image_shape: Sequence[int],
        label_shape: Sequence[int],
        classes: int = 256,
        device: Device | None = None,
    ) -> None:
        self.folder, self.device = folder, device or Device("cpu")
        self.image_shape, self.label_shape = tuple(image_shape), tuple(label_shape)
        self.count = 0
        self.domains: list[tuple[int, int]] = []  # start and stop of each, in order of generation
        self.source_indices = np.empty(0, np.int64)  # the image each was made of; -1: not known
        self._label_type = np.dtype(label_type(classes))
        label_bytes = self._label_type.itemsize * int(np.prod(label_shape))
        self._bytes = (4 * int(np.prod(image_shape)), label_bytes)
        self._hashes = [hashlib.sha256(), hashlib.sha256()]  # of the two files, as they grow
        self._written = 0  # images in the files; on a GPU some may still be on their way
        self._hashed = 0  # of these
        self._on_device: DevicePool | None = None
        self._open: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def files(self) -> tuple[Path, Path]:
        """The file of the pixels and that of the labels."""
        return (
            self.folder / "images.f32",
            self.folder / f"labels.{LABEL_SUFFIXES[self._label_type.name]}",
        )

    def add(self, images: Tensor, labels: Tensor) -> None:
        """Append a batch. Pixels are kept as they are: not clamped, not rounded.

        Where each process generated a shard, each writes its own part of the files.
        """
        images, labels = images.detach().to(torch.float32).contiguous(), labels.detach()
        if images.shape[1:] != self.image_shape or labels.shape[1:] != self.label_shape:
            raise ValueError(f"the pool takes images of {self.image_shape}")
        shards = distributed.current_shard()
        self._open = None
        on_device = None if shards else self._device_pool(len(images))
        if on_device is not None:
            on_device.add(images, labels)
            self._count(len(images))
            return
        arrays = images.cpu().numpy(), labels.cpu().numpy()
        if shards:
            counts = distributed.all_gather(len(images))
            self._write_part(arrays, self.count + sum(counts[: distributed.rank()]))
            distributed.wait_for_all()
            self._count(sum(counts))
            self._written = self.count
            return
        distributed.on_rank_zero(lambda: self._append(arrays))
        self._count(len(arrays[0]))

    def _count(self, added: int) -> None:
        self.count += added
        self.source_indices = np.concatenate([self.source_indices, np.full(added, -1)])

    def _device_pool(self, added: int = 0) -> DevicePool | None:
        """The images on the GPU, while they fit there; None: they are read from the files."""
        if distributed.size() > 1 or not fits(self.device, (self.count + added) * self._bytes[0]):
            if self._on_device is not None:
                self._on_device.flush()
                self._on_device.close()
            self._on_device = None
        elif self._on_device is None:
            self._on_device = DevicePool(self.device, self._append)
            if self.count:
                self._on_device.load(*self._arrays())
        return self._on_device

    def _append(self, arrays: Sequence[np.ndarray]) -> None:
        self._hash_parts()
        with self._writing(arrays) as contents:
            for number, (path, data) in enumerate(contents):
                storage.append(path, data, self._written * self._bytes[number])
                self._hashes[number].update(data)
            self._written += len(arrays[0])
            self._hashed = self._written

    def _write_part(self, arrays: Sequence[np.ndarray], first: int) -> None:
        """Write this process's images, of which the first has this index in the pool."""
        with self._writing(arrays) as contents:
            for (path, data), size in zip(contents, self._bytes, strict=True):
                storage.write_at(path, data, self.count * size, first * size)

    @contextmanager
    def _writing(self, arrays: Sequence[np.ndarray]) -> Iterator[list[tuple[Path, bytes]]]:
        """What to write to which file."""
        images, labels = arrays
        with explain_os_errors("write", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            storage.refuse_link(self.folder)
            contents = images.tobytes(), labels.astype(self._label_type).tobytes()
            yield list(zip(self.files, contents, strict=True))

    def _hash_parts(self) -> None:
        """Hash what several processes wrote, in the first one: only it keeps the hashes."""
        if self._hashed == self._written or not distributed.is_rank_zero():
            return
        for path, size, digest in zip(self.files, self._bytes, self._hashes, strict=True):
            with explain_os_errors("read", path), storage.open_regular(path) as file:
                file.seek(self._hashed * size)
                for _ in range(self._hashed, self._written):
                    digest.update(file.read(size))
        self._hashed = self._written

    def record_sources(self, first: int, source_indices: np.ndarray) -> None:
        """Record what a step's images were made of, if it made one of each of its batch.

        ``first`` is the index of the step's first image in the pool.
        """
        if self.count - first == len(source_indices):
            self.source_indices[first:] = source_indices

    def end_domain(self) -> None:
        """Make one augmented domain of all images that were added since the last one."""
        start = self.domains[-1][1] if self.domains else 0
        if self.count > start:
            self.domains.append((start, self.count))

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images and labels in the order of ``indices``, on the device or on the host."""
        if (on_device := self._device_pool()) is not None:
            return on_device.gather(indices)
        images, labels = self._arrays()
        return (
            torch.from_numpy(images[indices]),
            torch.from_numpy(labels[indices].astype(np.int64)),
        )

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The files as arrays. They stay open: opening takes longer than reading a batch."""
        if self._open is None:
            shapes = self.image_shape, self.label_shape
            types = np.dtype(np.float32), self._label_type
            images, labels = (  # as plain arrays: indexing a memmap takes longer
                np.asarray(np.memmap(file, dtype, "r", shape=(self.count, *shape)))
                for file, dtype, shape in zip(self.files, types, shapes, strict=True)
            )
            self._open = images, labels
        return self._open

    def flush(self) -> None:
        """Wait until all images are in the files."""
        if self._on_device is not None:
            self._on_device.flush()

    def state_dict(self) -> dict[str, Any]:
        """Flush to disk and return what a checkpoint keeps."""
        self.flush()
        self._hash_parts()
        with explain_os_errors("write", self.folder):
            for path in self.files:
                if path.exists():
                    storage.sync(path)
        return {
            "count": self.count,
            "domains": [list(domain) for domain in self.domains],
            "origins": torch.from_numpy(self.source_indices.astype(np.int32)),
            "sha256": [digest.hexdigest() for digest in self._hashes],
        }

    def check(self, state: dict[str, Any]) -> list["hashlib._Hash"]:
        """The hashes of the files; Damaged where they are not those of a checkpoint's state."""
        count, expected = state["count"], state.get("sha256")
        digests = [hashlib.sha256(), hashlib.sha256()]
        for number, (path, size) in enumerate(zip(self.files, self._bytes, strict=True)):
            if not count:
                continue
            if not path.exists():
                raise Damaged(f"{path} is missing")
            if path.stat().st_size < count * size:
                raise Damaged(f"{path} is too short")
            digests[number] = storage.hash_start(path, count * size)
            # Checkpoints that are older than the hashes are taken as they are.
            if expected and digests[number].hexdigest() != expected[number]:
                raise Damaged(f"{path} is damaged: its sha256 differs")
        return digests

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Cut the files back to a checkpoint's length, after a check of their content."""
        if distributed.is_rank_zero():  # only the first process writes
            self._hashes = self.check(state)
        self._assign(state)
        self._cut_files()

    def snapshot(self) -> dict[str, Any]:
        """What ``roll_back`` needs to undo what is added from now on, in this process."""
        self.flush()
        self._hash_parts()
        state = {"count": self.count, "domains": list(self.domains)}
        origins = torch.from_numpy(self.source_indices.copy())
        return {**state, "origins": origins, "hashes": [d.copy() for d in self._hashes]}

    def roll_back(self, snapshot: dict[str, Any]) -> None:
        """Remove what was added since the snapshot."""
        self.flush()
        self._assign(snapshot)
        self._hashes = [digest.copy() for digest in snapshot["hashes"]]
        self._cut_files()

    def _cut_files(self) -> None:
        if not distributed.is_rank_zero():
            return
        storage.refuse_link(self.folder)
        for path, size in zip(self.files, self._bytes, strict=True):
            if path.is_symlink() or path.exists():
                with explain_os_errors("write", path):
                    storage.cut(path, self.count * size)

    def _assign(self, state: dict[str, Any]) -> None:
        self._on_device, self._open = None, None
        self.count = self._written = self._hashed = int(state["count"])
        self.domains = [(start, stop) for start, stop in state.get("domains", ())]
        source_indices = state.get("origins", torch.full((self.count,), -1))
        self.source_indices = source_indices.cpu().numpy().astype(np.int64)
        if len(self.source_indices) != self.count:
            raise Damaged(f"the checkpoint of {self.folder.parent} has a pool that does not fit")
