"""The ``sdgbench`` command: ``app`` holds the group, each other file one verb."""
