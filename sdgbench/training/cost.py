"""What training costs: seconds of each kind of work, and images through the task networks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sdgbench.method import Method
from sdgbench.networks import Network
from sdgbench.training import checkpoint
from sdgbench.training.device import Device


class Clock:
    """Adds up the seconds of each kind of work; one kind runs at a time."""

    def __init__(self, spent: dict[str, float], device: Device) -> None:
        self.spent, self.device, self.kind, self.since = spent, device, "", 0.0

    def start(self, kind: str) -> None:
        """Begin to count work of this kind."""
        self.kind, self.since = kind, time.perf_counter()

    def stop(self) -> None:
        """Stop counting, once the device has finished."""
        self.device.synchronise()
        self.spent[self.kind] = self.seconds(self.kind)
        self.kind = ""

    def seconds(self, kind: str) -> float:
        """Seconds of this kind so far."""
        running = time.perf_counter() - self.since if kind == self.kind else 0.0
        return self.spent.get(kind, 0.0) + running

    @contextmanager
    def switched_to(self, kind: str) -> Iterator[None]:
        """Count work of another kind, then continue with the kind before."""
        main = self.kind
        self.stop()
        self.start(kind)
        yield
        self.stop()
        self.start(main)


Counts = tuple[int, int]  # images that went forward, and those of them with gradient


class ImageCounter:
    """Counts the images that go through a method's task networks in this process."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self._collected = self._replayed = (0, 0)

    def totals(self) -> Counts:
        """All images since the networks were made."""
        networks = [
            submodule
            for module in checkpoint.modules(self.method).values()
            for submodule in module.modules()
            if isinstance(submodule, Network)
        ]
        return (
            self._replayed[0] + sum(network.images_forward for network in networks),
            self._replayed[1] + sum(network.images_with_gradient for network in networks),
        )

    def add(self, replayed: Counts) -> None:
        """Count images that went through the networks without their functions being called."""
        self._replayed = self._replayed[0] + replayed[0], self._replayed[1] + replayed[1]

    def exclude_since(self, before: Counts) -> None:
        """Do not collect the images since ``totals`` was ``before``."""
        forward, gradient = self.totals()
        self._collected = (
            self._collected[0] + forward - before[0],
            self._collected[1] + gradient - before[1],
        )

    def collect(self) -> Counts:
        """The images since the last call."""
        (forward, gradient), before = self.totals(), self._collected
        self._collected = (forward, gradient)
        return forward - before[0], gradient - before[1]
