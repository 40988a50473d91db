"""A simulated GPU: trainings on fake CUDA tensors, with a count of the host's waits."""

from sdgbench.conformance.simulation.preload import missing
from sdgbench.conformance.simulation.training import PRECISIONS, Case, Simulated, simulate

__all__ = ["PRECISIONS", "Case", "Simulated", "missing", "simulate"]
