"""The recipes of the M-ADA paper, shared by each benchmark and its embedded twin."""

from sdgbench.dataset import Recipe

DIGITS = Recipe(network="convnet", optimiser="adam", lr=1e-4, steps=10_000, batch=32)
CIFAR = Recipe(
    network="wrn-16-4", optimiser="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4,
    schedule="linear", epochs=200, batch=128, augment="crop-flip", eval_batch=500,
)  # fmt: skip
SYNTHIA = Recipe(
    network="fcn32-resnet50", image_size=(192, 320), optimiser="adam", lr=1e-4, epochs=50, batch=8,
    eval_batch=16,
)  # fmt: skip
