"""Checkpoint files, and the state of a method in them; ``Trainer`` resumes a run from one."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench.errors import Damaged, UserError, explain_os_errors
from sdgbench.method import Method
from sdgbench.storage.files import open_regular, write_atomic
from sdgbench.training.device import Device

FORMAT = 1
DEVICES = "_devices"  # key of a method's state: the kind of device of each of its tensors
SEAL = b"sdgbench sha256 "
_PLAIN = (bool, int, float, str, bytes, type(None))


def earlier(path: Path) -> Path:
    """Where the checkpoint before the last one is kept while a run lasts."""
    return path.with_name(f"{path.stem}.earlier{path.suffix}")


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; the one before it is kept under the name ``earlier(path)``."""
    buffer = io.BytesIO()  # torch would report a full disk as an internal error
    torch.save({"format": FORMAT, **state}, buffer)
    # The hash is the comment of the zip file, so that torch.load still reads it.
    buffer.seek(-2, io.SEEK_END)
    buffer.write((len(SEAL) + 64).to_bytes(2, "little") + SEAL)
    digest = hashlib.sha256(buffer.getbuffer()).hexdigest().encode()

    def write(file: IO[bytes]) -> None:
        file.write(buffer.getbuffer())
        file.write(digest)

    write_atomic(path, write, earlier=earlier(path))


def load(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint, without running any code that it might contain.

    All its tensors are on the device; ``restore`` returns a method's own to where they were.
    """
    advice = f"Delete it to start this run again: rm '{path}'"
    with explain_os_errors("read", path), open_regular(path) as file:
        data = file.read()
    try:
        _check_sums(data)
        state = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
    except Exception:  # torch raises errors of many kinds for damaged files
        raise Damaged(f"The checkpoint {path} is damaged. {advice}") from None
    if not isinstance(state, dict) or "format" not in state:
        raise UserError(f"{path} is not a checkpoint of sdgbench. {advice}")
    if state["format"] != FORMAT:
        raise UserError(f"{path} was written by another version of sdgbench. {advice}")
    return state


def _check_sums(data: bytes) -> None:
    """Compare the hash of a checkpoint; one that was written without is checked by its CRCs.

    torch itself checks neither, and would load other weights where a bit has changed.
    """
    body, digest = data[:-64], data[-64:]
    if body.endswith(SEAL):
        intact = hashlib.sha256(body).hexdigest().encode() == digest
    else:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            intact = archive.testzip() is None
    if not intact:
        raise ValueError("its hash differs")


def capture(method: Method, *, optimisers: bool = True) -> dict[str, Any]:
    """Collect everything a method keeps in attributes without a leading underscore."""
    state: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for name, value in vars(method).items():
        if not name.startswith("_") and (optimisers or not _is_optimiser(value)):
            state[name] = _encode(value, f"{type(method).__name__}.{name}")
            kinds |= {path: tensor.device.type for path, tensor in _tensors(name, value)}
    state[DEVICES] = {"": method.device.kind, **kinds}
    return state


def restore(method: Method, state: dict[str, Any]) -> None:
    """Restore captured values, in place where other objects may hold a reference."""
    kinds: dict[str, str] = state.get(DEVICES, {})  # older checkpoints do not say
    for name, value in state.items():
        if name != DEVICES:
            current = getattr(method, name, None)
            setattr(method, name, _decode(current, value, Place(name, kinds, method.device)))


def modules(method: Method) -> dict[str, nn.Module]:
    """The modules in a method's attributes, by attribute (and index or key inside of it)."""
    by_name: dict[str, nn.Module] = {}

    def visit(name: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            by_name[name] = value
        elif isinstance(value, dict):
            for key, item in value.items():
                visit(f"{name}.{key}", item)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                visit(f"{name}.{index}", item)

    for name, value in vars(method).items():
        if not name.startswith("_"):
            visit(name, value)
    return by_name


def optimisers(method: Method) -> list[Optimizer]:
    """The optimisers in a method's attributes, also those in lists."""
    values = [v for v in vars(method).values() if _is_optimiser(v)]
    return [o for v in values for o in (v if isinstance(v, (list, tuple)) else [v])]


def tensors(method: Method) -> list[Tensor]:
    """The weights, buffers and optimisers' states of a method, not copied."""
    states = [module.state_dict() for module in modules(method).values()]
    for optimiser in optimisers(method):
        states += optimiser.state.values()
    return [entry for state in states for entry in state.values() if isinstance(entry, Tensor)]


def copy_weights(method: Method) -> dict[str, dict[str, Tensor]]:
    """A detached copy of all modules' weights and buffers."""
    return {
        name: {key: tensor.detach().clone() for key, tensor in module.state_dict().items()}
        for name, module in modules(method).items()
    }


def assign_weights(method: Method, weights: dict[str, dict[str, Tensor]]) -> None:
    """Replace the modules' weights without a copy. For evaluation only."""
    for name, module in modules(method).items():
        module.load_state_dict(weights[name], assign=True)


def _is_optimiser(value: Any) -> bool:
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(item, Optimizer) for item in value)
    return isinstance(value, Optimizer)


def _encode(value: Any, where: str) -> Any:
    if isinstance(value, (Tensor, *_PLAIN)):
        return value
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, dict):
        return {key: _encode(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return value.state_dict()
    raise UserError(
        f"{where} is a {type(value).__name__}, which cannot be saved with the run. Keep modules, "
        "optimisers, tensors, numbers or text, or begin its name with an underscore if it can be "
        "computed again."
    )


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors in an attribute, apart from those of modules and optimisers."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _tensors(f"{path}.{key}", item)


@dataclass(frozen=True)
class Place:
    """Where an attribute of a method is, and where its tensors were when they were saved."""

    path: str
    kinds: dict[str, str]  # of devices, by path; the empty one: that of the run
    device: Device  # of this run

    def of(self, key: object) -> "Place":
        """The place of an item."""
        return Place(f"{self.path}.{key}", self.kinds, self.device)

    def put(self, current: Any, value: Tensor) -> Tensor:
        """Return a tensor to the device where it was: the run's, or one that the method chose."""
        kind = self.kinds.get(self.path)
        if kind is not None and self.kinds[""] == self.device.kind:
            return value.to(self.device.torch if kind == self.device.kind else kind)
        # From another kind of device: the tensor that setup has just made is where it should be.
        return value.to(current.device if isinstance(current, Tensor) else self.device.torch)


def _decode(current: Any, value: Any, place: Place) -> Any:
    if isinstance(current, torch.Generator):
        current.set_state(value.cpu())
        return current
    if isinstance(current, np.random.Generator):
        current.bit_generator.state = value
        return current
    if isinstance(current, dict) and isinstance(value, dict):
        return {key: _decode(current.get(key), v, place.of(key)) for key, v in value.items()}
    if isinstance(current, (list, tuple)) and len(current) == len(value):
        pairs = enumerate(zip(current, value, strict=True))
        items = [_decode(old, new, place.of(index)) for index, (old, new) in pairs]
        return tuple(items) if isinstance(current, tuple) else items
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(value)
        return current
    return _put(current, value, place)


def _put(current: Any, value: Any, place: Place) -> Any:
    """A value with its tensors where they belong, also those that setup does not make."""
    if isinstance(value, Tensor):
        return place.put(current, value)
    if isinstance(value, dict):
        return {key: _put(None, item, place.of(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_put(None, item, place.of(index)) for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    return value
