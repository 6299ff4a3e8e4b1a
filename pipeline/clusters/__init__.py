"""Clusters of differing pixels: exact DBSCAN on a raster."""

from pipeline.clusters.raster import dbscan
from pipeline.clusters.regions import Cluster, find_clusters

__all__ = ["Cluster", "dbscan", "find_clusters"]
