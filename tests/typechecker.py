"""How annotations are checked while tests run: beartype, with Python's rule that an int is a float too."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
