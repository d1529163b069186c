"""Errors and warnings that several parts of decond share; each says in an attribute what it is about.

Programs read the attributes; the text is for people and may change in any release.
"""

__all__ = ["ArgumentError", "ArgumentTypeError", "DataWarning", "MemoryWarning", "ResolutionWarning"]


class _AboutArgument(Exception):  # noqa: N818 - shared by errors and a warning
    """What is shared: the name of an argument, and a text."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(argument, message)  # both, so that copies and pickles are whole
        self.argument = argument
        self.message = message

    def __str__(self) -> str:
        return self.message


class ArgumentError(_AboutArgument, ValueError):
    """An argument has a value that cannot be used.

    Attributes
    ----------
    argument
        Its name, such as "z_task". A part of an argument is described, such as `observed['mean']` or
        "x of block 1"; how parts are described may change.

    Examples
    --------
    >>> try:
    ...     raise ArgumentError("noise", "noise is -1.0; it must be > 0.")
    ... except ValueError as error:
    ...     print(error.argument, "|", error)
    noise | noise is -1.0; it must be > 0.
    """


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a type that cannot be used; also a `TypeError`.

    >>> issubclass(ArgumentTypeError, TypeError)
    True
    """


class DataWarning(_AboutArgument, UserWarning):
    """The data may not support the answer: few rows, little overlap, columns that never change.

    Attributes
    ----------
    argument
        The name of the argument that holds these data.

    Examples
    --------
    >>> str(DataWarning("y_task", "y_task has values beyond those of y."))
    'y_task has values beyond those of y.'
    """


class MemoryWarning(UserWarning):
    """A fit that begins will need much memory.

    Attributes
    ----------
    gigabytes
        About how much.

    Examples
    --------
    >>> MemoryWarning("this fit needs about 12 GB.", gigabytes=12.0).gigabytes
    12.0
    """

    def __init__(self, message: str, *, gigabytes: float = 0.0) -> None:
        super().__init__(message)
        self.gigabytes = gigabytes


class ResolutionWarning(UserWarning):
    """The targets do not say how z varies with x within one value of the mediator or one group.

    Attributes
    ----------
    resolution
        How much f varies there, in units of its error bar; below one.

    Examples
    --------
    >>> ResolutionWarning("the resolution is 0.5, below one.", resolution=0.5).resolution
    0.5
    """

    def __init__(self, message: str, *, resolution: float = 0.0) -> None:
        super().__init__(message)
        self.resolution = resolution
