"""Three hundred random faulty streams through the agent and the real environment: no leap."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from choreography import Script
from scipy.spatial.transform import Rotation

from envs.arm import Clamp
from envs.panda_env import PicoPandaEnv
from kinematics import Side
from kinematics.frames import Array
from teleop_agent.frame import Button, OperatorFrame, TrackedPose
from teleop_agent.policy import TeleopPolicy
from teleop_agent.reasons import Reason

FRAME_NS, MS = 11_111_111, 1_000_000
SOUND = {
    "connected": True,
    "valid": True,
    "tracked": True,
    "input_valid": True,
    "frozen": False,
    "matrix": None,
}
TURN = Rotation.from_rotvec([0.3, -0.2, 0.5]).as_matrix()
OF_A_HAND = {
    "away": {"connected": False},
    "invalid": {"valid": False},
    "lost": {"tracked": False},
    "blocked": {"input_valid": False},
    "frozen": {"frozen": True},
    "zero": {"matrix": np.zeros((3, 4))},
    "default": {"matrix": np.eye(3, 4)},
    "nan": {"matrix": np.full((3, 4), np.nan)},
    "mirrored": {"matrix": np.column_stack([TURN * [-1.0, 1.0, 1.0], [0.2, 1.1, -0.3]])},
    "scaled": {"matrix": np.column_stack([1.2 * TURN, [0.2, 1.1, -0.3]])},
    "elsewhere": {"matrix": np.column_stack([TURN, [2.0, 1.1, -0.3]])},
}
DRAWN_BACK = Clamp.LEASH | Clamp.REACH
"""The environment has drawn what it accepted back to where the arm is, which moves no arm."""
OF_ALL = ("silence", "leap", "spin", "swap", "recentre", "headset off", "no head", "clock", "burst")
HANDLING = ("squeeze", "open", "pull", "stick", "fine", "A")


class Chaos:
    """Write frames in which both hands move at random and something is always wrong."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._script = rng, Script(jitter_m=1e-4)
        self._late_ns = self._clock_ns = 0

    def sequence(self) -> Iterator[OperatorFrame]:
        """Yield an engagement of both hands, then two faults of random length."""
        rng, script = self._rng, self._script
        for grip, samples in ((0.0, 6), (1.0, 6)):
            for side in Side:
                script.hand(side).grip = grip
            yield from self._move(samples)
        for _ in range(2):
            kind = rng.choice([*OF_A_HAND, *OF_ALL, *HANDLING])
            yield from self._fault(kind, script.hand(list(Side)[rng.integers(2)]))
        for side in Side:
            for name, value in SOUND.items():
                setattr(script.hand(side), name, value)
            script.hand(side).buttons = Button.NONE

    def _fault(self, kind: str, hand) -> Iterator[OperatorFrame]:
        rng, script, samples = self._rng, self._script, int(self._rng.integers(1, 12))
        for name, value in (SOUND | OF_A_HAND.get(kind, {})).items():
            setattr(hand, name, value)
        head = script.head
        if kind == "leap":
            hand.position = hand.position + rng.normal(0.0, 0.3, 3)
        elif kind == "spin":
            hand.turn = Rotation.from_rotvec(rng.normal(0.0, 1.0, 3)) * hand.turn
        elif kind == "swap":
            script.right.position, script.left.position = (
                script.left.position,
                script.right.position,
            )
        elif kind == "recentre":
            script.recentre(rng.normal(0.0, 1.0), rng.normal(0.0, 0.3, 3))
        elif kind == "clock":
            self._clock_ns += int(rng.integers(-(10**10), 10**10))
        elif kind in ("squeeze", "open"):
            hand.grip = float(kind == "squeeze")
        elif kind == "pull":
            hand.trigger = rng.uniform()
        elif kind == "stick":
            hand.stick = tuple(rng.uniform(-1.0, 1.0, 2))
        elif kind in ("fine", "A"):
            hand.buttons = Button.STICK if kind == "fine" else Button.PRIMARY
        elif kind == "no head":
            script.head = TrackedPose()
        script.headset_worn = kind != "headset off"
        frames = list(self._move(samples))
        script.head = head
        if kind == "burst":  # all at once, late
            frames = [replace(frame, t_recv_ns=frames[-1].t_recv_ns) for frame in frames]
        if kind != "silence":
            yield from frames

    def _move(self, samples: int) -> Iterator[OperatorFrame]:
        rng, script = self._rng, self._script
        speed = {side: rng.normal(0.0, 1.0, 3) for side in Side}  # m/s
        for _ in range(samples):
            for side in Side:
                hand = script.hand(side)
                hand.position = hand.position + speed[side] * FRAME_NS * 1e-9
                hand.turn = Rotation.from_rotvec(rng.normal(0.0, 0.03, 3)) * hand.turn
            script.hold(FRAME_NS * 1e-9)
            frame = script.frames[-1]
            yield replace(frame, t_device_ns=frame.t_device_ns + self._clock_ns)


def angle_between(a: Array, b: Array) -> float:
    """Return the angle [rad] between two unit wxyz quaternions (4,), accurate near zero."""
    return 4.0 * np.arcsin(0.5 * min(np.linalg.norm(a - b), np.linalg.norm(a + b)))


@pytest.mark.parametrize(
    ("task", "control", "sequences"),
    [("handover", "ee_delta", 60), ("reach", "ee_pose", 120), ("reach", "joint", 120)],
)
def test_no_command_leaps_whatever_comes_in(
    panda: Callable[..., PicoPandaEnv], task: str, control: str, sequences: int
) -> None:
    env, rng = panda(task=task, control=control), np.random.default_rng(20261201)
    observation, _ = env.reset(seed=1)
    policy = TeleopPolicy(env)
    policy.reset()
    chaos, now, due = Chaos(rng), 0, []
    period_s = 1.0 / env.control_hz
    longest, widest = env.speed_limits.linear * period_s, env.speed_limits.angular * period_s
    fastest = {side: arm.ik.velocity_limits * period_s for side, arm in env.arms.items()}
    engaged = 0
    for number in range(sequences):
        if number % 20 == 0:  # wherever chaos has brought the arms
            observation, _ = env.reset(seed=number)
            policy.reset()
        due += chaos.sequence()
        while due:
            now += 20 * MS
            frames = [frame for frame in due if frame.t_recv_ns <= now]
            due = due[len(frames) :]
            before = {side: (env.commanded(side), arm.ik.q) for side, arm in env.arms.items()}
            step = policy.act(observation, frames, now)
            observation, *_ = env.step(step.action)
            for side, (commanded, q) in before.items():
                hand, arm = step.hands[side], env.arms[side]
                if not hand.engaged:
                    np.testing.assert_array_equal(hand.target.position, commanded.position)
                targets = [hand.target]
                if control != "joint" and not arm.clamps & DRAWN_BACK:
                    targets.append(env.commanded(side))
                for target in targets:
                    moved = np.linalg.norm(target.position - commanded.position)
                    assert moved <= longest * (1 + 1e-5), (number, hand)
                    turned = angle_between(target.quat_wxyz, commanded.quat_wxyz)
                    assert turned <= widest * (1 + 1e-5), (number, hand)
                swung = np.abs(arm.ik.q - q)
                assert np.all(swung <= fastest[side] * (1 + 1e-6)), (number, side)
                engaged += step.hands[side].engaged
    assert engaged > 5 * sequences  # the streams are not so bad that nothing ever moves
    assert len(set[Reason]().union(*policy.counts.values())) > 12
