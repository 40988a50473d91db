"""Datasets' images and labels: domains, downloads, readers, stored and generated content."""
