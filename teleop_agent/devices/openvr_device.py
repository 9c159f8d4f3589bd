"""Headset and controllers through SteamVR."""

from dataclasses import dataclass

from .openvr_session import OpenVRSession
from .openvr_startup import start_openvr, stop_openvr
from .thread import FrameSource, ThreadedDevice


@dataclass(frozen=True, slots=True)
class OpenVRConfig:
    """Set how the runtime is read."""

    poll_hz: int = 90
    """Samples a second: the highest rate of a Pico stream. SteamVR computes each pose for the
    moment of the call, so polling faster yields extrapolations, not measurements."""
    ring_frames: int = 1024
    """Frames kept for a reader that is busy: 11 s at 90 Hz, more than saving an episode takes."""

    def __post_init__(self) -> None:
        if not 1 <= self.poll_hz <= 1000:
            raise ValueError(f"poll_hz must be 1 to 1000, got {self.poll_hz}")
        if self.ring_frames < 1:
            raise ValueError(f"ring_frames must be at least 1, got {self.ring_frames}")


class OpenVRDevice(ThreadedDevice):
    """Publish every poll of SteamVR's poses and inputs, changed or not.

    Poses are ``T_tracking_device`` in the standing universe: origin on the floor of the play
    space, y up, -z forward, m. An unchanged sample is published too: that it did not change is
    what tells a frozen controller from a stuck program, and the guard is the one to judge.

    One thread makes every call, the first and the last included. One such device can be
    connected in a process at a time.
    """

    def __init__(self, config: OpenVRConfig | None = None) -> None:
        config = config or OpenVRConfig()
        super().__init__("SteamVR", config.poll_hz, config.ring_frames)

    def _open(self) -> FrameSource:
        openvr, system = start_openvr()
        try:
            return OpenVRSession(openvr, system)
        except BaseException:
            stop_openvr(openvr)
            raise
