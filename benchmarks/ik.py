"""Measure the arm's inverse kinematics against mink on the same geom-free model.

    python benchmarks/ik.py [--seconds 60] [--poses 1000] [--json]

Four target paths at 200 Hz, one tick a sample for both; blocks of ticks alternate, so that a busy
machine slows both. Timed are solving and integrating only. Exit code 1 if a limit is missed.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from envs.robots import ArmSpec, load_spec
from envs.scene import Mount, compose_arm
from kinematics import Side
from kinematics.frames import Array, rotation
from kinematics.ik import ArmIK

try:
    import mink
except ImportError as error:
    raise SystemExit('benchmarks/ik.py needs mink: pip install -e ".[bench]"') from error

DT = 1.0 / 200.0
BLOCK = 200
"""Ticks of one solver before the other's turn: 1 s of the path."""
START = np.array([0.0, -0.3, 0.0, -2.2, 0.0, 2.0, 0.7853])
PANDA = load_spec(ArmSpec, "panda")
JOINTS = [Side.RIGHT.prefix + name for name in PANDA.joints]
SITE = Side.RIGHT.prefix + "hand/ee"
ROUNDING = 1e-9
"""rad and rad/s; what adding a step of exactly the limit may round to."""

TICK_RATIO, ERROR_RATIO, ERROR_MARGIN_MM, SOLVED_PERCENT = 0.3, 1.05, 0.5, 99.5
SOLVED_M, SOLVED_RAD = 1e-3, np.deg2rad(1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """Hold tool targets in world, one a tick."""

    name: str
    positions: Array
    """(T, 3) [m]"""
    quats: Array
    """(T, 4) wxyz"""


@dataclass(slots=True, eq=False)
class Track:
    """Hold how one solver followed a path."""

    positions: Array
    """(T, 3) of the tool after each tick [m]."""
    postures: Array
    """(T + 1, n) [rad]"""
    block_s: list[float]
    """Median tick of each block [s]."""


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one line of the table."""

    what: str
    ours: float
    mink: float | None
    limit: str
    ok: bool | None = None
    """None where there is no limit."""


# The paths.


def smooth(ik: ArmIK, x: Array, rng: np.random.Generator) -> Path:
    """Return tool poses of joint sines about the start, 0.05 rad inside the ranges."""
    room = np.minimum(START - ik.lower, ik.upper - START) - 0.05
    amplitude = np.minimum(rng.uniform(0.2, 0.6, START.size), room)
    frequency = rng.uniform(0.05, 0.25, START.size)  # Hz; at most half the joints' speed limits
    ramp = np.minimum(1.0, x / 2.0)[:, None]
    postures = START + ramp * amplitude * np.sin(2.0 * np.pi * frequency * x[:, None])
    poses = [ik.forward(q) for q in postures]
    return Path("smooth", np.array([p for p, _ in poses]), np.array([q for _, q in poses]))


def past_reach(ik: ArmIK, x: Array) -> Path:
    """Return a straight way 0.55 m forward and back, past the arm's reach."""
    p0, q0 = ik.forward(START)
    forward = 0.55 * (0.5 - 0.5 * np.cos(2.0 * np.pi * x / 15.0))
    aside = 0.1 * np.sin(2.0 * np.pi * x / 7.0)
    positions = p0 + np.stack([forward, aside, np.zeros_like(x)], axis=1)
    return Path("past reach", positions, np.tile(q0, (x.size, 1)))


def wrist_limits(ik: ArmIK, x: Array) -> Path:
    """Return turns that push the wrist against its ranges."""
    p0, q0 = ik.forward(START)
    aside = 0.2 * np.sin(2.0 * np.pi * x / 9.0)
    positions = p0 + np.stack([np.zeros_like(x), aside, np.zeros_like(x)], axis=1)
    yaw = Rotation.from_rotvec(np.outer(2.9 * np.sin(2.0 * np.pi * x / 20.0), [0, 0, 1]))
    pitch = Rotation.from_rotvec(np.outer(0.9 * np.sin(2.0 * np.pi * x / 13.0), [0, 1, 0]))
    quats = (yaw * pitch * rotation(q0)).as_quat(scalar_first=True)
    return Path("wrist limits", positions, quats)


def jumps(base: Path, x: Array, rng: np.random.Generator) -> Path:
    """Return the smooth path as a bad tracker gives it: noise, and 15 cm up 2 s in every 10."""
    held = np.arange(x.size) // 2
    noise = rng.normal(0.0, 0.0005, (held[-1] + 1, 3))[held]
    turns = Rotation.from_rotvec(rng.normal(0.0, 0.003, (held[-1] + 1, 3))[held])
    positions = base.positions + noise
    positions[:, 2] += np.where(x % 10.0 >= 8.0, 0.15, 0.0)
    quats = (turns * Rotation.from_quat(base.quats, scalar_first=True)).as_quat(scalar_first=True)
    return Path("VR jumps", positions, quats)


def make_paths(ik: ArmIK, seconds: float, seed: int) -> list[Path]:
    """Return the four paths, sampled at every tick."""
    x = np.arange(round(seconds / DT), dtype=np.float64) * DT
    rng = np.random.default_rng(seed)
    base = smooth(ik, x, rng)
    return [base, past_reach(ik, x), wrist_limits(ik, x), jumps(base, x, rng)]


# The solvers: each is a function from a target to (posture, tool position, seconds).

Tick = Callable[[Array, Array], tuple[Array, Array, float]]


def make_ik(model: mujoco.MjModel) -> ArmIK:
    """Return this project's solver as the environment uses it."""
    limits = PANDA.velocity_limits
    return ArmIK(model, joints=JOINTS, site=SITE, velocity_limits=limits, rest=PANDA.home)


def ours(model: mujoco.MjModel) -> Tick:
    """Return ticks of this project's solver from the start."""
    ik = make_ik(model)
    ik.reset(START)

    def tick(position: Array, quat: Array) -> tuple[Array, Array, float]:
        begin = time.perf_counter()
        ik.step(position, quat, DT)
        spent = time.perf_counter() - begin
        return ik.q, ik.tool()[0], spent

    return tick


def minks(model: mujoco.MjModel) -> Tick:
    """Return ticks of mink from the start: the same limits, one daqp solve each."""
    configuration = mink.Configuration(model)
    posture = mink.PostureTask(model, cost=1e-3)  # costs are squared: 1e-6
    configuration.update(np.array(PANDA.home))
    posture.set_target_from_configuration(configuration)
    configuration.update(START)
    frame = mink.FrameTask(SITE, "site", position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3)
    speeds = dict(zip(JOINTS, PANDA.velocity_limits, strict=True))
    limits = [mink.ConfigurationLimit(model, gain=1.0), mink.VelocityLimit(model, speeds)]
    tasks = [frame, posture]
    site = model.site(SITE).id

    def tick(position: Array, quat: Array) -> tuple[Array, Array, float]:
        target = mink.SE3.from_rotation_and_translation(mink.SO3(quat), position)
        frame.set_target(target)
        begin = time.perf_counter()
        velocity = mink.solve_ik(
            configuration, tasks, DT, solver="daqp", damping=1e-6, limits=limits
        )
        configuration.integrate_inplace(velocity, DT)
        spent = time.perf_counter() - begin
        return configuration.q.copy(), configuration.data.site_xpos[site].copy(), spent

    return tick


# Measuring.


def follow(path: Path, ticks: list[Tick]) -> list[Track]:
    """Let the solvers follow a path, taking turns block by block."""
    length = len(path.positions)
    tracks = [Track(np.empty((length, 3)), np.tile(START, (length + 1, 1)), []) for _ in ticks]
    for first in range(0, length, BLOCK):
        block = range(first, min(first + BLOCK, length))
        for tick, track in zip(ticks, tracks, strict=True):
            times = []
            for k in block:
                q, p, spent = tick(path.positions[k], path.quats[k])
                track.postures[k + 1], track.positions[k] = q, p
                times.append(spent)
            track.block_s.append(statistics.median(times))
    return tracks


def violations(ik: ArmIK, track: Track) -> int:
    """Return the ticks that left a joint's range or exceeded its speed limit."""
    q, v = track.postures, np.diff(track.postures, axis=0) / DT
    outside = (q[1:] < ik.lower - ROUNDING) | (q[1:] > ik.upper + ROUNDING)
    fast = np.abs(v) > np.array(PANDA.velocity_limits) + ROUNDING
    return int(np.count_nonzero((outside | fast).any(axis=1)))


def measure_paths(model: mujoco.MjModel, seconds: float, seed: int) -> list[Line]:
    """Return the lines of tick time, error and violations."""
    ik, ratios, spent, lines = make_ik(model), [], [], []
    for path in make_paths(ik, seconds, seed):
        mine, peer = follow(path, [ours(model), minks(model)])
        ratios += [a / b for a, b in zip(mine.block_s, peer.block_s, strict=True)]
        spent += zip(mine.block_s, peer.block_s, strict=True)
        errors = [1e3 * np.linalg.norm(t.positions - path.positions, axis=1) for t in (mine, peer)]
        a, b = (float(np.percentile(e, 95)) for e in errors)
        bound = ERROR_RATIO * b + ERROR_MARGIN_MM
        lines.append(Line(f"{path.name}: p95 error, mm", a, b, f"<= {bound:.2f}", a <= bound))
        counts = [violations(ik, track) for track in (mine, peer)]
        lines.append(Line(f"{path.name}: violations", counts[0], counts[1], "0", counts[0] == 0))
    us = [1e6 * statistics.median(times) for times in zip(*spent, strict=True)]
    ratio = statistics.median(ratios)
    head = [
        Line("tick, us", us[0], us[1], ""),
        Line("tick / mink's", ratio, 1.0, f"<= {TICK_RATIO}", ratio <= TICK_RATIO),
    ]
    return head + lines


def measure_report(model: mujoco.MjModel) -> Line:
    """Return the time of ``report``, which an environment calls once a control step."""
    ik = make_ik(model)
    ik.step(*ik.forward(START), DT)
    times = []
    for _ in range(2000):
        begin = time.perf_counter()
        ik.report()
        times.append(time.perf_counter() - begin)
    return Line("report, us", 1e6 * statistics.median(times), None, "")


def measure_solve(model: mujoco.MjModel, poses: int, seed: int) -> list[Line]:
    """Return the lines of ``solve`` on poses reached by postures uniform in the ranges."""
    ik, rng, good, times = make_ik(model), np.random.default_rng(seed), 0, []
    for q in rng.uniform(ik.lower, ik.upper, (poses, len(JOINTS))):
        position, quat = ik.forward(q)
        begin = time.perf_counter()
        found = ik.solve(position, quat).qpos
        times.append(time.perf_counter() - begin)
        p, r = ik.forward(found)
        turn = (rotation(r) * rotation(quat).inv()).magnitude()
        near = np.linalg.norm(p - position) <= SOLVED_M and turn <= SOLVED_RAD
        good += bool(near and np.all(found >= ik.lower) and np.all(found <= ik.upper))
    percent = 100.0 * good / poses
    ok = percent >= SOLVED_PERCENT
    return [
        Line(f"solve of {poses} poses, %", percent, None, f">= {SOLVED_PERCENT}", ok),
        Line("solve, us p50", 1e6 * statistics.median(times), None, ""),
    ]


def table(lines: list[Line]) -> str:
    """Return the lines as text."""
    verdict = {True: "ok", False: "FAIL", None: ""}
    rows = [f"{'':<28}{'ours':>10}{'mink':>10}{'limit':>12}"]
    for line in lines:
        peer = "" if line.mink is None else f"{line.mink:.4g}"
        rows.append(
            f"{line.what:<28}{line.ours:>10.4g}{peer:>10}{line.limit:>12}  {verdict[line.ok]}"
        )
    return "\n".join(row.rstrip() for row in rows)


def main() -> int:
    """Print the table, or JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each path")
    parser.add_argument("--poses", type=int, default=1000, help="poses for solve")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    model = compose_arm(Side.RIGHT, Mount())
    lines = measure_paths(model, options.seconds, options.seed)
    lines += [measure_report(model), *measure_solve(model, options.poses, options.seed)]
    print(json.dumps([asdict(line) for line in lines], indent=2) if options.json else table(lines))
    return 1 if any(line.ok is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
