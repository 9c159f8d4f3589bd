"""One hand's stream: guarded, filtered, and the state of its clutch and gripper."""

import math
from collections import Counter

from kinematics import Side
from kinematics.frames import Array

from .clutch import GripOffset
from .config import TeleopConfig
from .dials import Dials
from .facing import Facing
from .frame import Button, Controller, OperatorFrame
from .gripper import TriggerGrip
from .guard import PoseGuard, Sample
from .reasons import PASSING, HandState, Reason

_POSES_GO_ON = (Reason.INPUT_INVALID, Reason.HEADSET_OFF, Reason.NO_FACING)
"""Reasons to hold that leave the pose stream sound."""


class HandTracker:
    """Take every sample of one arm's controller and decide whether its hand moves the arm.

    ``engagement`` counts engagements, so that a quick release and squeeze between two control
    steps is seen as a new one.
    """

    def __init__(self, side: Side, config: TeleopConfig, facing: Facing) -> None:
        self.side = side
        self.controller = config.controller(side)
        self._config = config
        self._facing = facing
        self._guard = PoseGuard(config.guard)
        self._filter = config.make_filter()
        self._offset = GripOffset(config.clutch)
        self.gripper = TriggerGrip(config.gripper)
        self.dials = Dials(config.dials, config.clutch)
        self.counts: Counter[Reason] = Counter()
        self.state, self.reason = HandState.HELD, Reason.NO_SAMPLE
        self.engagement = 0
        self._frame_ns = 0
        self.fine = False
        self.trigger = self.grip = 0.0
        self.sample_ns: int | None = None
        self.t_device_ns: int | None = None
        self.t_recv_ns: int | None = None

    state: HandState
    reason: Reason | None
    """Why the hand is held; None in every other state."""

    @property
    def engaged(self) -> bool:
        """Return whether the arm follows the hand."""
        return self.state is HandState.ENGAGED

    def estimate(self, now_ns: int) -> tuple[Array, Array] | None:
        """Return the filtered ``T_tracking_grip`` as position (3,) and rotation (3, 3)."""
        return self._filter.evaluate(now_ns) if self._filter.ready else None

    def let_go(self) -> None:
        """Disengage; moving again needs an open grip first, then a squeeze."""
        if self.state is not HandState.HELD:
            self.state = HandState.RELEASED

    def reset(self) -> None:
        """Start a new episode: disengage, forget the motion, hold the gripper."""
        self.let_go()
        self._filter.reset()
        self.gripper.hold()

    def hold(self, reason: Reason) -> None:
        """Hold arm and gripper for a fault of the stream, and count it."""
        self.counts[reason] += 1
        self.state, self.reason = HandState.HELD, reason
        self.gripper.hold()
        if reason not in _POSES_GO_ON:
            self._filter.reset()

    def restart(self, reason: Reason) -> None:
        """Hold for a break in the stream: no motion of the hand leads over it."""
        self._guard.forget()
        self.sample_ns = None
        self.hold(reason)

    def expire(self, now_ns: int) -> None:
        """Hold if the newest believed sample is too old at the control instant ``now_ns``."""
        max_age_ns = self._config.guard.max_age_ns
        if self.sample_ns is None or self.reason is Reason.STALE:
            return
        if self.state is HandState.HELD and now_ns - self._frame_ns <= max_age_ns:
            return  # frames do come, and say themselves what is wrong
        if now_ns - self.sample_ns > max_age_ns:
            self._guard.forget()
            self.hold(Reason.STALE)

    def take(self, frame: OperatorFrame, t_ns: int, trigger_grips: bool = True) -> str | None:
        """Take the next frame, of session time ``t_ns``; return in words what the stick changed.

        ``trigger_grips`` is False while the triggers mean something else.
        """
        self._frame_ns = t_ns
        controller = frame.controllers[self.controller]
        verdict = self._guard.take(controller.pose, t_ns, self.engaged)
        if isinstance(verdict, Sample):
            self._filter.update(t_ns, *self._offset.apply(verdict.position, verdict.turn))
            self.sample_ns = t_ns
            self.t_device_ns, self.t_recv_ns = frame.t_device_ns, frame.t_recv_ns
        elif verdict in PASSING:
            self.counts[verdict] += 1
        else:
            self.hold(verdict)
        held = not isinstance(verdict, Sample) and verdict not in PASSING
        if not (held or frame.headset_worn) and self._config.require_headset:
            self.hold(Reason.HEADSET_OFF)
            held = True
        return self._take_inputs(controller, frame, held, trigger_grips)

    def _take_inputs(
        self, controller: Controller, frame: OperatorFrame, held: bool, trigger_grips: bool
    ) -> str | None:
        readable = math.isfinite(controller.grip) and math.isfinite(controller.trigger)
        if not (controller.input_valid and readable):
            self.trigger = self.grip = 0.0
            self.fine = False
            self.dials.lose()
            if not held:
                self.hold(Reason.INPUT_INVALID)
            return None
        self.trigger, self.grip = controller.trigger, controller.grip
        self.fine = Button.STICK in controller.buttons
        changed = self.dials.take(controller.stick, self.fine)
        if not held and self._guard.settled and self._filter.ready:
            self._clutch(frame)
            if self.state is not HandState.HELD and trigger_grips:
                self.gripper.follow(self.trigger)
        return changed

    def _clutch(self, frame: OperatorFrame) -> None:
        if self.grip <= self._config.clutch.release:
            self.state, self.reason = HandState.READY, None
        elif self.grip >= self._config.clutch.squeeze and self.state is HandState.READY:
            if self._facing.yaw is None and self._facing.take(frame.head) is not None:
                self.hold(Reason.NO_FACING)
                return
            self.state = HandState.ENGAGED
            self.engagement += 1
