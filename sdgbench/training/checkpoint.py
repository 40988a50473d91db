"""Checkpoint files, and the state of a method in them; ``Trainer`` resumes a run from one."""

import hashlib
import io
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench.errors import Damaged, UserError, explain_os_errors
from sdgbench.method import Method
from sdgbench.storage.files import open_regular, write_atomic

FORMAT = 1
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
    """Read a checkpoint, without running any code that it might contain."""
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
    state = {}
    for name, value in vars(method).items():
        if not name.startswith("_") and (optimisers or not _is_optimiser(value)):
            state[name] = _encode(value, f"{type(method).__name__}.{name}")
    return state


def restore(method: Method, state: dict[str, Any]) -> None:
    """Restore captured values, in place where other objects may hold a reference."""
    for name, value in state.items():
        setattr(method, name, _decode(getattr(method, name, None), value))


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


def tensors(method: Method) -> list[Tensor]:
    """The weights, buffers and optimisers' states of a method, not copied."""
    states = [module.state_dict() for module in modules(method).values()]
    for value in vars(method).values():
        if _is_optimiser(value):
            states += value.state.values()
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


def _decode(current: Any, value: Any) -> Any:
    if isinstance(current, torch.Generator):
        current.set_state(value.cpu())
        return current
    if isinstance(current, np.random.Generator):
        current.bit_generator.state = value
        return current
    if isinstance(current, dict) and isinstance(value, dict):
        return {key: _decode(current.get(key), item) for key, item in value.items()}
    if isinstance(current, (list, tuple)) and len(current) == len(value):
        items = [_decode(old, new) for old, new in zip(current, value, strict=True)]
        return tuple(items) if isinstance(current, tuple) else items
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(value)
        return current
    return value
