"""``sdgbench new dataset``: the file runs as it is written."""

import re

import numpy as np

from sdgbench import registry


def test_a_new_dataset_passes_the_check_and_runs(cli, tmp_path):
    done = cli("new", "dataset", "my-data")
    assert done.code == 0
    commands = re.findall(r"^  sdgbench (.+)", done.out, re.M)
    assert [command.split()[0] for command in commands] == ["check", "run", "compare"]
    for command in commands:
        tried = cli(*command.split())
        assert tried.code == 0, tried.out + tried.err
    assert "my-data, smoke preset" in tried.out
    registry.add_plugin(tmp_path / "my_data.py")
    cls = registry.get("dataset", "my-data").load()
    dataset = cls(tmp_path, cls.Options(source="dark"), cls.recipe("smoke"))
    train, val = (dataset.source(split).images for split in ("train", "val"))
    assert not {i.tobytes() for i in train} & {i.tobytes() for i in val}
    assert dataset.target("inverted").images.mean() > train.mean()
    assert np.array_equal(dataset.source("val").images, val)


def test_a_taken_name_or_file_is_refused(cli, tmp_path):
    assert "taken by the dataset" in cli("new", "dataset", "digits").err
    (tmp_path / "mine.py").write_text("")
    assert "is not overwritten" in cli("new", "dataset", "mine").err
    assert "Datasets are Python files" in cli("new", "dataset", "m", "-o", "m.txt").err
