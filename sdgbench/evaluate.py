"""The other loop: each target image is read once and decided by each set of weights."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench import checkpoint, metrics
from sdgbench.dataset import Dataset
from sdgbench.errors import Interrupted
from sdgbench.feed import DeviceImages
from sdgbench.method import Method
from sdgbench.progress import Reporter

Weights = dict[str, dict[str, Tensor]]


def score_domain(
    method: Method, images: DeviceImages, batch: int
) -> tuple[dict[str, object], np.ndarray]:
    """Metrics and decisions of the method as it stands."""
    with torch.inference_mode():
        decisions = torch.cat(
            [
                method.task.decide(method.predict(images.span(start, start + batch)))
                for start in range(0, len(images), batch)
            ]
        )
    predicted = decisions.cpu().numpy()
    truth = images.labels.cpu().numpy()
    confusion = metrics.confusion_matrix(truth, predicted, method.task.classes)
    return method.task.score(confusion), predicted


def evaluate(
    method: Method,
    dataset: Dataset,
    choices: Mapping[str, Weights],
    reporter: Reporter,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, np.ndarray]]:
    """Score each choice of weights ("last", "val") on each target.

    Returns results (choice -> domain -> metrics), what the domains were, and all decisions.
    """
    recipe, device = method.recipe, method.device
    for module in checkpoint.modules(method).values():
        module.eval()
    tags = dataset.target_tags(dataset.options)
    results: dict[str, Any] = {choice: {} for choice in choices}
    domains: dict[str, Any] = {}
    decisions: dict[str, np.ndarray] = {}
    reporter.begin("evaluate", len(tags))
    for position, name in enumerate(tags):
        domain = dataset.target(name).take(recipe.test_images)
        images = DeviceImages(domain, device)
        for choice, weights in choices.items():
            if len(choices) > 1:
                checkpoint.assign_weights(method, weights)
            results[choice][name], decided = score_domain(method, images, recipe.eval_batch)
            decisions[f"{choice}/{name}"] = decided
        domains[name] = {
            "tags": tags[name], "count": len(domain), "sha256": domain.sha256(),
        }  # fmt: skip
        reporter.update(position + 1, None, 0.0)
        if should_stop():
            raise Interrupted("in evaluation")
    reporter.end()
    return results, domains, decisions


def average(results: Mapping[str, Mapping[str, Any]], metric: str) -> dict[str, Any]:
    """Mean and worst over domains, with how many they are."""
    scores = {name: float(result[metric]) for name, result in results.items()}
    worst = min(scores, key=scores.__getitem__)
    return {
        "average": float(np.mean(list(scores.values()))),
        "worst": scores[worst],
        "worst_domain": worst,
        "domains": len(scores),
    }
