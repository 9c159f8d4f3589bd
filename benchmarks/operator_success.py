"""How often the simulated operator succeeds: ``python benchmarks/operator_success.py --seeds 100``.

Every seed is one operator, standing and facing anywhere, and one scene. Success: the task's own,
held for 0.5 s or confirmed with B, within the time limit. Times are simulated seconds.
"""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from teleop_agent.buttons import EpisodeEvent
from teleop_agent.clock import VirtualClock
from teleop_agent.config import TeleopConfig
from teleop_agent.devices.base import SceneView
from teleop_agent.devices.sim import SimConfig, SimDevice
from teleop_agent.devices.sim_faults import FaultKind
from teleop_agent.policy import TeleopPolicy

HELD_S = 0.5
"""For so long success must hold without a press."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Tell how one episode went."""

    seed: int
    success: bool
    seconds: float
    """From reset to the end, waiting included."""
    clutches: int
    losses: int
    """How often an engaged hand was held by a fault of the stream."""
    cpu_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Options:
    """Choose task, seeds and what is off."""

    task: str = "pick"
    seeds: int = 100
    first: int = 0
    """First seed."""
    dropout: bool = False
    """A 0.3 s dropout in every episode."""
    jump: bool = False
    """A 40 cm jump for 50 ms in every episode."""
    frozen: bool = False
    """A pose frozen for 0.4 s in every episode."""
    beliefs_off: bool = False
    """Believed scale off by 10 %, facing by 10 % of a right angle, start by 10 % of an arm."""
    control: str = "ee_delta"
    control_hz: int = 50
    device_hz: int = 90
    limit_s: float = 30.0
    jobs: int = 2
    verbose: bool = False
    """One line an episode."""


def operator(options: Options, seed: int) -> SimConfig:
    """Return the operator's settings; the sign of each error is drawn from the seed."""
    config = SimConfig(device_hz=options.device_hz)
    window = (0.5, 2.0) if options.task == "reach" else config.faults.window_s
    faults = replace(config.faults, window_s=window)
    if options.dropout:
        faults = replace(faults, each_episode=FaultKind.DROPOUT)
    if options.jump:
        faults = replace(faults, each_episode=FaultKind.JUMP, duration_s=0.05)
    if options.frozen:
        faults = replace(faults, each_episode=FaultKind.FROZEN, duration_s=0.4)
    config = replace(config, faults=faults)
    if not options.beliefs_off:
        return config
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], 5)
    mind = replace(
        config.mind, scale_error=0.1 * signs[0], facing_error=0.1 * np.pi / 2.0 * signs[1]
    )
    start = tuple(0.07 / np.sqrt(3.0) * signs[2:])
    return replace(config, mind=mind, body=replace(config.body, start_offset=start))


def run(options: Options, seed: int) -> Outcome:
    """Run one episode."""
    begin = time.process_time()
    env: Any = gym.make(
        "envs:PicoPanda-v0",
        task=options.task,
        control=options.control,
        control_hz=options.control_hz,
        time_limit_s=options.limit_s,
        terminate_on_success=False,
    ).unwrapped
    policy, clock = TeleopPolicy(env, TeleopConfig()), VirtualClock(1_000_000_000)
    with SimDevice(seed, operator(options, seed)) as device:
        seconds, success, why, losses = _episode(env, policy, clock, device, seed)
        clutches = device.clutches
    env.close()
    cpu_s = time.process_time() - begin
    return Outcome(seed, success, seconds, clutches, losses, cpu_s, why)


def _episode(
    env: Any, policy: TeleopPolicy, clock: VirtualClock, device: SimDevice, seed: int
) -> tuple[float, bool, str, int]:
    obs, info = env.reset(seed=seed)
    policy.reset()
    period_ns, start_ns = 1_000_000_000 // env.control_hz, clock.now_ns()
    held, losses, engaged, started, over = 0, 0, False, False, False
    while clock.now_ns() - start_ns < 120_000_000_000:
        now_ns = clock.now_ns()
        step = policy.act(obs, device.read(now_ns), now_ns)
        seconds = (now_ns - start_ns) * 1e-9
        losses += engaged and any(hand.reason is not None for hand in step.hands.values())
        engaged = step.engaged
        if EpisodeEvent.GOOD in step.events:
            success = bool(info["success"])
            return seconds, success, "B" if success else "B too early", losses
        if over or held >= HELD_S * env.control_hz:
            return seconds, not over, "time limit" if over else "held", losses
        started = started or step.engaged
        if started:
            obs, _, _, over, info = env.step(step.action)
            held = held + 1 if info["success"] else 0
        device.watch(
            SceneView(
                t_ns=now_ns,
                tools={side: env.measured(side) for side in env.sides},
                engaged={side: hand.engaged for side, hand in step.hands.items()},
                waypoints=env.guide(),
                running=True,
            )
        )
        clock.sleep_until(now_ns + period_ns)
    return 120.0, False, "never engaged", losses


def report(options: Options, outcomes: list[Outcome]) -> None:
    """Print the table."""
    good = [outcome for outcome in outcomes if outcome.success]
    print(f"{options.task}: {len(good)} of {len(outcomes)} succeed; ends: ", end="")
    print(", ".join(f"{why} {n}" for why, n in Counter(o.why for o in outcomes).most_common()))
    rows: list[tuple[str, Callable[[Outcome], float]]] = [
        ("seconds", lambda o: o.seconds),
        ("clutches", lambda o: o.clutches),
        ("losses", lambda o: o.losses),
        ("CPU s", lambda o: o.cpu_s),
    ]
    print(f"{'':10}{'median':>8}{'p5':>8}{'p95':>8}{'max':>8}")
    for name, value in rows:
        values = [value(outcome) for outcome in outcomes]
        cells = [*np.percentile(values, [50, 5, 95]), max(values)]
        print(f"{name:10}" + "".join(f"{cell:8.2f}" for cell in cells))
    failed = [f"{o.seed} ({o.why}, {o.seconds:.1f} s)" for o in outcomes if not o.success]
    if failed:
        print("failed seeds: " + ", ".join(failed))


def main(options: Options) -> None:
    """Run all seeds and report."""
    seeds = range(options.first, options.first + options.seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(partial(run, options), seeds))
    if options.verbose:
        for outcome in outcomes:
            print(outcome)
    report(options, outcomes)


if __name__ == "__main__":
    main(tyro.cli(Options))
