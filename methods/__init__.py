"""The built-in methods, one file each. A new file here is discovered without further edits."""
