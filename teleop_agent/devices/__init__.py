"""Input devices behind one interface."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UnknownDeviceError
from .base import Device, SceneView

if TYPE_CHECKING:
    from .sim import SimConfig

__all__ = ["DEVICES", "Device", "SceneView", "make_device"]

DEVICES = {
    "openvr": "headset and controllers through SteamVR",
    "sim": "the simulated operator",
    "trace:FILE": "a recorded device stream",
}
"""What ``make_device`` takes, and what each is."""

_TRACE_PREFIX = "trace:"


def make_device(name: str, *, seed: int = 0, sim_config: "SimConfig | None" = None) -> Device:
    """Return the device called ``name``, one of ``DEVICES``, not yet connected.

    ``seed`` and ``sim_config`` are the simulated operator's. Only the module of the device asked
    for is imported.
    """
    if name == "openvr":
        from .openvr_device import OpenVRDevice

        return OpenVRDevice()
    if name == "sim":
        from .sim import SimDevice

        return SimDevice(seed=seed, config=sim_config)
    if name.startswith(_TRACE_PREFIX) and name != _TRACE_PREFIX:
        from .trace_file import TraceDevice

        return TraceDevice(Path(name.removeprefix(_TRACE_PREFIX)).expanduser())
    raise UnknownDeviceError(f"no device is called {name!r}; choose one of {', '.join(DEVICES)}")
