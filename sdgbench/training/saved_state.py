"""What a checkpoint holds of a run: its position, and whether a state that was read is one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from torch import Tensor, nn

from sdgbench.errors import Damaged, UserError
from sdgbench.method import Method, Phase
from sdgbench.training import checkpoint

Whole = Annotated[int, Meta(ge=0, le=2**62)]


@dataclass
class Position:
    """How far a run has come. Checkpoints keep every field under its name: do not rename them."""

    phase: int = 0
    step: int = 0  # within the phase
    curve_bytes: int = 0
    curve_sha256: str = ""  # of these bytes
    seconds: dict[str, float] = field(default_factory=dict)  # per kind of work
    images_forward: int = 0
    images_with_gradient: int = 0
    starts: int = 0  # how often the run was started or resumed
    machines: list[dict[str, Any]] = field(default_factory=list)  # that it ran on, in order
    opened_data: list[str] = field(default_factory=list)  # files that the method opened
    best: dict[str, Any] | None = None  # by source validation: step, score, weights
    last_score: float | None = None  # of source validation
    loss_sum: Tensor | float = 0.0
    loss_count: Tensor | float = 0


class _PositionFields(msgspec.Struct, forbid_unknown_fields=True):
    """The plain fields of a position, for their types."""

    phase: Whole
    step: Whole
    curve_bytes: Whole
    seconds: dict[str, float]
    images_forward: Whole
    images_with_gradient: Whole
    starts: Whole
    machines: list[dict[str, Any]]
    last_score: float | None
    curve_sha256: str = ""
    opened_data: list[str] = []


class _Best(msgspec.Struct):
    """What source validation chose, without its weights."""

    step: Whole
    score: float


class _FeedFields(msgspec.Struct):
    """The state of a stream of batches."""

    epoch: Annotated[int, Meta(ge=-1)]
    offset: Whole
    size: Whole


class _PoolFields(msgspec.Struct):
    """The state of a pool, without its tensor."""

    count: Whole
    domains: list[tuple[Whole, Whole]] = []
    sha256: Annotated[list[str], Meta(min_length=2, max_length=2)] | None = None


def check(
    state: dict[str, Any], path: Path, method: Method, plan: Sequence[Phase], run_id: str
) -> None:
    """Raise Damaged where a state that was read cannot be one of this run."""
    if state.get("run") != run_id:
        raise UserError(f"{path} belongs to the run {state.get('run')}. Delete it.")
    try:
        _check(state, method, plan)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise Damaged(f"The checkpoint {path} is damaged ({error})") from error


def _check(state: dict[str, Any], method: Method, plan: Sequence[Phase]) -> None:
    position = state["position"]
    tensors = ("best", "loss_sum", "loss_count")
    plain = {key: value for key, value in position.items() if key not in tensors}
    read = msgspec.convert(plain, _PositionFields)
    if read.phase > len(plan) or read.step > (*(p.steps for p in plan), 0)[read.phase]:
        raise ValueError(f"it is at step {read.step} of phase {read.phase}, beyond the plan")
    for name in ("loss_sum", "loss_count"):
        if not isinstance(position[name], (Tensor, float, int)):
            raise ValueError(f"its {name} is no number")
    if position["best"] is not None:
        msgspec.convert({k: position["best"][k] for k in ("step", "score")}, _Best)
        _check_weights(position["best"]["weights"], method)
    msgspec.convert(state["feeds"], dict[str, _FeedFields])
    pool = msgspec.convert({k: v for k, v in state["pool"].items() if k != "origins"}, _PoolFields)
    origins = state["pool"].get("origins")
    if origins is not None and (origins.ndim != 1 or len(origins) != pool.count):
        raise ValueError("its pool does not fit")
    saved = state["method"]
    missing = [name for name, value in vars(method).items() if _is_kept(name, value, saved)]
    if missing:
        raise ValueError(f"it lacks {missing[0]} of the method")


def _is_kept(name: str, value: Any, saved: dict[str, Any]) -> bool:
    """Whether a network of the method is missing in what was saved of it."""
    return isinstance(value, nn.Module) and not name.startswith("_") and name not in saved


def _check_weights(weights: dict[str, dict[str, Tensor]], method: Method) -> None:
    for name, module in checkpoint.modules(method).items():
        expected, saved = module.state_dict(), weights[name]
        if saved.keys() != expected.keys():
            raise ValueError(f"the chosen weights of {name} do not fit")
        for key, tensor in expected.items():
            if saved[key].shape != tensor.shape or saved[key].dtype != tensor.dtype:
                raise ValueError(f"the chosen weights of {name}.{key} do not fit")


def apply(state: dict[str, Any], path: Path, method: Method) -> None:
    """Give a method the values of a state; Damaged where they do not fit it."""
    try:
        checkpoint.restore(method, state["method"])
        method.pool.load_state_dict(state["pool"])
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise Damaged(f"The checkpoint {path} is damaged ({first})") from error
