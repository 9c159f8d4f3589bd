"""A stand-in environment and a hand that can be moved by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kinematics import EndEffectorTarget, Side, SpeedLimits, Workspace
from kinematics.frames import pose, quat_wxyz, rotation
from teleop_agent.config import TeleopConfig
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose
from teleop_agent.policy import PolicyStep, TeleopPolicy

TOOL_DOWN = (0.0, 1.0, 0.0, 0.0)
"""wxyz: half a turn about world x, so that the tool's z points down."""


class FakeEnv:
    """Keep the accepted targets as the real environment does in ``ee_delta``."""

    def __init__(
        self,
        sides: Sequence[Side] = (Side.RIGHT,),
        control_hz: int = 50,
        start: Sequence[float] = (0.5, 0.0, 0.3),
        closure: float = 0.0,
    ) -> None:
        self.sides = tuple(sides)
        self.control_hz = control_hz
        self.speed_limits = SpeedLimits()
        self.start, self.start_closure = start, closure
        self.leash: Callable[[np.ndarray], np.ndarray] = lambda position: position
        self.actions: list[np.ndarray] = []
        self.reset()

    def reset(self) -> None:
        self._accepted = {
            side: EndEffectorTarget(side, np.array(self.start), TOOL_DOWN, self.start_closure)
            for side in self.sides
        }

    def workspace(self, side: Side) -> Workspace:
        return Workspace(pose((0.0, 0.0, 0.0)))

    def commanded(self, side: Side) -> EndEffectorTarget:
        return self._accepted[side]

    def encode(self, commands: Mapping[Side, EndEffectorTarget]) -> np.ndarray:
        assert tuple(commands) == self.sides
        period, limits = 1.0 / self.control_hz, self.speed_limits
        parts = []
        for side in self.sides:
            now, then = self._accepted[side], commands[side]
            turn = rotation(then.quat_wxyz) * rotation(now.quat_wxyz).inv()
            parts += [
                (then.position - now.position) / (limits.linear * period),
                turn.as_rotvec() / (limits.angular * period),
                [2.0 * then.closure - 1.0],
            ]
        return np.concatenate(parts).astype(np.float32)

    def step(self, action: np.ndarray) -> None:
        assert np.all(np.abs(action) <= 1.0), f"the action would be clipped: {action}"
        self.actions.append(action)
        period, limits = 1.0 / self.control_hz, self.speed_limits
        for side, part in zip(self.sides, action.astype(float).reshape(-1, 7), strict=True):
            now = self._accepted[side]
            turn = Rotation.from_rotvec(part[3:6] * limits.angular * period)
            self._accepted[side] = EndEffectorTarget(
                side,
                self.leash(now.position + part[:3] * limits.linear * period),
                quat_wxyz(turn * rotation(now.quat_wxyz)),
                float((part[6] + 1.0) / 2.0),
            )


class Hand:
    """Hold one controller's pose and inputs; plain attributes to change."""

    def __init__(self, position: Sequence[float], serial: str = "") -> None:
        self.position = np.array(position, float)
        self.turn = Rotation.from_euler("yx", [0.3, -0.4])
        self.grip = self.trigger = 0.0
        self.buttons = Button.NONE
        self.serial = serial
        self.stick = (0.0, 0.0)
        self.input_valid = self.connected = self.valid = self.tracked = True
        self.matrix: np.ndarray | None = None
        """Sent instead of position and turn."""
        self.alive = True
        """Never bit-still, as any tracked hand; the 1e-12 m are below every tolerance."""
        self._flip = 0.0

    def controller(self) -> Controller:
        matrix = self.matrix
        if matrix is None:
            self._flip = 1e-12 - self._flip if self.alive else 0.0
            matrix = np.column_stack([self.turn.as_matrix(), self.position + self._flip])
        tracked = TrackedPose(self.connected, self.valid, self.tracked, matrix, self.serial)
        if not self.input_valid:
            return Controller(tracked)
        return Controller(tracked, True, self.trigger, self.grip, self.stick, self.buttons)


class Session:
    """Run device, policy and stand-in environment on one made-up clock."""

    def __init__(
        self,
        config: TeleopConfig | None = None,
        device_hz: float = 90.0,
        head_yaw: float = 0.0,
        **env: object,
    ) -> None:
        self.env = FakeEnv(**env)
        self.policy = TeleopPolicy(self.env, config)
        self.policy.reset()
        self.hands = {
            Side.RIGHT: Hand((0.2, 1.1, -0.3), "R"),
            Side.LEFT: Hand((-0.2, 1.1, -0.3), "L"),
        }
        self.head = Hand((0.0, 1.6, 0.0))
        self.head.turn = Rotation.from_rotvec([0.0, head_yaw, 0.0])
        self.device_period_ns = round(1e9 / device_hz)
        self.step_ns = round(1e9 / self.env.control_hz)
        self.now_ns = 10_000_000_000
        self.device_ns = self.now_ns + 3_000_000
        self.seq = 0
        self.silent = False
        self.headset_worn, self.space = True, 0
        self.recentred = np.eye(4)
        """``T_new_old`` of the play space, as it has been moved so far."""
        self.last: PolicyStep | None = None
        self.events: list[str] = []
        self.move: Callable[[float], None] | None = None
        """Called with the session's time [s] before every sample."""
        self.shift_ns = 0
        """Added to device stamps."""

    @property
    def right(self) -> Hand:
        return self.hands[Side.RIGHT]

    @property
    def left(self) -> Hand:
        return self.hands[Side.LEFT]

    def target(self, side: Side = Side.RIGHT) -> EndEffectorTarget:
        return self.env.commanded(side)

    def frame(self, t_ns: int) -> OperatorFrame:
        self.seq += 1
        return OperatorFrame(
            self.seq,
            t_ns + self.shift_ns,
            t_ns + 1_000_000,
            self._moved(self.head.controller()).pose,
            {side: self._moved(hand.controller()) for side, hand in self.hands.items()},
            self.headset_worn,
            self.space,
        )

    def _moved(self, controller: Controller) -> Controller:
        """Return a sample as the recentred play space has it."""
        matrix = controller.pose.matrix.copy()
        if not matrix.any() or np.array_equal(self.recentred, np.eye(4)):
            return controller
        matrix = self.recentred[:3, :3] @ matrix
        matrix[:, 3] += self.recentred[:3, 3]
        return replace(controller, pose=replace(controller.pose, matrix=matrix))

    def recentre(self, yaw: float, shift: Sequence[float]) -> None:
        """Move the play space under everything: a turn about its vertical, then a shift."""
        change = np.eye(4)
        change[:3, :3] = Rotation.from_rotvec([0.0, yaw, 0.0]).as_matrix()
        change[:3, 3] = shift
        self.recentred = change @ self.recentred

    def tick(self, frames: Sequence[OperatorFrame] | None = None) -> PolicyStep:
        """Do one control step with the samples that are due, or with these."""
        self.now_ns += self.step_ns
        due = []
        while self.device_ns + 1_000_000 <= self.now_ns:
            if self.move is not None:
                self.move(self.device_ns * 1e-9)
            if not self.silent:
                due.append(self.frame(self.device_ns))
            self.device_ns += self.device_period_ns
        step = self.policy.act(None, due if frames is None else frames, self.now_ns)
        self.env.step(step.action)
        self.events += step.events
        self.last = step
        return step

    def run(self, seconds: float) -> PolicyStep:
        """Do control steps for this long."""
        step = None
        for _ in range(max(1, round(seconds * self.env.control_hz))):
            step = self.tick()
        assert step is not None
        return step

    def engage(self, side: Side = Side.RIGHT) -> PolicyStep:
        """Open and squeeze the grip; the arm is engaged afterwards."""
        self.hands[side].grip = 0.0
        self.run(0.1)
        self.hands[side].grip = 1.0
        step = self.run(0.04)
        assert step.hands[side].engaged, step.hands[side].reason
        return step

    def flick(self, stick: tuple[float, float], side: Side = Side.RIGHT) -> PolicyStep:
        """Push a stick to a place and let it go."""
        self.hands[side].stick = stick
        self.run(0.06)
        self.hands[side].stick = (0.0, 0.0)
        return self.run(0.06)

    def glide(self, seconds: float, by: Sequence[float], side: Side = Side.RIGHT) -> PolicyStep:
        """Move a hand by ``by`` [m, tracking] on a minimum-jerk stroke, then rest 0.4 s."""
        hand = self.hands[side]
        start, begin = hand.position.copy(), self.device_ns * 1e-9

        def move(t: float) -> None:
            hand.position = start + minimum_jerk((t - begin) / seconds) * np.asarray(by, float)

        self.move = move
        step = self.run(seconds + 0.4)
        self.move = None
        return step

    def rotate(self, seconds: float, turn: Rotation, side: Side = Side.RIGHT) -> PolicyStep:
        """Turn a hand by ``turn`` about tracking's axes on a minimum-jerk stroke, then rest."""
        hand = self.hands[side]
        start, begin, rotvec = hand.turn, self.device_ns * 1e-9, turn.as_rotvec()

        def move(t: float) -> None:
            hand.turn = Rotation.from_rotvec(minimum_jerk((t - begin) / seconds) * rotvec) * start

        self.move = move
        step = self.run(seconds + 0.4)
        self.move = None
        return step


def minimum_jerk(s: float) -> float:
    """Return the share of a stroke done at the share ``s`` of its time."""
    s = min(max(s, 0.0), 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


@pytest.fixture
def session() -> type[Session]:
    """Return the class, to be made with the options of the test."""
    return Session
