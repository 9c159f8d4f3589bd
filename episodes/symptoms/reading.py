"""Read an arm's chain from an episode's file."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from kinematics import Side

from .. import schema
from ..errors import EpisodesError
from ..reader import Episode
from .chain import Chain, Flags, Floats, Poses, Stage
from .turns import conjugated, matrices, product, quats_of

GAP_PERIODS = 2.5
"""Ticks farther apart than this are not neighbours: a pause or a rewind lies between them."""
SOFT = ("speed", "acceleration")
"""Limits that only shorten a step; every other one takes a direction away."""


OTHER_FILTER_S = 0.022
"""s; the exponential and the One-Euro filter lag 19 to 23 ms as they are set by default."""


def chain_of(episode: Episode, side: Side) -> Chain:
    """Read one arm's chain; FileFormatError for what is missing."""
    robot = episode.sides.index(side)
    T = episode.array(f"operator/{side}_T_world_tracking")
    clutch = episode.array(f"operator/{side}_clutch").astype(bool)
    tick = episode.array("timing/t_filter_ns")
    hz, n = float(episode.attrs["control_hz"]), len(tick)
    config = _config(episode)
    steady = np.diff(tick, prepend=tick[:1]) < GAP_PERIODS * 1e9 / hz
    steady &= np.concatenate([[False], (T[1:] == T[:-1]).all(axis=(1, 2))])
    clamps = _clamps(episode, robot)
    hard = {name: on for name, on in clamps.items() if not name.endswith(SOFT)}
    soft = _any([on for name, on in clamps.items() if name.endswith(SOFT)], n)
    free = ~_any(list(hard.values()), n)
    walls = {name: on for name, on in hard.items() if name.endswith(("workspace", "reach"))}
    others = _any([on for name, on in hard.items() if name not in walls], n)
    boxed = _any([on for name, on in walls.items() if name.endswith("workspace")], n)
    walled = _any(list(walls.values()), n) & ~others
    lock = _words(episode, f"operator/{side}_lock")
    return Chain(
        poses=_poses(episode, side, robot, T, tick),
        joined=steady,
        engaged=clutch,
        free=free,
        walled=walled,
        boxed=boxed & walled,
        slowed=soft,
        scale=episode.array(f"operator/{side}_scale").astype(float),
        turn_scale=episode.array(f"operator/{side}_turn_scale").astype(float),
        moves=np.isin(lock, ("free", "move only")),
        turns=np.isin(lock, ("free", "turn only")),
        period=np.full(n, 1.0 / hz),
        filter_lag=np.full(n, _filter_lag(config)),
        max_step=np.tile(_max_step(episode), (n, 1)),
        origin=np.stack([np.full(n, episode.number), np.arange(n)], axis=1),
        reason=_words(episode, f"operator/{side}_guard_reason"),
    )


def _poses(
    episode: Episode, side: Side, robot: int, T: Floats, tick: npt.NDArray[np.int64]
) -> dict[Stage, Poses]:
    R, t, seconds = T[:, :3, :3], T[:, :3, 3], (1e-9 * tick).astype(np.float64)
    device_ns = episode.array(f"operator/{side}_t_device_ns")
    measured = np.where(device_ns < 0, np.nan, 1e-9 * device_ns).astype(np.float64)
    world = np.broadcast_to(np.eye(3), R.shape)

    def tracked(pose: Floats, time: Floats) -> Poses:
        return Poses(np.einsum("tij,tj->ti", R, pose[:, :3]) + t, pose[:, 3:], R, time)

    def placed(position: Floats, quat: Floats) -> Poses:
        return Poses(position.astype(float), quat.astype(float), world, seconds)

    sample = episode.array(f"operator/{side}_pose")
    position = episode.array("action_dict/abs_pos")[:, 3 * robot : 3 * robot + 3]
    quat = episode.array("action_dict/abs_quat")[:, 4 * robot : 4 * robot + 4]
    return {
        Stage.RAW: tracked(_raw(episode, side, device_ns, sample), measured),
        Stage.SAMPLE: tracked(sample, measured),
        Stage.HAND: tracked(_in_hand(episode, side), seconds),
        Stage.TARGET: placed(position, quat),
        Stage.ACCEPTED: placed(
            episode.array(f"control/robot{robot}_accepted_pos"),
            episode.array(f"control/robot{robot}_accepted_quat"),
        ),
        Stage.TOOL: placed(
            _after(episode, f"robot{robot}_eef_pos", 3),
            _after(episode, f"robot{robot}_eef_quat", 4),
        ),
    }


def _in_hand(episode: Episode, side: Side) -> Floats:
    """Return the filtered pose (T, 7) of the device: the grip without its offset."""
    pose = episode.array(f"operator/{side}_filtered_pose")
    clutch = _config(episode).get("clutch", {})
    offset = np.array(clutch.get("grip_position", (0.0, 0.0, 0.0)), dtype=float)
    turn = np.array(clutch.get("grip_quat_wxyz", (1.0, 0.0, 0.0, 0.0)), dtype=float)
    if not offset.any() and turn[0] == 1.0:
        return pose
    quat = product(pose[:, 3:], conjugated(turn)[None])
    return np.hstack([pose[:, :3] - matrices(quat) @ offset, quat])


def _raw(episode: Episode, side: Side, device_ns: npt.NDArray[np.int64], sample: Floats) -> Floats:
    """Return the device's own pose (T, 7) behind each row's sample; NaN where it is not there."""
    out = np.full_like(sample, np.nan)
    received = episode.array(f"operator/{side}_t_recv_ns")
    hands = {}
    for hand in (side, side.other):  # swapped hands: each arm follows the other one's
        try:
            hands[hand] = episode.array(f"operator_raw/{hand}/matrix")
        except EpisodesError:
            return out
    stamps = zip(
        episode.array("operator_raw/t_device_ns").tolist(),
        episode.array("operator_raw/t_recv_ns").tolist(),
        strict=True,
    )
    index = {stamp: n for n, stamp in enumerate(stamps)}
    at = [index.get(s, -1) for s in zip(device_ns.tolist(), received.tolist(), strict=True)]
    rows = np.flatnonzero(np.array(at, dtype=int) >= 0)
    if not len(rows):
        return out
    of_row = np.array(at, dtype=int)[rows]
    swapped = _config(episode).get("swap_hands", False)
    matrix = hands[side.other if swapped else side][of_row]
    out[rows, :3], out[rows, 3:] = matrix[:, :, 3], quats_of(matrix[:, :, :3])
    return out


def _after(episode: Episode, key: str, columns: int) -> Floats:
    """Return an observation (T, columns) after each row's action: the next row's, then the end's.

    NaN where it is not recorded.
    """
    out = np.full((episode.n_rows, columns), np.nan)
    try:
        out[:-1] = episode.array(f"{schema.OBS}/{key}")[1:]
        out[-1] = episode.array(f"{schema.OBS_FINAL}/{key}")
    except EpisodesError:
        pass
    return out


def _config(episode: Episode) -> dict[str, Any]:
    """Return the operator's settings, empty where the file has none."""
    return json.loads(str(episode.attrs.get("teleop_config", "{}")))


def _filter_lag(config: dict[str, Any]) -> float:
    """Return by how much the hand's filter lags [s]."""
    kalman = config.get("kalman", {})
    if config.get("filter", "kalman") == "kalman" and "lag_s" in kalman:
        return float(kalman["lag_s"])
    return OTHER_FILTER_S


def _max_step(episode: Episode) -> Floats:
    attrs = episode.dataset_attrs(schema.ACTIONS)
    return np.array(
        [float(attrs.get(key, np.nan)) for key in ("linear_scale_m", "angular_scale_rad")]
    )


def _clamps(episode: Episode, robot: int) -> dict[str, Flags]:
    path = f"control/robot{robot}_clamps"
    clamps, attrs = episode.array(path), episode.dataset_attrs(path)
    pairs = zip(attrs.get("flags", ()), attrs.get("bits", ()), strict=False)
    return {str(name): (clamps & np.uint32(bit)) != 0 for name, bit in pairs}


def _words(episode: Episode, path: str) -> npt.NDArray[np.str_]:
    codes = episode.dataset_attrs(path).get("codes", ())
    return np.array([str(word) for word in codes])[episode.array(path)]


def _any(flags: list[Flags], length: int) -> Flags:
    return np.any(flags, axis=0) if flags else np.zeros(length, dtype=bool)
