"""Files <-> plain data: bounded reading, atomic writing, JSON and hashes, forms,
archives, manifests.
"""
