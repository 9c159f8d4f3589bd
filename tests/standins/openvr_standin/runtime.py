"""What a test says to the stand-in runtime, and hears from it."""

import ctypes as ct
import json
import mmap
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import openvr

from kinematics import Side
from kinematics.frames import rotation

from .layout import EVENTS, Counters, Device, Shared, World

_ROLES = {
    None: openvr.TrackedControllerRole_Invalid,
    Side.LEFT: openvr.TrackedControllerRole_LeftHand,
    Side.RIGHT: openvr.TrackedControllerRole_RightHand,
}


def pose_matrix(
    position: Sequence[float] = (0.0, 0.0, 0.0), quat_wxyz: Sequence[float] = (1.0, 0.0, 0.0, 0.0)
) -> npt.NDArray[np.float64]:
    """Return the (3, 4) matrix of a pose in m, rounded to float32 as OpenVR holds it."""
    matrix = np.column_stack([rotation(quat_wxyz).as_matrix(), position])
    return matrix.astype(np.float32).astype(np.float64)


class StandInRuntime:
    """Hold the shared file of one runtime, from ``home``; starts running, with a headset only.

    ``home`` is a folder for its files; ``library`` comes from ``build_library``. Every method may
    be called at any time and from any thread.
    """

    def __init__(self, home: Path, library: Path) -> None:
        registry = home / "openvrpaths.vrpath"
        folders = {"runtime": [str(library)], "config": [str(home)], "log": [str(home)]}
        registry.write_text(json.dumps({"version": 1, "jsonid": "vrpathreg", **folders}))
        state = home / "openvr_state"
        state.write_bytes(bytes(ct.sizeof(Shared)))
        with state.open("r+b") as file:
            self._shared = Shared.from_buffer(mmap.mmap(file.fileno(), ct.sizeof(Shared)))
        self._lock = threading.RLock()
        self.env = {"VR_PATHREG_OVERRIDE": str(registry), "OPENVR_STANDIN_STATE": str(state)}
        """What the environment of the program under test must hold."""
        with self.changing() as world:
            world.server_up = world.input_available = 1
            _fill(world.standing_from_raw, pose_matrix())
            _fill(world.standing_from_seated, pose_matrix((0.0, 1.2, 0.0)))
        self.add_device(0, openvr.TrackedDeviceClass_HMD, serial="HEADSET")
        self.move(0, pose_matrix((0.0, 1.6, 0.0)))

    @property
    def counters(self) -> Counters:
        """Return what the runtime has counted."""
        return self._shared.counters

    @contextmanager
    def changing(self) -> Iterator[World]:
        """Give the world to change; all changes inside become visible together."""
        with self._lock:
            outermost = self._shared.sequence % 2 == 0
            self._shared.sequence += outermost
            try:
                yield self._shared.world
            finally:
                self._shared.sequence += outermost

    @contextmanager
    def _device(self, index: int) -> Iterator[Device]:
        with self.changing() as world:
            yield world.devices[index]

    def add_device(self, index: int, device_class: int, serial: str, kind: str = "") -> None:
        """Connect a device, tracked at the origin, without a role."""
        with self._device(index) as device:
            device.device_class = device_class
            device.serial, device.controller_type = serial.encode(), kind.encode()
            device.connected = device.valid = 1
            device.tracking_result = openvr.TrackingResult_Running_OK
            device.activity = openvr.k_EDeviceActivityLevel_UserInteraction
            _fill(device.matrix, pose_matrix())
        self.send(openvr.VREvent_TrackedDeviceActivated, index)

    def add_controller(
        self,
        index: int,
        side: Side | None,
        matrix: npt.ArrayLike | None = None,
        serial: str = "",
        kind: str = "pico_controller",
    ) -> None:
        """Connect a controller, held by ``side`` if that is known yet."""
        serial = serial or f"CONTROLLER-{side}"
        with self.changing():
            self.add_device(index, openvr.TrackedDeviceClass_Controller, serial, kind)
            self.assign(index, side)
            self.move(index, pose_matrix() if matrix is None else matrix)

    def describe(self, index: int, model: str, battery: float = 0.0) -> None:
        """Set what the device says of itself; ``battery`` 0 .. 1, or 0 when it does not tell."""
        with self._device(index) as device:
            device.model, device.battery = model.encode(), battery

    def assign(self, index: int, side: Side | None) -> None:
        """Give the device a hand's role, or none."""
        with self._device(index) as device:
            device.role = _ROLES[side]
        self.send(openvr.VREvent_TrackedDeviceRoleChanged)

    def move(
        self, index: int, matrix: npt.ArrayLike, velocity: Sequence[float] = (0, 0, 0)
    ) -> None:
        """Put the device to a (3, 4) ``T_standing_device``, moving at ``velocity`` [m/s]."""
        with self._device(index) as device:
            _fill(device.matrix, matrix)
            device.velocity[:] = velocity

    def track(self, index: int, result: int, valid: bool) -> None:
        """Set OpenVR's tracking result and the flag of a valid pose."""
        with self._device(index) as device:
            device.tracking_result, device.valid = result, valid

    def set_inputs(
        self,
        index: int,
        *,
        pressed: Iterable[int] = (),
        trigger: float = 0.0,
        grip: float = 0.0,
        stick: Sequence[float] = (0.0, 0.0),
    ) -> None:
        """Set all inputs: OpenVR's button ids, the rest as in ``Controller``."""
        with self._device(index) as device:
            device.pressed = sum(1 << int(button) for button in pressed)
            device.axes[0][:] = stick
            device.axes[1][0] = trigger
            device.axes[2][0] = grip
            device.packet += 1

    def disconnect(self, index: int) -> None:
        """Switch the device off; its role stays with it."""
        with self._device(index) as device:
            device.connected = device.valid = 0
            device.tracking_result = openvr.TrackingResult_Running_OutOfRange
        self.send(openvr.VREvent_TrackedDeviceDeactivated, index)

    def connect(self, index: int) -> None:
        """Switch the device on again under its old index."""
        with self._device(index) as device:
            device.connected = device.valid = 1
            device.tracking_result = openvr.TrackingResult_Running_OK
        self.send(openvr.VREvent_TrackedDeviceActivated, index)

    def wear_headset(self, near: bool, activity: int) -> None:
        """Set what tells whether the headset is worn: the sensor's bit and the activity level."""
        self.set_inputs(0, pressed=[openvr.k_EButton_ProximitySensor] if near else [])
        with self._device(0) as device:
            device.activity = activity

    def open_dashboard(self, is_open: bool) -> None:
        """Open or close the dashboard: inputs read zero under it, poses go on."""
        with self.changing() as world:
            world.dashboard_open = is_open
        opened, closed = openvr.VREvent_DashboardActivated, openvr.VREvent_DashboardDeactivated
        self.send(opened if is_open else closed)

    def send(self, kind: int, index: int = openvr.k_unTrackedDeviceIndexInvalid) -> None:
        """Queue an event, about no device by default."""
        with self.changing() as world:
            event = world.events[world.events_sent % EVENTS]
            event.kind, event.device = kind, index
            world.events_sent += 1

    def quit(self) -> None:
        """Ask every program to leave, as SteamVR does when it closes."""
        self.send(openvr.VREvent_Quit)


def _fill(target: ct.Array, matrix: npt.ArrayLike) -> None:
    """Copy a (3, 4) matrix into memory of the same shape."""
    np.ctypeslib.as_array(target)[:] = matrix
