"""Errors of this package."""


class KinematicsError(ValueError):
    """Report an invalid transform, target, model or limit; the message names the value."""


class UnknownNameError(KinematicsError):
    """Report a name that the model does not have; the message lists those it has."""
