"""Train a method: the loop, batches, optimisation, checkpoints, devices, processes."""
