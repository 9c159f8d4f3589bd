"""The OpenVR device against the stand-in runtime: values, hands, losses, inputs, ends."""

import itertools
import logging
import time
from collections.abc import Iterator

import numpy as np
import openvr
import pytest
from openvr_standin import Player, StandInRuntime, find_served, pose_matrix
from watching import error_of, frame_after, frames_until

from kinematics import Side
from teleop_agent.clock import RealClock
from teleop_agent.devices import openvr_device
from teleop_agent.devices.openvr_device import OpenVRConfig, OpenVRDevice
from teleop_agent.devices.openvr_session import OpenVRSession
from teleop_agent.errors import DeviceClosedError, DeviceFailedError, TeleopError
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose

FAST = OpenVRConfig(poll_hz=500)
ACTIVE = openvr.k_EDeviceActivityLevel_UserInteraction
IDLE = openvr.k_EDeviceActivityLevel_Idle
STANDBY = openvr.k_EDeviceActivityLevel_Standby
LEFT_POSE = pose_matrix((-0.2, 1.1, -0.4), (0.8, 0.0, 0.6, 0.0))
RIGHT_POSE = pose_matrix((0.2, 1.0, -0.5), (0.6, 0.8, 0.0, 0.0))


@pytest.fixture
def device(runtime: StandInRuntime) -> Iterator[OpenVRDevice]:
    """Return a connected device; the runtime has no controller yet."""
    with OpenVRDevice(FAST) as device:
        yield device


def both_connected(frame: OperatorFrame) -> bool:
    return all(controller.pose.connected for controller in frame.controllers.values())


def add_both(runtime: StandInRuntime, left: int = 3, right: int = 5) -> None:
    runtime.add_controller(left, Side.LEFT, LEFT_POSE, serial="L1")
    runtime.add_controller(right, Side.RIGHT, RIGHT_POSE, serial="R1")


def test_poses_are_the_bits_that_the_runtime_serves(
    runtime: StandInRuntime, device: OpenVRDevice
) -> None:
    add_both(runtime)
    frame = frame_after(device, both_connected)
    left, right = frame.controllers[Side.LEFT].pose, frame.controllers[Side.RIGHT].pose
    np.testing.assert_array_equal(left.matrix, LEFT_POSE)
    np.testing.assert_array_equal(right.matrix, RIGHT_POSE)
    np.testing.assert_array_equal(frame.head.matrix, pose_matrix((0.0, 1.6, 0.0)))
    assert (left.serial, right.serial, frame.head.serial) == ("L1", "R1", "HEADSET")
    assert all(pose.valid and pose.tracked for pose in (left, right, frame.head))
    assert runtime.counters.application_type == openvr.VRApplication_Background


def test_times_enclose_the_call(runtime: StandInRuntime) -> None:
    clock = RealClock()
    before_ns = clock.now_ns()
    with OpenVRDevice(FAST) as device:
        frame = frames_until(device, lambda frame: frame.seq == 5)[-1]
    assert before_ns < frame.t_device_ns <= frame.t_recv_ns < clock.now_ns()


@pytest.mark.parametrize(
    ("pressed", "buttons"),
    [
        ([openvr.k_EButton_A], Button.PRIMARY),
        ([openvr.k_EButton_ApplicationMenu], Button.SECONDARY),
        ([openvr.k_EButton_SteamVR_Touchpad], Button.STICK),
        ([openvr.k_EButton_IndexController_JoyStick], Button.STICK),
        ([openvr.k_EButton_A, openvr.k_EButton_ApplicationMenu], Button.PRIMARY | Button.SECONDARY),
        ([openvr.k_EButton_System, openvr.k_EButton_SteamVR_Trigger], Button.NONE),
    ],
)
@pytest.mark.parametrize("side", list(Side))
def test_buttons_read_alike_on_both_hands(
    runtime: StandInRuntime,
    device: OpenVRDevice,
    side: Side,
    pressed: list[int],
    buttons: Button,
) -> None:
    runtime.add_controller(1, side)
    runtime.set_inputs(1, pressed=pressed, trigger=0.25)
    frame = frame_after(device, lambda frame: frame.controllers[side].trigger == 0.25)
    assert frame.controllers[side].buttons == buttons
    assert frame.controllers[side.other].buttons == Button.NONE


def test_axes_are_trigger_grip_and_stick(runtime: StandInRuntime, device: OpenVRDevice) -> None:
    runtime.add_controller(1, Side.RIGHT)
    runtime.set_inputs(1, trigger=0.25, grip=0.75, stick=(-0.5, 1.0))
    frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].input_valid)
    frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].trigger > 0)
    right = frame.controllers[Side.RIGHT]
    assert (right.trigger, right.grip, right.stick) == (0.25, 0.75, (-0.5, 1.0))


@pytest.mark.parametrize(
    ("kind", "axis", "grip", "buttons"),
    [
        ("vive_controller", 0.0, 1.0, Button.NONE),  # a grip that is only a button
        ("pico_controller", 0.75, 0.75, Button.NONE),  # the bit adds nothing to an axis
        ("knuckles", 0.0, 0.0, Button.PRIMARY),  # the Index has its A on that bit
    ],
)
def test_the_bit_of_the_grip(
    runtime: StandInRuntime,
    device: OpenVRDevice,
    kind: str,
    axis: float,
    grip: float,
    buttons: Button,
) -> None:
    runtime.add_controller(1, Side.LEFT, kind=kind)
    runtime.set_inputs(1, pressed=[openvr.k_EButton_Grip], grip=axis, trigger=1.0)
    left = frame_after(device, lambda frame: frame.controllers[Side.LEFT].trigger > 0)
    assert left.controllers[Side.LEFT].grip == grip
    assert left.controllers[Side.LEFT].buttons == buttons


def test_hands_without_a_role_are_waited_for_and_named(
    runtime: StandInRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runtime.add_controller(1, None, LEFT_POSE, serial="L1")
    runtime.add_controller(2, None, RIGHT_POSE, serial="R1")
    with OpenVRDevice(FAST) as device:
        frames = frames_until(device, lambda frame: frame.seq > 20)
        assert not any(frame.controllers[side].pose.connected for frame in frames for side in Side)
        assert "no left controller" in caplog.text
        assert "no right controller" in caplog.text
        assert len(caplog.records) == 2  # said once, not at every poll

        runtime.assign(2, Side.RIGHT)
        frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].pose.connected)
        assert not frame.controllers[Side.LEFT].pose.connected
        assert "right controller is R1 (index 2)" in caplog.text

        runtime.assign(1, Side.LEFT)
        frame = frame_after(device, both_connected)
        np.testing.assert_array_equal(frame.controllers[Side.LEFT].pose.matrix, LEFT_POSE)


@pytest.mark.parametrize(("left", "right"), [(1, 2), (2, 1), (9, 4)])
def test_hands_follow_roles_not_indices(
    runtime: StandInRuntime, device: OpenVRDevice, left: int, right: int
) -> None:
    add_both(runtime, left, right)
    frame = frame_after(device, both_connected)
    assert frame.controllers[Side.LEFT].pose.serial == "L1"
    np.testing.assert_array_equal(frame.controllers[Side.LEFT].pose.matrix, LEFT_POSE)
    np.testing.assert_array_equal(frame.controllers[Side.RIGHT].pose.matrix, RIGHT_POSE)


def test_swapped_roles_swap_everything(runtime: StandInRuntime, device: OpenVRDevice) -> None:
    add_both(runtime, left=1, right=2)
    runtime.set_inputs(2, grip=1.0)
    frame_after(device, both_connected)
    with runtime.changing():
        runtime.assign(1, Side.RIGHT)
        runtime.assign(2, Side.LEFT)
    frame = frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.serial == "R1")
    frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].pose.serial == "L1")
    np.testing.assert_array_equal(frame.controllers[Side.LEFT].pose.matrix, RIGHT_POSE)
    assert (frame.controllers[Side.LEFT].grip, frame.controllers[Side.RIGHT].grip) == (1.0, 0.0)


def test_a_tracker_is_no_hand(
    runtime: StandInRuntime, device: OpenVRDevice, caplog: pytest.LogCaptureFixture
) -> None:
    runtime.add_device(4, openvr.TrackedDeviceClass_GenericTracker, "TRACKER")
    runtime.assign(4, Side.LEFT)
    runtime.add_controller(5, Side.RIGHT)
    frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].pose.connected)
    assert not frame.controllers[Side.LEFT].pose.connected
    assert "device 4 has this hand's role" in caplog.text


@pytest.mark.parametrize(
    ("result", "valid"),
    [
        (openvr.TrackingResult_Running_OutOfRange, False),
        (openvr.TrackingResult_Running_OutOfRange, True),
        (openvr.TrackingResult_Fallback_RotationOnly, True),
        (openvr.TrackingResult_Calibrating_InProgress, True),
    ],
)
def test_a_lost_controller_is_connected_but_not_tracked(
    runtime: StandInRuntime, device: OpenVRDevice, result: int, valid: bool
) -> None:
    add_both(runtime)
    frame_after(device, both_connected)
    runtime.track(3, result, valid)
    frame = frame_after(device, lambda frame: not frame.controllers[Side.LEFT].pose.tracked)
    left = frame.controllers[Side.LEFT].pose
    assert left.connected
    assert left.valid == valid
    assert frame.controllers[Side.RIGHT].pose.tracked
    np.testing.assert_array_equal(left.matrix, LEFT_POSE)  # as the runtime gave it


def test_a_controller_comes_back_under_another_index(
    runtime: StandInRuntime, device: OpenVRDevice, caplog: pytest.LogCaptureFixture
) -> None:
    add_both(runtime)
    runtime.set_inputs(3, grip=1.0)
    frame_after(device, lambda frame: frame.controllers[Side.LEFT].grip == 1.0)
    runtime.disconnect(3)
    frame = frame_after(device, lambda frame: not frame.controllers[Side.LEFT].pose.connected)
    left = frame.controllers[Side.LEFT]
    assert not left.pose.valid
    assert not left.pose.matrix.any()
    assert (left.input_valid, left.grip) == (False, 0.0)
    assert "no left controller: the one at index 3 is not connected" in caplog.text

    moved = pose_matrix((-0.3, 1.2, -0.4))
    runtime.add_controller(7, Side.LEFT, moved, serial="L1")
    frame = frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.connected)
    np.testing.assert_array_equal(frame.controllers[Side.LEFT].pose.matrix, moved)


def test_serials_belong_to_the_activation(runtime: StandInRuntime, device: OpenVRDevice) -> None:
    runtime.add_controller(1, Side.LEFT, serial="OLD")
    frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.serial == "OLD")
    runtime.disconnect(1)
    runtime.add_controller(1, Side.LEFT, serial="NEW")
    frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.serial == "NEW")


def test_a_late_serial_is_picked_up(runtime: StandInRuntime, device: OpenVRDevice) -> None:
    with runtime.changing() as world:
        runtime.add_controller(1, Side.LEFT)
        world.devices[1].serial = b""
    frame = frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.connected)
    assert frame.controllers[Side.LEFT].pose.serial == ""
    with runtime.changing() as world:
        world.devices[1].serial = b"LATE"
    frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.serial == "LATE")


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 4)),
        np.eye(3, 4),
        np.full((3, 4), np.nan),
        np.diag([1.0, 1.0, -1.0, 0.0])[:3],
        1.2 * np.eye(3, 4),
    ],
    ids=["zero", "identity", "nan", "mirrored", "scaled"],
)
def test_a_wrong_matrix_passes_untouched_to_the_guard(
    runtime: StandInRuntime, device: OpenVRDevice, matrix: np.ndarray
) -> None:
    runtime.add_controller(1, Side.LEFT, matrix)
    frame = frame_after(device, lambda frame: frame.controllers[Side.LEFT].pose.connected)
    served = matrix.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(frame.controllers[Side.LEFT].pose.matrix, served)
    assert frame.controllers[Side.LEFT].pose.valid


def test_blocked_inputs_are_not_a_release(runtime: StandInRuntime, device: OpenVRDevice) -> None:
    runtime.add_controller(1, Side.RIGHT)
    runtime.set_inputs(1, grip=1.0, trigger=1.0)
    frame_after(device, lambda frame: frame.controllers[Side.RIGHT].grip == 1.0)
    with runtime.changing() as world:
        world.input_available = 0
    frame = frame_after(device, lambda frame: not frame.controllers[Side.RIGHT].input_valid)
    right = frame.controllers[Side.RIGHT]
    assert (right.grip, right.trigger, right.buttons) == (0.0, 0.0, Button.NONE)
    assert right.pose.tracked
    with runtime.changing() as world:
        world.input_available = 1
    frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].input_valid)
    assert frame.controllers[Side.RIGHT].grip == 1.0


@pytest.mark.parametrize(
    ("sensor", "levels"),
    [
        (True, [ACTIVE, ACTIVE, ACTIVE]),  # the sensor alone tells, carried in the hand or not
        (False, [ACTIVE, STANDBY, ACTIVE]),  # no sensor: a headset at rest is off the head
    ],
)
def test_a_headset_taken_off_and_put_on(
    runtime: StandInRuntime, sensor: bool, levels: list[int]
) -> None:
    runtime.wear_headset(near=sensor, activity=levels[0])
    with OpenVRDevice(FAST) as device:
        assert frame_after(device, lambda frame: frame.seq > 5).headset_worn
        runtime.wear_headset(near=False, activity=levels[1])
        frame_after(device, lambda frame: not frame.headset_worn)
        runtime.wear_headset(near=sensor, activity=levels[2])
        frame_after(device, lambda frame: frame.headset_worn)


def test_a_worn_headset_stays_worn_under_the_dashboard(
    runtime: StandInRuntime, device: OpenVRDevice
) -> None:
    runtime.add_controller(1, Side.RIGHT)
    runtime.wear_headset(near=True, activity=ACTIVE)
    frame_after(device, lambda frame: frame.controllers[Side.RIGHT].input_valid)
    runtime.open_dashboard(True)
    blocked = frame_after(device, lambda frame: not frame.controllers[Side.RIGHT].input_valid)
    assert frame_after(device, lambda frame: frame.seq > blocked.seq + 5).headset_worn


@pytest.mark.parametrize("call", range(3))
def test_a_dashboard_that_opens_in_the_middle_of_a_poll_lets_nothing_go(
    runtime: StandInRuntime, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """It blocks the inputs before the first hand's, the second's or the headset's are read."""
    read, calls = openvr.IVRSystem.getControllerState, itertools.count(-30)

    def racing(system: openvr.IVRSystem, index: int) -> object:
        if next(calls) == call:
            runtime.open_dashboard(True)
        return read(system, index)

    monkeypatch.setattr(openvr.IVRSystem, "getControllerState", racing)
    for index, side in enumerate(Side, start=1):
        runtime.add_controller(index, side)
        runtime.set_inputs(index, grip=1.0, trigger=1.0)
    runtime.wear_headset(near=True, activity=ACTIVE)
    with OpenVRDevice(FAST) as device:
        frames = frames_until(device, lambda frame: frame.seq > 15)
    assert not frames[-1].controllers[Side.RIGHT].input_valid
    for frame in frames:
        assert frame.headset_worn
        for hand in frame.controllers.values():
            assert (hand.grip, hand.trigger) == ((1.0, 1.0) if hand.input_valid else (0.0, 0.0))


@pytest.mark.parametrize("level", [openvr.k_EDeviceActivityLevel_Unknown, IDLE, STANDBY])
def test_a_headset_that_never_tells_counts_as_worn(runtime: StandInRuntime, level: int) -> None:
    runtime.wear_headset(near=False, activity=level)
    with OpenVRDevice(FAST) as device:
        frames = frames_until(device, lambda frame: frame.seq > 5)
    assert all(frame.headset_worn for frame in frames)


def test_a_dashboard_that_was_open_from_the_start_blocks_inputs(runtime: StandInRuntime) -> None:
    runtime.add_controller(1, Side.RIGHT)
    runtime.open_dashboard(True)  # its event came before the program did
    with OpenVRDevice(FAST) as device:
        frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].pose.connected)
        assert not frame.controllers[Side.RIGHT].input_valid
        runtime.open_dashboard(False)
        frame_after(device, lambda frame: frame.controllers[Side.RIGHT].input_valid)


@pytest.mark.parametrize(
    "event",
    [
        openvr.VREvent_ChaperoneUniverseHasChanged,
        openvr.VREvent_SeatedZeroPoseReset,
        openvr.VREvent_StandingZeroPoseReset,
    ],
)
def test_moves_of_the_play_space_are_counted(
    runtime: StandInRuntime, device: OpenVRDevice, event: int
) -> None:
    before = frame_after(device, lambda frame: frame.seq > 2)
    runtime.send(event)
    frame = frame_after(device, lambda frame: frame.space != before.space)
    assert (before.space, frame.space) == (0, 1)
    runtime.send(openvr.VREvent_ChaperoneDataHasChanged)  # bounds, which move nothing
    assert frame_after(device, lambda later: later.seq > frame.seq + 5).space == 1


def test_a_failed_state_call_gives_no_inputs(
    runtime: StandInRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvr.IVRSystem, "getControllerState", lambda system, index: (0, None))
    runtime.add_controller(1, Side.RIGHT)
    runtime.set_inputs(1, grip=1.0)
    with OpenVRDevice(FAST) as device:
        frame = frame_after(device, lambda frame: frame.controllers[Side.RIGHT].pose.connected)
    right = frame.controllers[Side.RIGHT]
    assert (right.input_valid, right.grip) == (False, 0.0)


def test_quit_ends_the_stream_after_its_last_frame(runtime: StandInRuntime) -> None:
    with OpenVRDevice(FAST) as device:
        first = frames_until(device, lambda frame: frame.seq >= 3)
        runtime.quit()
        rest, error = error_of(device, DeviceClosedError)
        frames = first + rest
        assert [frame.seq for frame in frames] == list(range(len(frames)))
        with pytest.raises(DeviceClosedError, match="SteamVR has ended"):
            device.read(RealClock().now_ns())
    assert "SteamVR has ended" in str(error)
    counters = runtime.counters
    assert (counters.quit_acknowledgements, counters.inits, counters.cleanups) == (1, 1, 1)


def test_an_error_in_the_thread_reaches_the_reader(
    runtime: StandInRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(OpenVRSession):
        def _read_poses(self) -> None:
            if self._seq == 3:
                raise OSError("the pipe to vrserver broke")
            super()._read_poses()

    monkeypatch.setattr(openvr_device, "OpenVRSession", Dying)
    with OpenVRDevice(FAST) as device:
        frames, error = error_of(device, DeviceFailedError)
    assert [frame.seq for frame in frames] == [0, 1, 2]
    assert isinstance(error.__cause__, OSError)
    assert "the pipe to vrserver broke" in str(error)
    assert runtime.counters.cleanups == 1


def test_after_close_there_is_nothing_to_read(runtime: StandInRuntime) -> None:
    device = OpenVRDevice(FAST)
    with pytest.raises(DeviceClosedError, match="not connected"):
        device.read(0)
    for connections in (1, 2, 3):
        device.connect()
        assert frames_until(device, lambda frame: True)[0].seq == 0
        device.close()
        device.close()
        with pytest.raises(DeviceClosedError, match="not connected"):
            device.read(RealClock().now_ns())
        assert runtime.counters.inits == runtime.counters.cleanups == connections


def test_one_connection_a_process(runtime: StandInRuntime, device: OpenVRDevice) -> None:
    with pytest.raises(TeleopError, match="already connected"):
        device.connect()
    second = OpenVRDevice(FAST)
    with pytest.raises(TeleopError, match="already in use in this process"):
        second.connect()
    device.close()
    second.connect()
    second.close()


@pytest.mark.parametrize("values", [{"poll_hz": 0}, {"poll_hz": 1001}, {"ring_frames": 0}])
def test_a_wrong_setting_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        OpenVRConfig(**values)


def test_what_is_recorded_was_served(runtime: StandInRuntime) -> None:
    stream = [_moving(number) for number in range(45)]
    with OpenVRDevice() as device, Player(runtime, stream) as player:
        last = player.served[0].controllers[Side.RIGHT].trigger + 44 / 64
        frames = frames_until(device, lambda f: f.controllers[Side.RIGHT].trigger == last)
    bound = [frame for frame in frames if both_connected(frame)]
    found = find_served(bound, player.served)
    assert len(set(found)) > 30  # of 45 at the same rate; the rest fell between two polls
    assert found[-1] == 44


def _moving(number: int) -> OperatorFrame:
    pose = TrackedPose(True, True, True, pose_matrix((0.01 * number, 1.0, 1 / 3)))
    controller = Controller(pose, True, trigger=number / 64)
    t_ns = number * 11_111_111
    return OperatorFrame(number, t_ns, t_ns, pose, dict.fromkeys(Side, controller))


def test_vibrations_are_pulses_of_the_hands_own_controller(
    runtime: StandInRuntime, device: OpenVRDevice
) -> None:
    """As long as they are strong; not of one that has gone, and not after the last word."""
    add_both(runtime)
    frame_after(device, both_connected)
    device.vibrate({Side.RIGHT: 0.5, Side.LEFT: 0.0})
    time.sleep(0.05)
    assert runtime.counters.haptic_pulses[5] > 3
    assert runtime.counters.haptic_us[5] == 2000
    assert runtime.counters.haptic_pulses[3] == 0
    runtime.disconnect(5)
    frame_after(device, lambda frame: not frame.controllers[Side.RIGHT].pose.connected)
    pulses = runtime.counters.haptic_pulses[5]
    device.vibrate({Side.RIGHT: 1.0, Side.LEFT: 1.0})
    time.sleep(0.25)
    assert runtime.counters.haptic_pulses[5] == pulses
    assert runtime.counters.haptic_us[3] == 3999
    left = runtime.counters.haptic_pulses[3]
    time.sleep(0.05)
    assert runtime.counters.haptic_pulses[3] == left
