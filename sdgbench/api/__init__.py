"""What Python callers use; the names are exported by ``sdgbench`` itself."""
