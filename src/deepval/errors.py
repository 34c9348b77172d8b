"""The one error and the one warning that deepval raises on purpose: a sentence a person can act on."""


class InputError(ValueError):
    """What must hold, what was found and where, and what to do. The command prints it and exits with 2."""


class NothingToLearnError(InputError):
    """Inputs to fit on that hold nothing to tell apart."""


class InputWarning(UserWarning):
    """Something that is allowed but probably not meant, such as one unit per input."""
