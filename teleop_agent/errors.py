"""Errors of this package."""


class TeleopError(RuntimeError):
    """Report a fault of a device, a stream or a setting; the message says how to mend it."""


class UnknownDeviceError(TeleopError):
    """Report a device name that no device answers to; the message lists the valid ones."""


class RuntimeUnavailableError(TeleopError):
    """Report that the VR runtime is missing or not running; connecting later may succeed."""

    def __init__(self, message: str, *, waiting_helps: bool = True) -> None:
        super().__init__(message)
        self.waiting_helps = waiting_helps
        """Whether it may still come up; False when something must be installed first."""


class DeviceClosedError(TeleopError):
    """Report that a device ended its stream: the runtime quit, or a trace is over."""


class DeviceFailedError(TeleopError):
    """Report that a device's thread stopped by an error, which is the cause of this one."""


class TraceError(TeleopError):
    """Report an unreadable or inconsistent trace file; the message names the line."""
