"""What can happen to a stream of hand poses, one fault after the other."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from feel_rig import RIGHT, START_S

from kinematics.frames import Array
from teleop_agent.frame import OperatorFrame, TrackedPose
from teleop_agent.turns import turn_exp

SLOT_S = 0.6
"""From one fault to the next: the hand moves, the fault comes, the hand lets go and grips anew."""
_ONSET_S, _RELEASE_S, _SQUEEZE_S = (0.02, 0.20), 0.42, 0.50
_SECOND = 1_000_000_000

Change = Callable[[TrackedPose, np.random.Generator], TrackedPose]


def _matrix(change: Callable[[Array, np.random.Generator], Array]) -> Change:
    def changed(pose: TrackedPose, rng: np.random.Generator) -> TrackedPose:
        return replace(pose, matrix=change(pose.matrix.copy(), rng))

    return changed


def _moved(matrix: Array, rng: np.random.Generator, reach: float) -> Array:
    matrix[:, 3] += rng.uniform(-reach, reach, 3)
    return matrix


def _turned(matrix: Array, rng: np.random.Generator, spread: float) -> Array:
    matrix[:, :3] = turn_exp(rng.normal(0.0, spread, 3)) @ matrix[:, :3]
    return matrix


POSES: Mapping[str, Change] = {
    "invalid": lambda pose, _: replace(pose, valid=False),
    "untracked": lambda pose, _: replace(pose, tracked=False),
    "disconnected": lambda pose, _: replace(pose, connected=False),
    "not a number": _matrix(lambda m, _: m * np.nan),
    "zero": _matrix(lambda m, _: m * 0.0),
    "identity": _matrix(lambda m, _: np.eye(4)[:3]),
    "mirrored": _matrix(lambda m, _: m * np.array([-1.0, 1.0, 1.0, 1.0])),
    "scaled": _matrix(lambda m, _: m * np.array([1.1, 1.1, 1.1, 1.0])),
    "elsewhere": _matrix(lambda m, rng: _moved(m, rng, 2.0)),
    "a little off": _matrix(lambda m, rng: _moved(m, rng, 0.03)),
    "turned": _matrix(lambda m, rng: _turned(m, rng, 1.0)),
    "turned a little": _matrix(lambda m, rng: _turned(m, rng, 0.2)),
    "another controller": lambda pose, _: replace(pose, serial=pose.serial + "'"),
}
"""Spoil every pose of the fault anew, or alike."""
STREAMS = ("moved off", "frozen", "silent", "burst", "repeated", "old", "future", "restarted")
INPUTS = ("inputs hidden", "grip flickers")
KINDS = (*POSES, *STREAMS, *INPUTS)


class Faults:
    """Spoil a stream with one random fault in every slot of time."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._slot = -1
        self.kinds: list[str] = []
        """Of every slot so far."""
        self._last: OperatorFrame | None = None
        self._kept: list[OperatorFrame] = []

    def __call__(self, frame: OperatorFrame, t: float) -> list[OperatorFrame]:
        """Return the frames to publish instead of one of true time ``t`` [s]."""
        if t < START_S:
            return [frame]
        slot, since = divmod(t - START_S, SLOT_S)
        if slot != self._slot:
            self._slot = int(slot)
            self._draw()
        frame = _with(frame, grip=float(not _RELEASE_S <= since < _SQUEEZE_S))
        if self._begin <= since < self._end:
            frames = self._spoil(frame)
        else:
            frames = [*self._kept, frame]
            # What was held back arrives at once, before what follows.
            frames = [replace(late, t_recv_ns=frame.t_recv_ns) for late in frames]
            self._kept, self._last = [], frame
        return frames

    def _draw(self) -> None:
        rng = self._rng
        self.kinds.append(KINDS[int(rng.integers(len(KINDS)))])
        self._begin = float(rng.uniform(*_ONSET_S))
        # One sample in three cases of ten, else up to 0.3 s: past what the guard bridges.
        length = 0.008 if rng.random() < 0.3 else rng.uniform(0.02, 0.3)
        self._end = self._begin + length
        self._off = rng.uniform(-0.5, 0.5, 3)
        self._shift_ns = int(rng.integers(-10, 10)) * _SECOND

    def _spoil(self, frame: OperatorFrame) -> list[OperatorFrame]:
        kind, rng, last = self.kinds[-1], self._rng, self._last
        pose = frame.controllers[RIGHT].pose
        if kind in POSES:
            return [_with(frame, pose=POSES[kind](pose, rng))]
        if kind == "moved off":
            matrix = pose.matrix.copy()
            matrix[:, 3] += self._off
            return [_with(frame, pose=replace(pose, matrix=matrix))]
        if kind == "frozen" and last is not None:
            return [_with(frame, pose=last.controllers[RIGHT].pose)]
        if kind == "burst":
            self._kept.append(frame)
        if kind in ("silent", "burst"):
            return []
        if kind == "repeated" and last is not None:
            return [frame, replace(last, t_recv_ns=frame.t_recv_ns)]
        if kind in ("old", "future", "restarted"):
            shift = {"old": -_SECOND // 10, "future": _SECOND}.get(kind, self._shift_ns)
            return [replace(frame, t_device_ns=frame.t_device_ns + shift)]
        if kind == "inputs hidden":
            return [_with(frame, input_valid=False, grip=0.0)]
        if kind == "grip flickers":
            return [_with(frame, grip=float(rng.random()))]
        return [frame]


def _with(frame: OperatorFrame, **changes: object) -> OperatorFrame:
    """Return the frame with a changed right controller."""
    controller = replace(frame.controllers[RIGHT], **changes)
    return replace(frame, controllers={**frame.controllers, RIGHT: controller})
