"""Bytes and files <-> plain data: bounded reading, whole writing, JSON and hashes, forms, archives, manifests."""
