"""The cluster that these tests share."""

import pytest
from slurm_cluster import cluster as start_cluster
from slurm_cluster import why_not


@pytest.fixture(scope="session")
def slurm():
    """A real Slurm with two nodes, or a skip with the reason."""
    if reason := why_not():
        pytest.skip(reason)
    with start_cluster() as home:
        yield home
