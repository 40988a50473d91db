"""What methods with heads of their own share."""

import torch

from sdgbench.method import Method


def feature_width(method: Method) -> int:
    """The number of features that the method's network computes for an image."""
    network = method.network
    blank = torch.zeros(1, 3, *method.recipe.image_size, device=method.device.torch)
    training = network.training
    network.eval()
    with torch.no_grad():  # the embedding alone, so that no image is counted
        width = network.embed(blank).shape[1]
    network.train(training)
    return width
