"""A domain that is larger than memory is read without holding it."""

import sys

import numpy as np

CODE = """
import resource, sys
from contextlib import closing
from pathlib import Path
import numpy as np
from sdgbench.data.domain import Domain, lazy_rows
from sdgbench.data.image_cache import StoredRows
from sdgbench.training.device import Device
from sdgbench.training.streaming import open_images

rows = lazy_rows(StoredRows(Path(sys.argv[1])))
domain = Domain("large", rows, np.arange(len(rows)) % 1000)
assert domain.is_streamed
order = np.random.default_rng(0).permutation(len(rows))
with closing(open_images(domain, Device("cpu"))) as images:
    batches = [order[start : start + 64] for start in range(0, 64 * 300, 64)]
    for number, batch in enumerate(batches):
        images.prefetch("train/0", batches[number : number + 4])
        x, y = images.gather(batch)
        assert x.shape == (64, 3, 224, 224) and y.tolist() == (batch % 1000).tolist()
    for start in range(0, 64 * 20, 64):
        images.span(start, start + 64)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_100_000_images_of_224_pixels_stay_below_2_gb(python, tmp_path):
    """3 GB of a sparse file of 15 GB are read in random order."""
    path = tmp_path / "images.npy"
    np.lib.format.open_memmap(path, "w+", np.uint8, (100_000, 3, 224, 224))
    assert path.stat().st_size > 15e9
    assert path.stat().st_blocks * 512 < 1e8  # nothing is written
    done = python("-c", CODE, path)
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout.split()[-1]) * (1 if sys.platform != "darwin" else 1 / 1024)
    assert peak < 2e9
