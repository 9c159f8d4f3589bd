"""Errors of this package."""


class EpisodesError(RuntimeError):
    """Report a fault of a recording or of its files; the message says what, where and the fix."""


class RecordError(EpisodesError, ValueError):
    """Report a record that cannot be stored as it is; the message names the field."""


class RunError(EpisodesError):
    """Report a run folder that cannot take these episodes; the message gives the reason."""


class WriteError(EpisodesError):
    """Report an episode that did not reach the disk; it is still in memory and can be retried."""


class FileFormatError(EpisodesError):
    """Report a file that is not a complete episode of a known schema; names the first fault."""


class ReplayError(EpisodesError):
    """Report a replay that cannot be started; the message says which mode still can."""


class MissingExtraError(EpisodesError, ImportError):
    """Report that an optional package is missing; the message names the extra to install."""


class ExportError(EpisodesError):
    """Report an export that cannot be written; the message says where and what to do."""
