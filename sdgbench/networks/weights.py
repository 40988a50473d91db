"""Weights from files and from the Hugging Face hub: read safely, matched completely or refused."""

import os
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sdgbench import storage
from sdgbench.errors import UserError

PREFIXES = ("module.", "model.", "network.", "backbone.", "encoder.")  # that wrappers add
CONTAINERS = ("state_dict", "model", "model_state_dict", "network")  # of weights in a .pt file
COUNTER = "num_batches_tracked"  # of batch norm; not a weight, and older files lack it
KINDS = ("weight", "bias", "running_mean", "running_var")  # must agree where shapes do not tell


@dataclass(frozen=True)
class HubAddress:
    """A file of weights on the Hugging Face hub."""

    repository: str
    file: str = "model.safetensors"
    revision: str | None = None

    @property
    def name(self) -> str:
        """The name by which records call these weights."""
        return f"{self.repository}/{self.file}"


@dataclass(frozen=True)
class Match:
    """Which tensor of a file goes to which tensor of a network."""

    pairs: Mapping[str, str]  # tensor of the network: tensor of the file
    how: str  # "by name", or "by order and shape"
    new: tuple[str, ...]  # tensors of the network that keep their random values: its classifier
    unused: tuple[str, ...]  # tensors of the file that nothing needs: its classifier


@dataclass(frozen=True)
class WeightsOrigin:
    """Where a network's initial weights came from, as records keep it."""

    name: str
    sha256: str  # of the file
    matched: str  # how its tensors were matched with those of the network
    tensors: int  # how many were loaded
    new: tuple[str, ...]  # tensors that started from random values


@dataclass(frozen=True)
class WeightsFile:
    """The tensors of a file, in its order."""

    path: Path
    tensors: Mapping[str, Tensor]
    ordered: bool  # whether the file keeps the order in which a network has its tensors


def fetch(address: HubAddress, network: str) -> Path:
    """The local copy of a file on the hub, downloaded if it is not there yet."""
    try:
        return _fetch(address, os.environ.get("HF_ENDPOINT"))
    except Exception as error:  # of whatever library the hub's client uses for its connection
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"The pretrained weights of {network} ({address.name}) could not be fetched: {reason} "
            "Connect to the internet, name a file (recipe.weights=FILE), or set "
            "recipe.pretrained=false."
        ) from error


@cache
def _fetch(address: HubAddress, endpoint: str | None) -> Path:
    from huggingface_hub import hf_hub_download  # slow to import, so only here

    return Path(
        hf_hub_download(
            address.repository, address.file, revision=address.revision, endpoint=endpoint
        )
    )


def hash_of(path: Path) -> str:
    """The sha256 of a file of weights; a file that did not change is read once."""
    try:
        state = path.stat()
        return _hash(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise UserError(
            f"Cannot read the weights {path}: {error.strerror}. Correct recipe.weights."
        ) from None


@cache
def _hash(path: Path, modified: int, size: int) -> str:
    return storage.sha256(path)


def read(path: Path) -> WeightsFile:
    """Read a ``.safetensors`` or a PyTorch file, without running any code in it."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return WeightsFile(path, load_file(path), ordered=False)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(
            f"Cannot read the weights {path}: {error.strerror or error}. Correct recipe.weights."
        ) from None
    except pickle.UnpicklingError:
        raise UserError(
            f"{path} holds more than tensors, and might run code when it is loaded. Save only the "
            "weights: torch.save(model.state_dict(), FILE)."
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, zipfile.BadZipFile, Exception) as error:
        raise UserError(
            f"{path} is neither a safetensors nor a PyTorch file ({type(error).__name__}). It may "
            "be damaged."
        ) from None
    for key in CONTAINERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    if not isinstance(content, dict) or not any(isinstance(v, Tensor) for v in content.values()):
        raise UserError(f"{path} holds no weights by name, as torch.save(model.state_dict()) does.")
    tensors = {str(k): v for k, v in content.items() if isinstance(v, Tensor)}
    return WeightsFile(path, tensors, ordered=True)


# Matching ----------------------------------------------------------------------------------


def match(own: Mapping[str, Tensor], classifier: Sequence[str], file: WeightsFile) -> Match:
    """Match a network's tensors with those of a file: all but the classifier's, or refuse.

    The classifier (the names of its tensors) is loaded where its shape fits.
    """
    wanted = {name: t.shape for name, t in own.items() if not name.endswith(COUNTER)}
    given = {name: t.shape for name, t in file.tensors.items() if not name.endswith(COUNTER)}
    by_name, problem = _by_name(wanted, classifier, given)
    if by_name:
        return by_name
    if not file.ordered:
        raise UserError(
            f"{file.path.name} does not fit the network: {problem}. A safetensors file does not "
            "keep the order of its tensors, so names must be equal; a .pt file does."
        )
    by_order, other_problem = _by_order(wanted, classifier, given)
    if by_order:
        return by_order
    raise UserError(
        f"{file.path.name} does not fit the network, and part of a file is not loaded. "
        f"By name: {problem}. By order: {other_problem}."
    )


Shapes = Mapping[str, Sequence[int]]


def _by_name(wanted: Shapes, classifier: Sequence[str], given: Shapes) -> tuple[Match | None, str]:
    body = [name for name in wanted if name not in classifier]
    prefixes = ["", *(p for p in PREFIXES if all(name.startswith(p) for name in given))]
    best = ""
    for prefix in prefixes:
        missing = [n for n in body if given.get(prefix + n) != wanted[n]]
        unused = [n for n in given if n.removeprefix(prefix) not in wanted]
        if not missing and _is_classifier([given[name] for name in unused]):
            pairs = {n: prefix + n for n in wanted if given.get(prefix + n) == wanted[n]}
            new = tuple(name for name in wanted if name not in pairs)
            used = set(pairs.values())
            return Match(pairs, "by name", new, tuple(n for n in given if n not in used)), ""
        problem = f"{len(body) - len(missing)} of {len(body)} tensors match"
        problem += f", not {_some(missing)}" if missing else ""
        problem += f", and the network has no {_some(unused)}" if unused and not missing else ""
        best = best or problem
    return None, best


def _by_order(wanted: Shapes, classifier: Sequence[str], given: Shapes) -> tuple[Match | None, str]:
    body = [name for name in wanted if name not in classifier]
    names, rest = list(given), list[str]()
    if len(given) == len(wanted):
        targets = list(wanted)
    else:  # a file without a classifier, or with one that the network does not have
        targets, rest = body, names[len(body) :]
    if len(names) < len(targets) or not _is_classifier([given[name] for name in rest]):
        return None, f"it has {len(given)} tensors, and the network {len(wanted)}"
    pairs = {}
    for name, theirs in zip(targets, names, strict=False):
        kinds = [key.rpartition(".")[2] for key in (name, theirs)]
        same_kind = kinds[0] == kinds[1] or not set(kinds) <= set(KINDS)
        if given[theirs] == wanted[name] and same_kind:
            pairs[name] = theirs
        elif name not in classifier or given[theirs][1:] != wanted[name][1:] or not same_kind:
            return None, (
                f"tensor {len(pairs) + 1} is {theirs} {list(given[theirs])}, and the network's is "
                f"{name} {list(wanted[name])}"
            )
    new = tuple(name for name in wanted if name not in pairs)
    used = set(pairs.values())
    return Match(pairs, "by order and shape", new, tuple(n for n in given if n not in used)), ""


def _is_classifier(shapes: Sequence[Sequence[int]]) -> bool:
    """Whether these can be a linear layer's weight and bias; or nothing."""
    dims = sorted(len(shape) for shape in shapes)
    return dims in ([], [2], [1, 2]) and len({shape[0] for shape in shapes}) <= 1


def _some(names: Sequence[str], limit: int = 3) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def copy_into(module: nn.Module, found: Match, file: WeightsFile) -> None:
    """Give a module the tensors that were matched."""
    own = module.state_dict()
    with torch.no_grad():
        for name, theirs in found.pairs.items():
            own[name].copy_(file.tensors[theirs])
