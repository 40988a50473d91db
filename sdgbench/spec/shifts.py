"""The families of changed images that a search may score held-out source under. Imports no torch.

They stand for domains that nobody has seen, so none of them may be one that training or the
targets use: methods and datasets name theirs (``families``), and none is one of the corruptions
of a corruption benchmark.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sdgbench.spec import augmentations
from sdgbench.spec.run_spec import RunSpec

# After AugMix, which leaves out what may overlap with corruptions: brightness, contrast, cutout.
_CORRUPTIONS = "they resemble corruptions that are tested"


@dataclass(frozen=True)
class Family:
    """What is done to an image, and where it is excluded."""

    doc: str
    near_corruptions: bool = False  # resembles one: excluded where corruptions are tested
    moves_pixels: bool = False  # label maps would have to move, too: not for segmentation


FAMILIES = {
    "channels": Family("the colour channels in another order"),
    "hue": Family("hues turned by a sixth of the colour circle, either way"),
    "invert": Family("the negative"),
    "posterize": Family("2 or 3 bits per channel"),
    "solarize": Family("levels above a half, or above a third, inverted"),
    "rotate": Family("turned by 20 degrees, either way", moves_pixels=True),
    "shear": Family("sheared by 0.3, either way", moves_pixels=True),
    "shading": Family("light that falls to 30% from one side to the other", near_corruptions=True),
    "occlusion": Family("a grey square of a third of the side in a quarter", near_corruptions=True),
    "stripes": Family("every fourth row or column black", near_corruptions=True),
    "wave": Family("rows moved along a sine", near_corruptions=True, moves_pixels=True),
}
_OF_RECIPE = {  # families by operation of ``recipe.augment``
    "colour-jitter": ("hue", "channels", "shading"),
    "grey": ("hue", "channels"),
}


def usable_for(spec: RunSpec) -> tuple[list[str], dict[str, str]]:
    """The families that may score a run, and why each of the others may not."""
    dataset = spec.dataset_class
    tags = dataset.target_tags(spec.build_options()).values()
    return usable(
        augment=spec.recipe["augment"],
        method=spec.method_class.families,
        dataset=dataset.families,
        corruptions=any(tag.get("corruption") for tag in tags),
        segmentation=dataset.task.kind == "segmentation",
    )


def usable(
    *,
    augment: str,
    method: Collection[str],
    dataset: Collection[str],
    corruptions: bool,
    segmentation: bool,
) -> tuple[list[str], dict[str, str]]:
    """The families that may be used, and why each of the others may not."""
    recipe = set(_flat(_OF_RECIPE.get(step.name, ()) for step in augmentations.parse(augment)))
    excluded: dict[str, str] = {}
    for name, family in FAMILIES.items():
        if name in method:
            excluded[name] = "the method trains with them"
        elif name in recipe:
            excluded[name] = "the recipe's augmentation has them"
        elif name in dataset:
            excluded[name] = "targets resemble them"
        elif corruptions and family.near_corruptions:
            excluded[name] = _CORRUPTIONS
        elif segmentation and family.moves_pixels:
            excluded[name] = "they move pixels, and labels of pixels stay"
    return [name for name in FAMILIES if name not in excluded], excluded


def _flat(groups: Iterable[Iterable[str]]) -> Iterable[str]:
    return (name for group in groups for name in group)
