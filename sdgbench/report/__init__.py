"""The results as a page and as figures. Only sample images need torch.

``gather`` reads runs into boards, ``page`` writes them as one HTML file, ``figures`` draws them
with matplotlib. Both take their numbers from ``series``, so that they cannot disagree.
"""
