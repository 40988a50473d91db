"""What a run needs to go on as if it had never stopped."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench.errors import UserError, explain_os_errors
from sdgbench.method import Method
from sdgbench.storage import write_atomic

FORMAT = 1
_PLAIN = (bool, int, float, str, bytes, type(None))


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; the earlier one stays until the new one is whole."""
    buffer = io.BytesIO()  # torch would report a full disk as an internal error of its own
    torch.save({"format": FORMAT, **state}, buffer)
    write_atomic(path, lambda file: file.write(buffer.getbuffer()))


def load(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint, without running any code that it might contain."""
    advice = f"Delete it to start this run again: rm '{path}'"
    with explain_os_errors("read", path):
        try:
            state = torch.load(path, map_location=device, weights_only=True)
        except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError,
                zipfile.BadZipFile):  # fmt: skip
            raise UserError(f"The checkpoint {path} is damaged. {advice}") from None
    if not isinstance(state, dict) or "format" not in state:
        raise UserError(f"{path} is not a checkpoint of sdgbench. {advice}")
    if state["format"] != FORMAT:
        raise UserError(f"{path} was written by another version of sdgbench. {advice}")
    return state


def capture(method: Method, *, optimisers: bool = True) -> dict[str, Any]:
    """Collect everything a method keeps in attributes without a leading underscore."""
    found = {}
    for name, value in vars(method).items():
        if not name.startswith("_") and (optimisers or not _is_optimiser(value)):
            found[name] = _encode(value, f"{type(method).__name__}.{name}")
    return found


def restore(method: Method, state: dict[str, Any]) -> None:
    """Put captured values back, in place where others may hold a reference."""
    for name, value in state.items():
        setattr(method, name, _decode(getattr(method, name, None), value))


def modules(method: Method) -> dict[str, nn.Module]:
    """The modules a method keeps, by attribute (and position, for lists and dicts)."""
    found: dict[str, nn.Module] = {}

    def visit(name: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            found[name] = value
        elif isinstance(value, dict):
            for key, part in value.items():
                visit(f"{name}.{key}", part)
        elif isinstance(value, (list, tuple)):
            for position, part in enumerate(value):
                visit(f"{name}.{position}", part)

    for name, value in vars(method).items():
        if not name.startswith("_"):
            visit(name, value)
    return found


def copy_weights(method: Method) -> dict[str, dict[str, Tensor]]:
    """A detached copy of all modules' weights and buffers."""
    return {
        name: {key: tensor.detach().clone() for key, tensor in module.state_dict().items()}
        for name, module in modules(method).items()
    }


def assign_weights(method: Method, weights: dict[str, dict[str, Tensor]]) -> None:
    """Let the modules use other weights, without copying. For evaluation only."""
    for name, module in modules(method).items():
        module.load_state_dict(weights[name], assign=True)


def _is_optimiser(value: Any) -> bool:
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(part, Optimizer) for part in value)
    return isinstance(value, Optimizer)


def _encode(value: Any, where: str) -> Any:
    if isinstance(value, (Tensor, *_PLAIN)):
        return value
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, dict):
        return {key: _encode(part, f"{where}[{key!r}]") for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_encode(part, f"{where}[{i}]") for i, part in enumerate(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
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
        return {key: _decode(current.get(key), part) for key, part in value.items()}
    if isinstance(current, (list, tuple)) and len(current) == len(value):
        parts = [_decode(old, new) for old, new in zip(current, value, strict=True)]
        return tuple(parts) if isinstance(current, tuple) else parts
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(value)
        return current
    return value
