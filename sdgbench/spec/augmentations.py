"""The names of input augmentations and their settings. Imports no torch, so anyone may."""

from dataclasses import dataclass

from sdgbench.errors import unknown

NONE = "none"


@dataclass(frozen=True)
class Augmentation:
    """One operation: what it does, and its numbers with their defaults and ranges."""

    doc: str
    numbers: dict[str, tuple[float, float, float]]  # name: default, minimum, maximum


AUGMENTATIONS = {
    "crop-flip": Augmentation(
        "pad by 4 pixels (mirrored), crop back, mirror half of the images", {}
    ),
    "flip": Augmentation("mirror images, left to right", {"probability": (0.5, 0, 1)}),
    "crop": Augmentation("pad (mirrored) and crop back", {"pixels": (4, 1, 64)}),
    "resized-crop": Augmentation(
        "crop a part of the area, with sides of 3:4 to 4:3, and resize it to the whole image",
        {"smallest": (0.8, 0.01, 1), "largest": (1, 0.01, 1)},
    ),
    "colour-jitter": Augmentation(
        "change brightness, contrast, saturation (by factors of 1 - s to 1 + s) and hue (by up to "
        "h of the colour circle), in this order",
        {
            "brightness": (0.4, 0, 1),
            "contrast": (0.4, 0, 1),
            "saturation": (0.4, 0, 1),
            "hue": (0, 0, 0.5),
        },
    ),
    "grey": Augmentation("remove the colours of some images", {"probability": (0.1, 0, 1)}),
}


@dataclass(frozen=True)
class Step:
    """One operation of a recipe, with all of its numbers."""

    name: str
    numbers: tuple[float, ...]


def parse(text: str) -> tuple[Step, ...]:
    """Read a recipe's list of operations, such as ``resized-crop:0.8:1,flip,grey:0.1``.

    Numbers follow a name after colons; those that are omitted have their defaults. Raises
    ValueError for a number that does not fit, and UserError for an unknown name.
    """
    if text.strip() in (NONE, ""):
        return ()
    return tuple(_parse_step(part.strip()) for part in text.split(","))


def _parse_step(text: str) -> Step:
    name, *given = text.split(":")
    if name not in AUGMENTATIONS:
        raise unknown("augmentation", name, [*AUGMENTATIONS, NONE])
    known = AUGMENTATIONS[name].numbers
    if len(given) > len(known):
        usage = ":".join([name, *known])
        raise ValueError(f'"{text}" has too many numbers; write {usage}')
    numbers = [default for default, _, _ in known.values()]
    for index, (value, (what, (_, low, high))) in enumerate(
        zip(given, known.items(), strict=False)
    ):
        try:
            numbers[index] = float(value)
        except ValueError:
            raise ValueError(f'{what} of {name} must be a number, not "{value}"') from None
        if not low <= numbers[index] <= high:
            raise ValueError(f"{what} of {name} must be from {low:g} to {high:g}, not {value}")
    if name == "resized-crop" and numbers[0] > numbers[1]:
        raise ValueError(f"resized-crop:{numbers[0]:g}:{numbers[1]:g} has no area between")
    return Step(name, tuple(numbers))
