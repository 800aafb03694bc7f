"""The one exception of the toolkit; what is wrong with an argument stays ValueError or TypeError."""


class IdcwhError(Exception):
    """Something the user can mend: a file that is damaged, missing or foreign, a library or a device that is not there.

    The message is one line: what was wrong, what was expected, what to do.
    """
