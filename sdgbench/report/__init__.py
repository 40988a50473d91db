"""The results as a page and as figures. Only sample images need torch.

``page`` writes leaderboards as one HTML file, ``figures`` draws them with matplotlib. Both take
their numbers from ``series``, so that they cannot disagree. What is published next to them, and
which methods have colours of their own, is passed in by the caller.
"""
