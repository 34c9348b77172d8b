"""The synthetic world, the built-in default: seeded road traffic -> scenes, truths, pictures and detections."""

from deepval.datasets.synthetic.scenes import MODES, Simulated, Synthetic, World, WorldSettings, make_world, read

__all__ = ["MODES", "Simulated", "Synthetic", "World", "WorldSettings", "make_world", "read"]
