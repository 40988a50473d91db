"""SYNTHIA's folders and 16-bit labels, from files written in that format."""

import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from sdgbench import registry
from sdgbench.datasets import synthia
from sdgbench.spec import parameters

HEIGHT, WIDTH = 76, 128  # a tenth of the real frames


def write_png16(path, channels):
    """A 16-bit RGB PNG, byte by byte: Pillow cannot write one."""
    height, width, _ = channels.shape
    rows = b"".join(b"\x00" + row.astype(">u2").tobytes() for row in channels)

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def write_sequence(root, sequence, frames, seed=0):
    rng = np.random.default_rng(seed)
    folder = root / sequence
    for i in range(frames):
        name = f"{i:06d}.png"
        ids = rng.choice([0, 1, 2, 3, 8, 12, 15], (HEIGHT, WIDTH))
        channels = np.stack([ids, rng.integers(0, 60000, ids.shape), 0 * ids], axis=2)
        write_png16(folder / "GT" / "LABELS" / synthia.CAMERA / name, channels)
        picture = folder / "RGB" / synthia.CAMERA / name
        picture.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)).save(picture)
    return folder


def test_labels_are_the_first_of_16_bit_channels(tmp_path):
    ids = np.repeat(np.array([[0, 1, 12, 13, 14, 15]]), 4, axis=0)
    channels = np.stack([ids, np.full_like(ids, 258), 0 * ids], axis=2)
    write_png16(tmp_path / "x.png", channels)
    labels = synthia.read_labels(tmp_path / "x.png")
    assert labels.shape == synthia.SIZE
    expected = [0, 1, 12, 0, 0, 13]  # 13 and 14 are reserved, 15 is the traffic light
    columns = ((np.arange(320) + 0.5) * 6 / 320).astype(int)
    assert np.array_equal(labels[100], np.array(expected, dtype=np.uint8)[columns])


def test_another_kind_of_image_is_refused(tmp_path):
    write_png16(tmp_path / "x.png", np.full((4, 4, 3), 3000))
    with pytest.raises(ValueError, match="not a label image of SYNTHIA"):
        synthia.read_labels(tmp_path / "x.png")


def test_frames_are_shrunk_smoothly(tmp_path):
    picture = np.zeros((384, 640, 3), dtype=np.uint8)
    picture[:, ::2] = 200
    Image.fromarray(picture).save(tmp_path / "x.png")
    small = synthia.read_image(tmp_path / "x.png")
    assert small.shape == (192, 320, 3)
    assert abs(int(small[90, 150, 0]) - 100) < 20  # stripes of one pixel become grey


@pytest.fixture
def imported(cli, tmp_path):
    for condition, location in (("DAWN", "01"), ("DAWN", "02"), ("NIGHT", "04")):
        write_sequence(tmp_path / "mine", f"SYNTHIA-SEQS-{location}-{condition}", 12, int(location))
    done = cli("data", "import", "synthia", tmp_path / "mine", "--data", "d", "--trust")
    assert done.code == 0, done.err
    assert "synthia-01-dawn: unverified, 12 images" in done.out
    assert "synthia-02-fog: missing. not found in this folder" in done.out
    return tmp_path / "d"


def test_import_and_run(imported, cli, tmp_path):
    done = cli("run", "--method", "erm", "--dataset", "synthia", "--preset", "smoke", "--data", "d")
    assert done.code == 0, done.err + done.out
    record = json.loads(next(tmp_path.glob("runs/*/*/*/record.json")).read_text())
    assert list(record["domains"]) == ["new-york/dawn", "old-european/night"]
    assert len(record["missing_domains"]) == 8
    assert record["source"]["train"]["count"] == 10
    assert record["source"]["val"]["count"] == 2
    assert record["results"]["last"]["domains"] == 2
    assert "synthia-04-night" in record["flags"]["unverified_data"]


def test_the_source_is_a_frozen_choice(imported):
    cls = registry.get("dataset", "synthia").load()

    def source(split, preset="paper"):
        made = cls(imported, parameters.build(cls.Options, {}), cls.recipe(preset))
        return made.source(split)

    assert source("train").sha256() == source("train").sha256()
    train = {image.tobytes() for image in source("train").images}
    assert not train & {image.tobytes() for image in source("val").images}
    whole, half = source("train"), source("train", "quick")
    assert half.images.shape[2:] == (96, 160)
    block = whole.images[3, 1, 10:12, 20:22].astype(int)
    assert half.images[3, 1, 5, 10] == int(block.mean() + 0.5)
    assert half.labels[3, 5, 10] == whole.labels[3, 10, 20]


def test_without_the_data_the_error_names_the_download(cli):
    done = cli("data", "prepare", "synthia", "--data", "d")
    assert done.code == 2
    assert "Nothing was downloaded" in done.err
    assert "Download SYNTHIA-SEQS-01-DAWN.rar" in done.out
    assert "RGB/Stereo_Left/Omni_F" in done.out
    run = cli("run", "--method", "erm", "--dataset", "synthia", "--data", "d")
    assert run.code == 2
    assert "--dataset streets-mini" in run.err


def test_a_sequence_without_labels_is_named(tmp_path, cli):
    folder = write_sequence(tmp_path / "mine", "SYNTHIA-SEQS-01-FOG", 2)
    (folder / "GT" / "LABELS" / synthia.CAMERA / "000001.png").unlink()
    done = cli("data", "import", "synthia", tmp_path / "mine", "--data", "d", "--trust")
    assert "000001.png is missing" in done.out


@pytest.mark.parametrize("folder", ["GT/LABELS", "RGB"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_a_damaged_image_is_named_and_the_rest_imported(folder, damage, tmp_path, cli):
    """A flipped bit once ended the process."""
    mine = tmp_path / "mine"
    for location in ("01", "02"):
        write_sequence(mine, f"SYNTHIA-SEQS-{location}-FOG", 2)
    path = mine / "SYNTHIA-SEQS-01-FOG" / folder / synthia.CAMERA / "000001.png"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes({"flipped": data, "cut": data[: len(data) // 2], "empty": b""}[damage])
    done = cli("data", "import", "synthia", mine, "--data", "d", "--trust")
    assert done.code == 1, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("synthia-01-fog")]
    assert "cannot be read" in line
    assert "000001.png" in line
    assert "synthia-02-fog: unverified, 2 images" in done.out
    assert "Traceback" not in done.out + done.err
