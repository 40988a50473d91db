"""A page on this machine that shows runs while they are under way; it only reads the runs folder.

``folder`` collects what the page shows, ``server`` answers the browser. No torch is needed.
"""
