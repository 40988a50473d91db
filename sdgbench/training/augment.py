"""Input augmentation: named operations on a batch, on its device, with a draw for each image.

What is drawn for an image depends on the seed, on the epoch and on the image's position in it:
not on the batch size, nor on how many processes share the batch. (``crop-flip`` is older: it draws
for a batch, so that runs from before stay what they were.) Libraries draw once per batch or by
their own generators, so these are our own; tests compare them with torchvision's.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from sdgbench.spec.augmentations import Step
from sdgbench.spec.seeds import derive
from sdgbench.training.distributed import BatchShard

DRAWS = 8  # random numbers per image and operation
LUMA = (0.299, 0.587, 0.114)

Move = Callable[[Tensor], Tensor]  # to the device, without waiting
Batch = tuple[Tensor, Tensor]  # images and labels


def augment(
    steps: Sequence[Step],
    batch: Batch,
    seed: int,
    stream: tuple[str, int],
    offset: int,
    shard: BatchShard | None,
    move: Move,
) -> Batch:
    """Apply the operations to a batch that begins at ``offset`` of the epoch that ``stream`` names.

    Geometric operations apply to label maps, too.
    """
    images, labels = batch
    for number, step in enumerate(steps):
        if step.name == "crop-flip":
            batch_seed = derive(seed, "augment", *stream, offset)
            shift, mirrored = crop_flip_draws(len(images), batch_seed, shard)
            images, labels = _shifted(images, labels, shift, mirrored, move)
            continue
        start = offset + (shard.start if shard else 0)
        draws = uniform(derive(seed, "augment", *stream, number, step.name), start, len(images))
        images, labels = OPERATIONS[step.name](images, labels, draws, step.numbers, move)
    return images, labels


def uniform(seed: int, start: int, count: int) -> Tensor:
    """Random numbers in [0, 1) for the images from ``start`` on, a row each."""
    blocks = DRAWS // 4  # the generator makes four numbers per value of its counter
    generator = np.random.Generator(np.random.Philox(key=seed, counter=start * blocks))
    return torch.from_numpy(generator.random((count, DRAWS)))


# Geometry: images and label maps -----------------------------------------------------------


def crop_and_flip(
    images: Tensor, seed: int, shard: BatchShard | None = None, margin: int = 4
) -> Tensor:
    """Reflect-pad by ``margin``, crop back at random, mirror half of the images."""
    shift, mirrored = crop_flip_draws(len(images), seed, shard, margin)
    return _shifted(images, torch.empty(0), shift, mirrored, lambda tensor: tensor)[0]


def crop_flip_draws(
    count: int, seed: int, shard: BatchShard | None, margin: int = 4
) -> tuple[Tensor, Tensor]:
    """The shift of each image, and whether it is mirrored; drawn for the whole batch at once."""
    total = shard.total if shard else count
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(-margin, margin + 1, (total, 2), generator=generator)
    mirrored = torch.rand(total, generator=generator) < 0.5
    return (shard.take(shift), shard.take(mirrored)) if shard else (shift, mirrored)


def _shifted(images: Tensor, labels: Tensor, shift: Tensor, mirrored: Tensor, move: Move) -> Batch:
    """Shift images by whole pixels and mirror some; what enters at an edge is reflected."""
    # One copy to the device; the indices of the pixels are computed there.
    top, left, mirror = move(torch.cat([shift, mirrored[:, None].long()], 1)).unbind(1)
    height, width = images.shape[2:]
    rows = _reflect(_range(height, images) + top[:, None], height)
    columns = _range(width, images)
    columns = torch.where(mirror[:, None] > 0, width - 1 - columns, columns)
    return _gathered(images, labels, rows, _reflect(columns + left[:, None], width))


def _range(size: int, like: Tensor) -> Tensor:
    return torch.arange(size, device=like.device)


def _gathered(images: Tensor, labels: Tensor, rows: Tensor, columns: Tensor) -> Batch:
    """The pixels at these rows and columns of each image."""
    count, channels, height, width = images.shape
    pixels = (rows[:, :, None] * width + columns[:, None, :]).view(count, 1, -1)
    flat = images.reshape(count, channels, -1).gather(2, pixels.expand(-1, channels, -1))
    if labels.dim() > 1:
        labels = labels.reshape(count, -1).gather(1, pixels[:, 0]).view_as(labels)
    return flat.view(count, channels, height, width), labels


def _reflect(index: Tensor, size: int) -> Tensor:
    index = index.abs()
    return torch.where(index >= size, 2 * (size - 1) - index, index)


def flip(
    images: Tensor, labels: Tensor, draws: Tensor, numbers: tuple[float, ...], move: Move
) -> Batch:
    """Mirror images with a probability."""
    mirrored = move(draws[:, 0] < numbers[0])
    images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    if labels.dim() > 1:
        labels = torch.where(mirrored[:, None, None], labels.flip(2), labels)
    return images, labels


def crop(
    images: Tensor, labels: Tensor, draws: Tensor, numbers: tuple[float, ...], move: Move
) -> Batch:
    """Shift images by up to some pixels; what enters is mirrored."""
    margin = min(int(numbers[0]), *(side - 1 for side in images.shape[2:]))
    shift = (draws[:, :2] * (2 * margin + 1)).long() - margin
    return _shifted(images, labels, shift, torch.zeros(len(shift), dtype=torch.bool), move)


def resized_crop(
    images: Tensor, labels: Tensor, draws: Tensor, numbers: tuple[float, ...], move: Move
) -> Batch:
    """Crop a box of each image and resize it to the whole, bilinearly; labels by the nearest."""
    height, width = images.shape[2:]
    boxes = crop_boxes(draws, numbers, height, width)
    rows = [move(value) for value in _samples(boxes[:, 0], boxes[:, 2], height)]
    columns = [move(value) for value in _samples(boxes[:, 1], boxes[:, 3], width)]
    images = _between(images, 2, *rows[:3])
    images = _between(images, 3, *columns[:3])
    if labels.dim() > 1:
        image = move(torch.arange(len(labels)))
        labels = labels[image[:, None, None], rows[3][:, :, None], columns[3][:, None, :]]
    return images, labels


def crop_boxes(draws: Tensor, numbers: Sequence[float], height: int, width: int) -> Tensor:
    """The top, left, height and width of each image's box, in whole pixels.

    The sides are cut to the image where a drawn ratio does not fit into it.
    """
    smallest, largest = numbers
    area = height * width * (smallest + (largest - smallest) * draws[:, 0])
    ratio = (3 / 4) * (16 / 9) ** draws[:, 1]  # uniform in its logarithm
    box_width = (area * ratio).sqrt().round().clamp(1, width)
    box_height = (area / ratio).sqrt().round().clamp(1, height)
    top = (draws[:, 2] * (height - box_height + 1)).floor()
    left = (draws[:, 3] * (width - box_width + 1)).floor()
    return torch.stack([top, left, box_height, box_width], 1).long()


def _samples(start: Tensor, length: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each position of the result: two neighbours in the box, a weight, and the nearest."""
    position = (torch.arange(side, dtype=torch.double) + 0.5) * (length[:, None] / side)
    inside = (position - 0.5).clamp(min=0)
    below = inside.floor()
    last = length[:, None] - 1
    first, second = below.long().minimum(last), (below + 1).long().minimum(last)
    nearest = position.floor().long().minimum(last)
    offset = start[:, None]
    return offset + first, offset + second, (inside - below).float(), offset + nearest


def _between(images: Tensor, dim: int, first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    shape = [len(images), 1, 1, 1]
    shape[dim] = -1
    sizes = list(images.shape)
    sizes[dim] = first.shape[1]
    low, high = (images.gather(dim, index.view(shape).expand(sizes)) for index in (first, second))
    return low.lerp(high, weight.to(images.dtype).view(shape).expand(sizes))


# Colours -------------------------------------------------------------------------------------


def colour_jitter(
    images: Tensor, labels: Tensor, draws: Tensor, numbers: tuple[float, ...], move: Move
) -> Batch:
    """Brightness, contrast, saturation and hue of each image, in this order."""
    span = torch.tensor(numbers, dtype=draws.dtype)
    change = move(((2 * draws[:, :4] - 1) * span).float())[:, :, None, None, None]
    if numbers[0]:
        images = (images * (1 + change[:, 0])).clamp(0, 1)
    if numbers[1]:
        mean = _grey(images).mean((1, 2, 3), keepdim=True)
        images = mean.lerp(images, 1 + change[:, 1]).clamp(0, 1)
    if numbers[2]:
        images = _grey(images).lerp(images, 1 + change[:, 2]).clamp(0, 1)
    if numbers[3]:
        images = _turn_hue(images, change[:, 3, 0])
    return images, labels


def grey(
    images: Tensor, labels: Tensor, draws: Tensor, numbers: tuple[float, ...], move: Move
) -> Batch:
    """Remove the colours of images with a probability."""
    chosen = move(draws[:, 0] < numbers[0])[:, None, None, None]
    return torch.where(chosen, _grey(images), images), labels


def _grey(images: Tensor) -> Tensor:
    red, green, blue = (images[:, channel : channel + 1] for channel in range(3))
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def _turn_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Turn hues by a part of the colour circle; the highest and lowest channels keep values."""
    high, low = images.amax(1), images.amin(1)
    spread = high - low
    scale = torch.where(spread == 0, 1, spread)
    red, green, blue = images.unbind(1)
    hue = torch.where(
        high == red,
        (green - blue) / scale,
        torch.where(high == green, 2 + (blue - red) / scale, 4 + (red - green) / scale),
    )
    hue = hue + 6 * turn
    channels = []
    for start in (5, 3, 1):  # of red, green and blue on the circle of six
        k = (start + hue) % 6
        channels.append(high - spread * torch.minimum(k, 4 - k).clamp(0, 1))
    return torch.stack(channels, 1)


OPERATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, tuple[float, ...], Move], Batch]] = {
    "flip": flip,
    "crop": crop,
    "resized-crop": resized_crop,
    "colour-jitter": colour_jitter,
    "grey": grey,
}
