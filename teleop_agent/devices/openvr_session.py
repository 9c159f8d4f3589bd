"""Samples of head and hands from a running OpenVR runtime."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinematics import Side

from ..clock import RealClock
from ..frame import Button, Controller, OperatorFrame, TrackedPose
from .openvr_headset import HeadsetWorn, dashboard_visible
from .openvr_startup import stop_openvr

_log = logging.getLogger(__name__)

_INDEX_CONTROLLER = "knuckles"
"""Valve's type string of the Index controllers, whose A button has the bit of a grip."""
_LONGEST_PULSE_US = 3999
"""The longest that triggerHapticPulse takes; at 90 polls a second a third of the time."""


class OpenVRSession:
    """Read one connection to the runtime; every call is made in one thread.

    Inputs come by the legacy controller state, which needs neither focus nor a binding file:
    trigger axis 1, grip axis 2, stick axis 0. A grip that is only a button (a Vive wand, or a Pico
    shown to games as one) reads 0 or 1. They count as not valid while the runtime keeps them from
    programs, such as under its dashboard: they read zero then, though poses go on.
    """

    def __init__(self, openvr: Any, system: Any) -> None:
        self._openvr = openvr
        self._system: Any = system
        self._clock = RealClock()
        self._seq = 0
        self._poses = (openvr.TrackedDevicePose_t * openvr.k_unMaxTrackedDeviceCount)()
        self._event = openvr.VREvent_t()
        self._dashboard_open = dashboard_visible(openvr)
        self._worn = HeadsetWorn(openvr)
        self._space = 0
        self._strings: dict[tuple[int, int], str] = {}
        """Properties by device index and property, while the device stays activated."""
        self._indices: dict[Side, int] = {}
        """Of the controllers that were connected at the last poll."""
        self._said: dict[Side, str] = {}
        """What the log said last of each hand."""
        self._roles = {
            Side.RIGHT: openvr.TrackedControllerRole_RightHand,
            Side.LEFT: openvr.TrackedControllerRole_LeftHand,
        }
        self._space_events = {
            int(openvr.VREvent_ChaperoneUniverseHasChanged),
            int(openvr.VREvent_SeatedZeroPoseReset),
            int(openvr.VREvent_StandingZeroPoseReset),
        }
        self._device_events = {
            int(openvr.VREvent_TrackedDeviceActivated),
            int(openvr.VREvent_TrackedDeviceDeactivated),
            int(openvr.VREvent_TrackedDeviceUpdated),
            int(openvr.VREvent_TrackedDeviceRoleChanged),
        }

    def poll(self) -> OperatorFrame | None:
        """Return the present sample, or None once the runtime asked its programs to quit."""
        if self._handle_events():
            return None
        # The runtime gives no time stamps: it computes the poses for the moment of the call.
        t_device_ns = self._clock.now_ns()
        self._read_poses()
        head = self._pose(int(self._openvr.k_unTrackedDeviceIndex_Hmd))
        available = self._inputs_available()
        controllers = {side: self._controller(side) for side in Side}
        self._worn.look(self._system)
        if self._handle_events():
            return None
        if not (available and self._inputs_available()):
            # Asked before and after: inputs that are blocked in between read zero as well, and
            # would let go of what the gripper holds.
            available = False
            controllers = {side: Controller(c.pose) for side, c in controllers.items()}
        frame = OperatorFrame(
            seq=self._seq,
            t_device_ns=t_device_ns,
            t_recv_ns=self._clock.now_ns(),
            head=head,
            controllers=controllers,
            headset_worn=self._worn.judge(available),
            space=self._space,
        )
        self._seq += 1
        return frame

    def _inputs_available(self) -> bool:
        return bool(self._system.isInputAvailable()) and not self._dashboard_open

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        """Pulse the controllers that were there at the last poll, each as long as it is strong."""
        for side, strength in strengths.items():
            index = self._indices.get(side)
            if index is not None:
                pulse = round(min(strength, 1.0) * _LONGEST_PULSE_US)
                self._system.triggerHapticPulse(index, 0, pulse)

    def close(self) -> None:
        """Drop every handle and shut OpenVR down."""
        self._system = None
        stop_openvr(self._openvr)

    def _handle_events(self) -> bool:
        """Drain the queue; return whether the runtime quits."""
        vr, event = self._openvr, self._event
        quits = False
        while self._system.pollNextEvent(event):
            kind = int(event.eventType)
            if kind == vr.VREvent_Quit:
                quits = True
            elif kind in (vr.VREvent_DashboardActivated, vr.VREvent_DashboardDeactivated):
                self._dashboard_open = kind == vr.VREvent_DashboardActivated
                state = "opened: buttons are blocked" if self._dashboard_open else "closed"
                _log.info("SteamVR's dashboard %s", state)
            elif kind in self._space_events:
                self._space += 1
                _log.info("SteamVR's play space was moved")
            elif kind in self._device_events:
                self._strings.clear()  # the event of a new role names no device: ask all again
        if quits:
            self._acknowledge_quit()
        return quits

    def _acknowledge_quit(self) -> None:
        """Tell the runtime that this program is on its way out, lest it be killed."""
        _log.warning("SteamVR is quitting")
        self._system.acknowledgeQuit_Exiting()

    def _read_poses(self) -> None:
        """Fill the one array: y up from the floor of the play space, unpredicted."""
        self._system.getDeviceToAbsoluteTrackingPose(
            self._openvr.TrackingUniverseStanding, 0.0, self._poses
        )

    def _pose(self, index: int) -> TrackedPose:
        pose = self._poses[index]
        connected = bool(pose.bDeviceIsConnected)
        return TrackedPose(
            connected=connected,
            valid=bool(pose.bPoseIsValid),
            tracked=pose.eTrackingResult == self._openvr.TrackingResult_Running_OK,
            matrix=np.ctypeslib.as_array(pose.mDeviceToAbsoluteTracking.m),
            serial=self._string(index, self._openvr.Prop_SerialNumber_String) if connected else "",
        )

    def _controller(self, side: Side) -> Controller:
        self._indices.pop(side, None)
        index = self._index(side)
        if index is None:
            return Controller()
        pose = self._pose(index)
        if not pose.connected:
            self._say_missing(side, f"the one at index {index} is not connected")
            return Controller(pose)
        self._indices[side] = index
        self._say_found(side, index, pose.serial)
        succeeded, state = self._system.getControllerState(index)
        if not succeeded:
            return Controller(pose)
        return self._with_inputs(pose, state, index)

    def _index(self, side: Side) -> int | None:
        """Return the present device index of a hand's controller, if the runtime assigned one.

        Asked at every sample: a controller that comes back may have another index, and hands may
        be swapped.
        """
        index = int(self._system.getTrackedDeviceIndexForControllerRole(self._roles[side]))
        if index >= len(self._poses):
            self._say_missing(side, "SteamVR has assigned none to this hand")
            return None
        kind = self._system.getTrackedDeviceClass(index)
        if kind != self._openvr.TrackedDeviceClass_Controller:
            self._say_missing(side, f"device {index} has this hand's role but is of class {kind}")
            return None
        return index

    def _with_inputs(self, pose: TrackedPose, state: Any, index: int) -> Controller:
        vr = self._openvr
        pressed = int(state.ulButtonPressed)

        def down(*ids: int) -> bool:
            return any(pressed >> int(bit) & 1 for bit in ids)

        grip = float(state.rAxis[2].x)
        primary = [vr.k_EButton_A]
        if self._string(index, vr.Prop_ControllerType_String) == _INDEX_CONTROLLER:
            primary.append(vr.k_EButton_IndexController_A)
        elif grip == 0.0 and down(vr.k_EButton_Grip):
            grip = 1.0
        buttons = Button.NONE
        if down(*primary):
            buttons |= Button.PRIMARY
        if down(vr.k_EButton_ApplicationMenu):
            buttons |= Button.SECONDARY
        if down(vr.k_EButton_Axis0, vr.k_EButton_IndexController_JoyStick):
            buttons |= Button.STICK
        return Controller(
            pose=pose,
            input_valid=True,
            trigger=float(state.rAxis[1].x),
            grip=grip,
            stick=(float(state.rAxis[0].x), float(state.rAxis[0].y)),
            buttons=buttons,
        )

    def _string(self, index: int, prop: int) -> str:
        """Return a string property, empty when the device has none (yet)."""
        key = (index, int(prop))
        if key not in self._strings:
            try:
                self._strings[key] = self._system.getStringTrackedDeviceProperty(index, prop)
            except (self._openvr.OpenVRError, KeyError, UnicodeDecodeError):
                return ""  # not kept: it may come a moment after the device
        return self._strings[key]

    def _say_missing(self, side: Side, why: str) -> None:
        text = f"no {side} controller: {why}; switch it on, hold it in view and move it"
        if self._said.get(side) != text:
            self._said[side] = text
            _log.warning("%s", text)

    def _say_found(self, side: Side, index: int, serial: str) -> None:
        text = f"{side} controller is {serial or 'one without a serial number'} (index {index})"
        if self._said.get(side) != text:
            self._said[side] = text
            _log.info("%s", text)
