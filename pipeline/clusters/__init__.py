"""Clusters of differing pixels: exact DBSCAN on a raster."""

from pipeline.clusters.raster import Cluster, dbscan, find_clusters

__all__ = ["Cluster", "dbscan", "find_clusters"]
