"""The names of the precisions that a run can be computed in. Imports nothing, so anyone may."""

PRECISIONS = ("float32", "tf32", "bf16", "fp16")
DEFAULT_PRECISION = PRECISIONS[0]  # labels and run ids do not mention it
