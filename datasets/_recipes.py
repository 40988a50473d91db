"""The recipes of the M-ADA paper, shared by each benchmark and its embedded twin."""

from dataclasses import replace

from sdgbench.recipe import Recipe

DIGITS = Recipe(network="convnet", optimiser="adam", lr=1e-4, steps=10_000, batch=32)
CIFAR = Recipe(
    network="wrn-16-4",
    optimiser="sgd",
    lr=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    schedule="linear",
    epochs=200,
    batch=128,
    augment="crop-flip",
    eval_batch=500,
)
SYNTHIA = Recipe(
    network="fcn32-resnet50",
    image_size=(192, 320),
    optimiser="adam",
    lr=1e-4,
    epochs=50,
    batch=8,
    eval_batch=16,
)
STYLES_AUGMENT = "resized-crop:0.8:1,flip,grey:0.1"
_PACS = Recipe(  # rate, length and batch as L2D's for a single source
    network="timm:resnet18",
    pretrained=True,
    image_size=(224, 224),
    optimiser="sgd",
    lr=0.002,
    momentum=0.9,
    weight_decay=5e-4,
    schedule="cosine",
    epochs=50,
    batch=64,
    augment=STYLES_AUGMENT,
    eval_batch=128,
)
PACS = {  # by preset; shared by folders of images
    "paper": _PACS,
    "quick": replace(
        _PACS,
        network="wrn-16-1",
        pretrained=False,
        image_size=(64, 64),
        lr=0.05,
        epochs=0,
        steps=400,
        batch=32,
        test_images=500,
        validations=4,
        reduced="WRN-16-1 without pretraining, 64x64, 400 steps of 32, 500 test images per domain",
    ),
    "smoke": replace(
        _PACS,
        network="wrn-10-1",
        pretrained=False,
        image_size=(32, 32),
        lr=0.05,
        epochs=0,
        steps=10,
        batch=16,
        test_images=32,
        validations=2,
        reduced="WRN-10-1 without pretraining, 32x32, 10 steps, 32 test images per domain",
    ),
}
