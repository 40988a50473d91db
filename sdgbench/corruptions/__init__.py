"""CIFAR-10-C's corruptions: ``names`` lists them, ``generator`` applies them to images."""
