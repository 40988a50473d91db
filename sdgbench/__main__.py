"""``python -m sdgbench`` is the ``sdgbench`` command."""

from sdgbench.cli.app import main

if __name__ == "__main__":
    main()
