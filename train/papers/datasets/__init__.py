"""Public sets of image pairs and of single birds, read in the layouts in which they were released.

Their images cannot be had with this project; `train.papers.datasets.integrity` tells whether a copy is
whole, and `train.papers.datasets.preparation` writes what the training commands read.
"""

from train.papers.datasets.integrity import Finding, check
from train.papers.datasets.layouts import LAYOUTS, layout_of
from train.papers.datasets.preparation import prepare

__all__ = ["LAYOUTS", "Finding", "check", "layout_of", "prepare"]
