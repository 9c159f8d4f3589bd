"""Measure what a hand feels: delay, smoothness and what faults do to the arm.

    python benchmarks/feel.py [--quick] [--ours] [--json]

Synthetic hands with tremor, tracker noise and lost samples go through the agent and the
environment, at 72 and 90 Hz, on a simulated clock: only what is designed is measured, not how fast
the computer is (`python -m teleop_agent latency` measures that). Beside them two mapping rules
re-created here from how peers describe theirs. Exit code 1 if a limit is missed.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass, replace

import numpy as np
from feel_faults import SLOT_S, Faults
from feel_rig import (
    CLEAN,
    ENGAGED_S,
    FILTERS,
    ORIGIN,
    RIGHT,
    RULES,
    SECOND,
    START_S,
    Path,
    Run,
    Steps,
    Stream,
    make_env,
    run,
)
from scipy.spatial.transform import Rotation

from envs.panda_env import PicoPandaEnv
from kinematics.frames import Array, rotation

RATES = (50, 100)
DEVICES = (72, 90)
LOST = 0.01
"""Share of samples that never arrive in the noisy streams."""


# What is measured; every function returns figures by name.


@dataclass(frozen=True, slots=True)
class Drag:
    """Hold how the tool follows a hand that is dragged to and fro."""

    delay_ms: float
    """From the hand to the tool, while the hand's speed is steady."""
    from_receive_ms: float
    """Without the samples' way to reception."""
    error_mm: float
    """p95 of the tool's distance from where the hand was that long ago, reversals included."""
    error_deg: float
    """p95 of the angle from how the hand was turned then."""


def drag(made: Run, path: Path) -> Drag:
    """Compare the tool with the hand, mapped on it from where both were at rest."""
    t, tool, turn = made.t, made.tool, made.turn
    first = int(np.searchsorted(t, ENGAGED_S)) - 1
    lag = (tool[first] + path.moves(t) - tool) @ path.way
    steady, speed = path.steady(t), path.speed * path.share(t)
    # The share of the lag that changes its sign with the speed is delay, the rest an offset.
    moments = np.cov(lag[steady], speed[steady])
    delay = float(moments[0, 1] / moments[1, 1])
    moving = t > START_S + 0.3
    error = np.linalg.norm(tool[first] + path.moves(t - delay) - tool, axis=1)
    wanted = Rotation.from_rotvec(path.turns(t - delay)) * rotation(turn[first])
    measured = Rotation.concatenate([rotation(quat) for quat in turn])
    angle = np.degrees((wanted * measured.inv()).magnitude())
    return Drag(
        1e3 * delay,
        1e3 * (delay - made.transport_s),
        1e3 * float(np.percentile(error[moving], 95)),
        float(np.percentile(angle[moving], 95)),
    )


def ripple_mm_s(made: Run, path: Path, timestep: float) -> float:
    """Return how far the tool's speed strays from the hand's, at every physics step, at most."""
    along = made.fine_tool @ path.way
    speed = np.diff(along) / timestep
    t = (np.arange(len(speed)) + 0.5) * timestep
    # A delay of 0.1 s more than any: steady are the hand's speed now and the tool's answer to it.
    steady = path.steady(t) & path.steady(t - 0.1) & (t > START_S + 0.6)
    return 1e3 * float(np.abs(np.abs(speed[steady]) - path.speed).max())


def wrist_noise_nm(made: Run, timestep: float) -> float:
    """Return the rms of what shakes the last three joints' torques, the worst joint's [Nm].

    Shaking is what a running mean of 0.2 s does not follow.
    """
    wide = round(0.2 / timestep)
    torque = made.force[round((START_S + 0.5) / timestep) :, -3:]
    kernel = np.ones(wide) / wide
    slow = np.stack([np.convolve(joint, kernel, "valid") for joint in torque.T], axis=1)
    fast = torque[wide // 2 : wide // 2 + len(slow)] - slow
    return float(np.sqrt((fast**2).mean(axis=0)).max())


def jerk_ratio(rule: str, stream: Stream, seconds: float) -> tuple[float, float]:
    """Return the jerk behind a rule's filter over the raw stream's, rms, of position and rotation.

    Both at the samples' instants, so that nothing is gained by looking more seldom.
    """
    smoother = FILTERS[rule]()
    raw, raw_turn, smooth, smooth_turn = [], [], [], []
    for frame in stream.frames():
        if frame.t_device_ns > seconds * SECOND:
            break
        matrix = frame.controllers[RIGHT].pose.matrix
        smoother.update(frame.t_device_ns, matrix[:, 3], matrix[:, :3])
        position, turn = smoother.evaluate(frame.t_device_ns)
        raw.append(matrix[:, 3])
        raw_turn.append(matrix[:, :3])
        smooth.append(position)
        smooth_turn.append(turn)
    skip = 2 * stream.device_hz
    ratios = []
    for one, other in ((smooth, raw), (_spins(smooth_turn), _spins(raw_turn))):
        jerks = [np.diff(np.array(values)[skip:], 3, axis=0) for values in (one, other)]
        ratios.append(float(np.sqrt((jerks[0] ** 2).sum() / (jerks[1] ** 2).sum())))
    return ratios[0], ratios[1]


def _spins(turns: list[Array]) -> Array:
    """Return the rotation vectors (n, 3) since the hand's first turn."""
    return Rotation.from_matrix(np.array(turns) @ ORIGIN.turn.T).as_rotvec()


def filter_delay_ms(rule: str, device_hz: int) -> float:
    """Return a filter's delay of a motion of 1 Hz, at the samples' instants."""
    smoother = FILTERS[rule]()
    t_ns = np.arange(12 * device_hz) * SECOND // device_hz
    wave = np.sin(2.0 * np.pi * t_ns / SECOND)
    out = []
    for k, now in enumerate(t_ns.tolist()):
        smoother.update(now, np.array([0.1 * wave[k], 0.0, 0.0]), np.eye(3))
        out.append(smoother.evaluate(now)[0][0])
    late = t_ns >= 4 * SECOND
    turning = np.exp(-2j * np.pi * t_ns[late] / SECOND)
    ratio = (np.array(out)[late] @ turning) / (wave[late] @ turning)
    return float(-np.angle(ratio) / (2.0 * np.pi) * 1e3)


def hand_to_ctrl_ms(rule: str, device_hz: int, control_hz: int, count: int) -> float:
    """Return the p95 of the time from a leap of the hand to the first ctrl that knows of it.

    Without transport, so that it is what device and control rate make it.
    """
    rng = np.random.default_rng(device_hz + control_hz)
    times = START_S + 0.5 * (1.0 + np.arange(count)) + rng.uniform(0.0, 0.1, count)
    noise = replace(CLEAN, latency_s=0.0, jitter_s=0.0)
    env = make_env(control_hz)
    made = run(env, RULES[rule], Stream(Steps(times), device_hz, noise), float(times[-1]) + 0.3)
    ctrl = made.ctrl.reshape(-1, made.ctrl.shape[-1])
    step_s = env.model.opt.timestep
    delays = []
    for time in times:
        before = int(time / step_s)
        moved = np.abs(ctrl[before:] - ctrl[before]).max(axis=1) > _NOTICED_RAD
        delays.append((before + int(np.argmax(moved))) * step_s - time)
    return 1e3 * float(np.percentile(delays, 95))


_NOTICED_RAD = 1e-4
"""Of ctrl; a leap changes it by ten times as much at once, the null space by less meanwhile."""


@dataclass(frozen=True, slots=True)
class Leaps:
    """Hold what a long row of faults led to."""

    asked: int
    """Faults that made the rule ask for more than v_max T or omega_max T in one step."""
    accepted: int
    """Faults that made the environment's own target move more than that, drawn back or not."""
    worst: float
    """The most asked for in a step, in units of those."""
    worst_kind: str
    fastest_tool: float
    """m/s of the measured tool from one physics step to the next."""


def leaps(rule: str, device_hz: int, control_hz: int, count: int) -> Leaps:
    """Inject ``count`` random faults into a moving hand's stream.

    Every ``_IN_A_ROW`` of them the arm begins anew in the middle: hand and tool drift apart with
    every new grip, and an arm that is pressed into a corner is another test.
    """
    env = make_env(control_hz)
    asked, accepted, fastest, worst, kind = 0, 0, 0.0, 0.0, "none"
    for seed in range(count // _IN_A_ROW):
        faults = Faults(1000 * device_hz + seed)
        stream = Stream(Path(0.5, 0.5, 0.9), device_hz, seed=seed, spoil=faults)
        made = run(env, RULES[rule], stream, START_S + _IN_A_ROW * SLOT_S)
        share = _shares(env, made.commanded, made.asked, made.turn_commanded, made.turn_asked)
        moved = _shares(
            env,
            made.commanded[:-1],
            made.commanded[1:],
            made.turn_commanded[:-1],
            made.turn_commanded[1:],
        )
        slots = ((made.t - 1.0 / control_hz - START_S) // SLOT_S).astype(int)
        asked += len(set(slots[share > _ROUNDING].tolist()))
        accepted += len(set(slots[:-1][moved > _ROUNDING].tolist()))
        at = int(np.argmax(share))
        if share[at] > worst:
            worst, kind = float(share[at]), faults.kinds[slots[at]]
        step = np.linalg.norm(np.diff(made.fine_tool, axis=0), axis=1) / env.model.opt.timestep
        fastest = max(fastest, float(step.max()))
    return Leaps(asked, accepted, worst, kind, fastest)


def _shares(env: PicoPandaEnv, p: Array, to_p: Array, q: Array, to_q: Array) -> Array:
    """Return the larger part of v_max T and omega_max T that each change of a target is, (n,)."""
    limits, control_hz = env.speed_limits, env.control_hz
    inner = np.abs((q * to_q).sum(axis=1)).clip(0.0, 1.0)
    move = np.linalg.norm(to_p - p, axis=1) * control_hz / limits.linear
    return np.maximum(move, 2.0 * np.arccos(inner) * control_hz / limits.angular)


_IN_A_ROW = 25
_ROUNDING = 1.0 + 1e-5
"""arccos of a quaternion's product near 1 is good to 1e-8 rad, a thousandth of the margin."""


# The table.

DELAY_LIMITS_MS = {50: 50.0, 100: 40.0}
"""From receive to the tool, by control rate."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Hold one figure: of several streams the worst."""

    name: str
    value: float
    limit: float | None = None

    @property
    def ok(self) -> bool:
        """Return whether the limit holds."""
        return self.limit is None or self.value <= self.limit


def filter_figures(rule: str, seconds: float) -> list[Figure]:
    """Measure a rule's filter alone."""
    delay = max(filter_delay_ms(rule, hz) for hz in DEVICES)
    found = [Figure("filter: delay of 1 Hz, ms", delay, 26.0)]
    for words, path in (("moving", Path()), ("still", Path(0.0, 0.0))):
        for hz in DEVICES:
            ratios = jerk_ratio(rule, Stream(path, hz), seconds)
            found += [
                Figure(f"filter: jerk left, {words}, {part}, {hz} Hz", ratio, 0.1)
                for part, ratio in zip(("position", "rotation"), ratios, strict=True)
            ]
    return found


def drag_figures(rule: str, control_hz: int, seconds: float) -> list[Figure]:
    """Measure a drag at 0.2 m/s through everything."""
    env, path = make_env(control_hz), Path()
    noisy = [Stream(path, hz, lost=LOST) for hz in DEVICES]
    clean = [Stream(path, hz, CLEAN) for hz in DEVICES]
    step_s = env.model.opt.timestep
    dragged = [run(env, RULES[rule], stream, seconds) for stream in noisy]
    drags = [drag(made, path) for made in dragged]
    shaking = max(wrist_noise_nm(made, step_s) for made in dragged)
    ripple = max(
        ripple_mm_s(run(env, RULES[rule], stream, seconds), path, step_s) for stream in clean
    )
    at = f"{control_hz} Hz: "
    limit = DELAY_LIMITS_MS[control_hz]
    return [
        Figure(f"{at}hand to tool, ms", max(d.delay_ms for d in drags)),
        Figure(f"{at}of it, from receive, ms", max(d.from_receive_ms for d in drags), limit),
        Figure(f"{at}error after that delay, p95, mm", max(d.error_mm for d in drags), 2.0),
        Figure(f"{at}and degrees", max(d.error_deg for d in drags), 1.0),
        Figure(f"{at}shaking of the wrist's torque, Nm", shaking, 5.0),
        Figure(f"{at}ripple of a clean drag's speed, mm/s", ripple, 8.0),
    ]


def answer_figures(rule: str, control_hz: int, count: int) -> list[Figure]:
    """Measure how long a leap of the hand takes to the first ctrl; the limit is two periods."""
    found = []
    for hz in DEVICES:
        delay, limit = hand_to_ctrl_ms(rule, hz, control_hz, count), 1e3 / control_hz + 1e3 / hz
        found.append(
            Figure(f"{control_hz} Hz: hand to ctrl, p95, ms, device {hz} Hz", delay, limit)
        )
    return found


def fault_figures(rule: str, count: int) -> list[Figure]:
    """Inject ``count`` faults in all."""
    combinations = [(hz, control_hz) for hz in DEVICES for control_hz in RATES]
    each = count // len(combinations)
    found = [leaps(rule, *rates, each) for rates in combinations]
    return [
        Figure("faults: asked of the tool, leaps > v_max T", sum(x.asked for x in found), 0.0),
        Figure("faults: the target's leaps > v_max T", sum(x.accepted for x in found), 0.0),
        Figure("faults: most asked for at once, v_max T", max(x.worst for x in found), 1.0),
        Figure("faults: fastest tool, m/s", max(x.fastest_tool for x in found)),
    ]


def measure(rule: str, quick: bool) -> list[Figure]:
    """Measure all figures of one rule."""
    found = filter_figures(rule, 10.0 if quick else 30.0)
    for control_hz in RATES:
        found += drag_figures(rule, control_hz, 7.0 if quick else 15.0)
        found += answer_figures(rule, control_hz, 20 if quick else 100)
    return found + fault_figures(rule, 100 if quick else 1000)


def table(found: dict[str, list[Figure]]) -> str:
    """Return Markdown: a line a figure, a column a rule."""
    lines = [f"| | {' | '.join(found)} | limit | |", "|---" * (len(found) + 3) + "|"]
    for row in zip(*found.values(), strict=True):
        ours = row[0]
        values = " | ".join(_text(figure.value) for figure in row)
        limit = "" if ours.limit is None else f"<= {_text(ours.limit)}"
        verdict = "" if ours.limit is None else ("ok" if ours.ok else "MISSED")
        lines.append(f"| {ours.name} | {values} | {limit} | {verdict} |")
    return "\n".join(lines)


def _text(value: float) -> str:
    value = 0.0 if abs(value) < 1e-9 else value
    return f"{value:.3g}" if abs(value) < 100.0 else f"{value:.0f}"


def main() -> int:
    """Print the table, or JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quick", action="store_true", help="shorter streams, 100 faults")
    parser.add_argument("--ours", action="store_true", help="without the rules beside")
    options = parser.parse_args()
    rules = ["ours"] if options.ours else list(RULES)
    found = {rule: measure(rule, options.quick) for rule in rules}
    if options.json:
        print(
            json.dumps({rule: [asdict(f) for f in all_] for rule, all_ in found.items()}, indent=2)
        )
    else:
        print(table(found))
    return 0 if all(figure.ok for figure in found["ours"]) else 1


if __name__ == "__main__":
    sys.exit(main())
