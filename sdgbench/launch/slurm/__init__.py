"""Run a matrix on a Slurm cluster, through submitit."""
