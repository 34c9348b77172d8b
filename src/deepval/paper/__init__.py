"""Every analysis on every cell at hand, kept by content, and one report beside the paper's own figures."""
