"""Public sets of image pairs and of single birds, read in the layouts in which they were released.

Their images cannot be had with this project; `train.datasets.checking` tells whether a copy is whole, and
`train.datasets.preparing` writes what the training commands read.
"""

from train.datasets.checking import Finding, check
from train.datasets.layouts import LAYOUTS, layout_of
from train.datasets.preparing import prepare

__all__ = ["LAYOUTS", "Finding", "check", "layout_of", "prepare"]
