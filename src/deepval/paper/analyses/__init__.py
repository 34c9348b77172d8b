"""One module per analysis: built cells -> rows of numbers that answer one question (`rows`), and their declaration."""
