"""How many runs may share a GPU: those whose steps are too small to keep it busy alone."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from sdgbench import networks
from sdgbench.spec.run_spec import RunSpec

MOST = 4  # runs on a GPU
# A host needs one or two milliseconds to start the few hundred kernels of a step. In that time a
# GPU that does ten tera-operations per second does this many. (Reasoned, not measured.)
BUSY_STEP = 15e9
CONTEXT = 800 << 20  # bytes of a process on a GPU before its first tensor
METHOD_FACTOR = 8  # memory of a method's step over one of the plain network: ensembles, meta steps
MEMORY_SHARE = 0.9  # of the GPU that all runs together may take


def runs_per_gpu(specs: Sequence[RunSpec], memory: int, cpus: int) -> int:
    """The number of runs to do at a time on a GPU of ``memory`` bytes with ``cpus`` CPUs.

    The largest run of the command decides.
    """
    most = min(MOST, cpus)
    for network, size, classes, batch in {_key(spec) for spec in specs}:
        try:
            operations, used = step_cost(network, size, classes, batch)
        except Exception:  # a network that cannot be built without memory is not a small one
            return 1
        fitting = int(MEMORY_SHARE * memory // (CONTEXT + METHOD_FACTOR * used))
        most = min(most, fitting, int(BUSY_STEP // max(1, operations)))
    return max(1, most)


def _key(spec: RunSpec) -> tuple[str, tuple[int, int], int, int]:
    height, width = spec.recipe["image_size"]
    task = spec.dataset_class.task_for(spec.build_options())
    return spec.recipe["network"], (height, width), task.classes, spec.recipe["batch"]


def step_cost(network: str, size: tuple[int, int], classes: int, batch: int) -> tuple[float, int]:
    """Operations and bytes of a plain training step, from a network without any values."""
    outputs = 0

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal outputs
        if isinstance(output, Tensor):
            outputs += output.numel()

    with FakeTensorMode(), torch.no_grad():
        model = networks.build(network, classes, size).eval()
        for module in model.modules():
            if not list(module.children()):
                module.register_forward_hook(count)
        with FlopCounterMode(display=False) as counter:
            model(torch.empty(1, 3, *size))
    weights = sum(weight.numel() for weight in model.parameters())
    # The backward pass costs two forward ones. Weights have a gradient and two means of Adam;
    # outputs are kept, and each has a gradient.
    return 3.0 * batch * counter.get_total_flops(), 4 * (4 * weights + 2 * batch * outputs)
