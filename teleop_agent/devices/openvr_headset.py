"""What OpenVR says of the headset itself: whether it is worn, whether its dashboard is open."""

from typing import Any


class HeadsetWorn:
    """Tell whether the headset is on a head, as far as the runtime knows.

    The proximity sensor is the first witness, the runtime's level of activity the second. A
    witness counts once it has said yes: a driver without the sensor never sets its bit, and one
    that reports no activity is always idle.
    """

    def __init__(self, openvr: Any) -> None:
        self._headset = int(openvr.k_unTrackedDeviceIndex_Hmd)
        self._bit = 1 << int(openvr.k_EButton_ProximitySensor)
        self._active_levels = {
            int(openvr.k_EDeviceActivityLevel_UserInteraction),
            int(openvr.k_EDeviceActivityLevel_UserInteraction_Timeout),  # idle for 0.5 s: resting
        }
        self._has_sensor = self._has_level = False
        self._near = self._active = True
        self._bits: int | None = None

    def look(self, system: Any) -> None:
        """Ask both witnesses."""
        succeeded, state = system.getControllerState(self._headset)
        self._bits = int(state.ulButtonPressed) if succeeded else None
        level = system.getTrackedDeviceActivityLevel(self._headset)
        self._active = level in self._active_levels
        self._has_level = self._has_level or self._active

    def judge(self, inputs_available: bool) -> bool:
        """Return whether it was worn at the last look; True if nothing can tell.

        Without ``inputs_available`` bits read zero: the sensor has then said nothing new.
        """
        if inputs_available and self._bits is not None:
            self._near = bool(self._bits & self._bit)
            self._has_sensor = self._has_sensor or self._near
        if self._has_sensor:
            return self._near
        return self._active or not self._has_level


def dashboard_visible(openvr: Any) -> bool:
    """Return whether the dashboard is open: events tell of changes only, not of how it began.

    False for a runtime without this version of IVROverlay, for which the package would shut OpenVR
    down; then only events tell.
    """
    if not openvr.isInterfaceVersionValid(openvr.IVROverlay_Version):
        return False
    return bool(openvr.VROverlay().isDashboardVisible())
