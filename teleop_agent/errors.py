"""Errors of this package."""


class TeleopError(RuntimeError):
    """Report a fault of a device, a stream or a setting; the message says how to mend it."""


class RuntimeUnavailableError(TeleopError):
    """Report that the VR runtime is missing or not running; connecting later may succeed."""


class DeviceClosedError(TeleopError):
    """Report that a device ended its stream: the runtime quit, or a trace is over."""


class TraceError(TeleopError):
    """Report an unreadable or inconsistent trace file; the message names the line."""
