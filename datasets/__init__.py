"""The built-in datasets, one file each. A file here is found by itself: nothing else to edit."""
