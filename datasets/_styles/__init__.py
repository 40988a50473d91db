"""The images of ``styles-mini``, a small embedded twin of PACS.

Figures of seven classes are built as polygons and then photographed, painted, drawn as cartoons or
sketched. The same labels and seed give the same images.
"""

from sdgbench.datasets._styles.figures import CLASSES
from sdgbench.datasets._styles.looks import SIZE, STYLES, render

__all__ = ["CLASSES", "SIZE", "STYLES", "render"]
