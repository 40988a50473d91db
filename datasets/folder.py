"""Your own images, in a folder per domain and class, without any code."""

from dataclasses import replace

from sdgbench.data.folder_dataset import FolderDataset
from sdgbench.datasets import _recipes as recipes
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset


@register_dataset("folder")
class Folder(FolderDataset):
    """Any folder of images, DIR/domain/class/*.jpg: --set root=DIR --set source=DOMAIN.

    The chosen domain is the source, of which a tenth is held out; all others are unseen. Classes
    are those of which the source has images.
    """

    family = "pacs"

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The recipe of PACS, and shorter ones with a small network."""
        return {name: replace(recipe) for name, recipe in recipes.PACS.items()}
