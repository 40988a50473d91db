"""``python -m sdgbench`` is the ``sdgbench`` command."""

from sdgbench.cli import main

if __name__ == "__main__":
    main()
