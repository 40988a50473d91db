"""The built-in methods, one file each. A file here is found by itself: nothing else to edit."""
