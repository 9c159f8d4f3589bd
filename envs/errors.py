"""Errors of this package."""


class EnvError(RuntimeError):
    """Report a misuse or a fault of an environment; the message says how to mend it."""


class OptionError(EnvError, ValueError):
    """Report an option value that does not exist; the message lists those that do."""


class ActionError(EnvError, ValueError):
    """Report an action that cannot be executed; the message names the entry."""


class StateError(EnvError, ValueError):
    """Report a stored state that does not fit this environment."""


class ModelError(EnvError):
    """Report a fault in the composition of models."""


class RenderingError(EnvError):
    """Report a picture that cannot be drawn: size, camera, data, thread or closed renderer."""


class RenderingUnavailableError(RenderingError):
    """Report that no OpenGL is to be had; the message names the package to install."""


class ViewerError(EnvError):
    """Report that the viewer's window cannot be opened."""
