"""Wrong adapters, each of which must fail the check that is there to catch it."""

from collections.abc import Callable

import numpy as np
import openvr
import pytest
from openvr_standin import StandInRuntime, pose_matrix
from watching import error_of, frame_after

from kinematics import Side
from teleop_agent.devices import openvr_device
from teleop_agent.devices.openvr_device import OpenVRConfig, OpenVRDevice
from teleop_agent.devices.openvr_session import OpenVRSession
from teleop_agent.errors import DeviceClosedError
from teleop_agent.frame import OperatorFrame, TrackedPose

Check = Callable[[StandInRuntime], None]

FAST = OpenVRConfig(poll_hz=500)
POSE = pose_matrix((0.2, 1.1, -0.4), (0.8, 0.6, 0.0, 0.0))


def check_universe_and_time(runtime: StandInRuntime) -> None:
    """Poses are of the standing universe, whatever the others' origins, and not predicted."""
    with runtime.changing() as world:
        world.standing_from_raw[1][3] = 0.8
        world.standing_from_seated[1][3] = 1.2
        runtime.add_controller(1, Side.RIGHT)
        runtime.move(1, POSE, velocity=(1.0, 0.0, 0.0))
    with OpenVRDevice(FAST) as device:
        frame = frame_after(device, lambda f: f.controllers[Side.RIGHT].pose.connected)
    np.testing.assert_array_equal(frame.controllers[Side.RIGHT].pose.matrix, POSE)


def check_index_and_class(runtime: StandInRuntime) -> None:
    """A hand is what has its role now, if that is a controller."""
    runtime.add_device(1, openvr.TrackedDeviceClass_GenericTracker, "TRACKER")
    runtime.assign(1, Side.LEFT)
    runtime.add_controller(2, Side.RIGHT, serial="FIRST")
    with OpenVRDevice(FAST) as device:
        frame = frame_after(device, lambda f: f.controllers[Side.RIGHT].pose.connected)
        assert not frame.controllers[Side.LEFT].pose.connected
        runtime.disconnect(2)
        frame_after(device, lambda f: not f.controllers[Side.RIGHT].pose.connected)
        runtime.add_controller(3, Side.RIGHT, POSE, serial="SECOND")
        frame = frame_after(device, lambda f: f.controllers[Side.RIGHT].pose.serial == "SECOND")
        np.testing.assert_array_equal(frame.controllers[Side.RIGHT].pose.matrix, POSE)


def check_blocked_inputs(runtime: StandInRuntime) -> None:
    """Inputs are not valid under the dashboard, and poses go on."""
    runtime.add_controller(1, Side.RIGHT)
    runtime.set_inputs(1, grip=1.0)
    with OpenVRDevice(FAST) as device:
        frame_after(device, lambda f: f.controllers[Side.RIGHT].grip == 1.0)
        runtime.open_dashboard(True)
        runtime.move(1, POSE)
        moved = frame_after(device, lambda f: f.controllers[Side.RIGHT].pose.matrix[0, 3] > 0.1)
        assert not moved.controllers[Side.RIGHT].input_valid
        assert moved.controllers[Side.RIGHT].grip == 0.0
        runtime.open_dashboard(False)
        frame_after(device, lambda f: f.controllers[Side.RIGHT].grip == 1.0)


def check_tracking_result(runtime: StandInRuntime) -> None:
    """A pose that the runtime still calls valid is not tracked once the cameras lost it."""
    runtime.add_controller(1, Side.RIGHT)
    runtime.track(1, openvr.TrackingResult_Running_OutOfRange, valid=True)
    with OpenVRDevice(FAST) as device:
        frame = frame_after(device, lambda f: f.controllers[Side.RIGHT].pose.connected)
    assert not frame.controllers[Side.RIGHT].pose.tracked


def check_quit(runtime: StandInRuntime) -> None:
    """A request to quit is acknowledged once, and OpenVR is shut down before close."""
    with OpenVRDevice(FAST) as device:
        frame_after(device, lambda f: True)
        runtime.quit()
        error_of(device, DeviceClosedError)
        counters = runtime.counters
        assert (counters.quit_acknowledgements, counters.cleanups) == (1, 1)


CHECKS: tuple[Check, ...] = (
    check_universe_and_time,
    check_index_and_class,
    check_blocked_inputs,
    check_tracking_result,
    check_quit,
)


class RawUniverse(OpenVRSession):
    """Read the driver's own frame."""

    def _read_poses(self) -> None:
        universe = openvr.TrackingUniverseRawAndUncalibrated
        self._system.getDeviceToAbsoluteTrackingPose(universe, 0.0, self._poses)


class SeatedUniverse(OpenVRSession):
    """Read relative to the seated zero."""

    def _read_poses(self) -> None:
        universe = openvr.TrackingUniverseSeated
        self._system.getDeviceToAbsoluteTrackingPose(universe, 0.0, self._poses)


class Predicted(OpenVRSession):
    """Read where devices will be when the picture is shown."""

    def _read_poses(self) -> None:
        universe = openvr.TrackingUniverseStanding
        self._system.getDeviceToAbsoluteTrackingPose(universe, 0.03, self._poses)


class StaleIndex(OpenVRSession):
    """Look the index up once."""

    def _index(self, side: Side) -> int | None:
        kept = self.__dict__.setdefault("kept", {})
        if kept.get(side) is None:
            kept[side] = super()._index(side)
        return kept[side]


class AnyClass(OpenVRSession):
    """Take whatever has the role for a hand."""

    def _index(self, side: Side) -> int | None:
        index = self._system.getTrackedDeviceIndexForControllerRole(self._roles[side])
        return index if index < len(self._poses) else None


class DeafToTheDashboard(OpenVRSession):
    """Take zeros under the dashboard for released buttons."""

    def _inputs_available(self) -> bool:
        return True


class TrustingValid(OpenVRSession):
    """Take a valid pose for a tracked one."""

    def _pose(self, index: int) -> TrackedPose:
        pose = super()._pose(index)
        return TrackedPose(pose.connected, pose.valid, pose.valid, pose.matrix, pose.serial)


class SilentQuit(OpenVRSession):
    """Leave without a word."""

    def _acknowledge_quit(self) -> None:
        pass


class DeafToQuit(OpenVRSession):
    """Acknowledge and stay."""

    def poll(self) -> OperatorFrame | None:
        return super().poll() or super().poll()


MUTANTS: dict[type[OpenVRSession], Check] = {
    RawUniverse: check_universe_and_time,
    SeatedUniverse: check_universe_and_time,
    Predicted: check_universe_and_time,
    StaleIndex: check_index_and_class,
    AnyClass: check_index_and_class,
    DeafToTheDashboard: check_blocked_inputs,
    TrustingValid: check_tracking_result,
    SilentQuit: check_quit,
    DeafToQuit: check_quit,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_adapter_passes(check: Check, runtime: StandInRuntime) -> None:
    check(runtime)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_wrong_adapter_is_caught(
    mutant: type[OpenVRSession], runtime: StandInRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvr_device, "OpenVRSession", mutant)
    monkeypatch.setattr("watching.DEADLINE_S", 0.5)
    with pytest.raises(AssertionError):
        MUTANTS[mutant](runtime)
