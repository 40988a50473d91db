"""The process that has a simulated GPU."""

from sdgbench.conformance.simulation.training import main

main()
