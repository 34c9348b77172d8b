"""One module per analysis: `rows` turns built cells into rows that answer one question;
an `Analysis` declares it.
"""
