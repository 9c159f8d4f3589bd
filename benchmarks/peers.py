"""Measure our environment beside its peers', and what one more object or arm costs ours.

    python benchmarks/peers.py [--folder DIR] [--rounds 15] [--json]

Each peer gets a virtual environment of its own in the folder (kept and used again; without it in a
temporary one: 3 GB, minutes) with the versions below, and a process of its own. The processes take
turns, so that a busy machine slows all; medians over the rounds. A peer that cannot be had is
reported with its last words. Exit code 1 if a target is missed. Needs pip's index; not for CI.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco

from envs.scene import HAND, Prop, compose, make_mounts

ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "benchmarks" / "peer_driver.py"
OURS = ("ours-joint", "ours-ee")
PEERS = {
    # mujoco where the newest that the peer's own limits admit breaks it
    "gymnasium-robotics": ("gymnasium-robotics==1.4.2", "mujoco==3.8.1"),
    "metaworld": ("metaworld==3.1.1", "packaging==25.0"),
    "panda-gym": ("panda-gym==3.0.7",),
    "gym-hil": ("gym-hil==0.1.14",),
    "robosuite": ("robosuite==1.5.2", "mujoco==3.3.7"),
}
"""What pip installs for each."""
TARGETS = {
    "gymnasium-robotics": 1.8,
    "metaworld": 4.0,
    "panda-gym": 4.0,
    "gym-hil": 6.5,
    "robosuite": 14.0,
}
"""Physics steps a second of ours in joint mode, as a multiple of the peer's."""
INSTALL_S, START_S = 900, 120
OBJECTS = (0, 2, 4, 8)
PHYSICS_STEPS = 20
"""Of a scene in a round: short against the machine's other load."""


class UnavailableError(RuntimeError):
    """Report a peer that cannot be had; the message is its last words."""


@dataclass(slots=True)
class Runner:
    """Hold an environment's process, what it told of itself and its rounds [s]."""

    process: "subprocess.Popen[str]"
    facts: dict[str, Any]
    steps: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    def ask(self) -> None:
        """Run one round."""
        answer = _ask(self.process, "go\n")
        self.steps.append(answer["step"])
        if answer["bare"] > 0.0:
            self.ratios.append(answer["step"] / answer["bare"])

    @property
    def rates(self) -> list[float]:
        """Return the physics steps a second of each round."""
        return [self.facts["n_substeps"] / step for step in self.steps]


def _ask(process: "subprocess.Popen[str]", line: str = "") -> dict[str, Any]:
    """Send a line and return the JSON that comes back; UnavailableError when the process ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        answer = process.stdout.readline()
    except OSError:
        answer = ""
    if not answer:
        process.wait(START_S)
        raise UnavailableError(_last_line(process.stderr.read()))
    return json.loads(answer)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "WARNING" not in line]
    return lines[-1].strip() if lines else "ended without a word"


def install(name: str, folder: Path) -> Path:
    """Return the Python of a virtual environment with the peer, made if there is none."""
    home = folder / name
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = home / "installed.txt"
    wanted = "\n".join(PEERS[name])
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return python
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", *PEERS[name]],
    ):
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(str(error)) from error
        if run.returncode:
            raise UnavailableError(_last_line(run.stderr))
    done.write_text(wanted, encoding="utf-8")
    return python


def start(name: str, python: Path, log: Path) -> Runner:
    """Start a peer's process and wait until it has told its versions."""
    environment = dict(os.environ)
    if name in OURS:
        environment["PYTHONPATH"] = str(ROOT)
    environment.setdefault("MUJOCO_GL", "osmesa")  # gym-hil makes a renderer for states too
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        environment.setdefault(threads, "1")  # threads on 7 x 7 matrices only wait for each other
    process = subprocess.Popen(
        [str(python), str(DRIVER), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log.open("w+", encoding="utf-8"),  # a pipe that nobody reads would fill and block
        text=True,
        env=environment,
        cwd=log.parent,
    )
    process.stderr = log.open(encoding="utf-8", errors="replace")
    return Runner(process, _ask(process))


def measure(folder: Path, rounds: int) -> tuple[dict[str, Runner], dict[str, str]]:
    """Return the runners with their rounds, and why a peer is missing."""
    runners: dict[str, Runner] = {}
    missing: dict[str, str] = {}
    for name in (*OURS, *PEERS):
        try:
            python = Path(sys.executable) if name in OURS else install(name, folder)
            runners[name] = start(name, python, folder / f"{name}.log")
            runners[name].ask()  # warms up
            runners[name].steps.clear()
            runners[name].ratios.clear()
        except UnavailableError as error:
            runners.pop(name, None)
            missing[name] = str(error)
        print(f"{name}: {missing.get(name, 'ready')}", file=sys.stderr)
    try:
        for _ in range(rounds):
            for runner in runners.values():
                runner.ask()
    finally:
        for runner in runners.values():
            runner.process.kill()
            runner.process.wait()
    return runners, missing


def _scene(n_arms: int, n_objects: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Return arms at home and cubes of 30 mm at rest on the table, in a row."""
    mounts = make_mounts(n_arms)
    names = [f"extra{i}" for i in range(n_objects)]
    model = compose(mounts, [Prop(name, "small_cube") for name in names])
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    for i, name in enumerate(names):
        data.joint(f"task/{name}/small_cube_joint").qpos[:2] = (0.75, 0.12 * (i - 3.5))
    assert all(data.body(side.prefix + HAND + "hand").id for side in mounts)
    mujoco.mj_step(model, data, 600)  # until they rest
    return model, data


def measure_scenes(rounds: int) -> dict[str, float]:
    """Return the microseconds of a physics step by scene, medians of alternating rounds."""
    scenes = {f"1 arm, {n} cubes": _scene(1, n) for n in OBJECTS} | {
        "2 arms, 0 cubes": _scene(2, 0)
    }
    times: dict[str, list[float]] = {name: [] for name in scenes}
    for _ in range(20 * rounds):
        for name, (model, data) in scenes.items():
            begin = time.perf_counter()
            mujoco.mj_step(model, data, PHYSICS_STEPS)
            times[name].append(1e6 * (time.perf_counter() - begin) / PHYSICS_STEPS)
    return {name: statistics.median(found) for name, found in times.items()}


def rows(runners: dict[str, Runner], missing: dict[str, str]) -> list[dict[str, Any]]:
    """Return the table's rows; multiples are medians of each round's own ratio."""
    found = []
    ours = runners["ours-joint"].rates
    for name, runner in runners.items():
        pairs = zip(ours, runner.rates, strict=True)
        times = statistics.median(mine / theirs for mine, theirs in pairs)
        row = {
            "name": name,
            "versions": runner.facts["versions"],
            "physics": f"{1e3 * runner.facts['timestep']:.3g} ms x {runner.facts['n_substeps']}",
            "step_us": 1e6 * statistics.median(runner.steps),
            "physics_steps_per_s": statistics.median(runner.rates),
            "overhead": statistics.median(runner.ratios) if runner.ratios else None,
            "ours_is": times,
            "target": TARGETS.get(name),
        }
        found.append(row | {"ok": row["target"] is None or times >= row["target"]})
    return found + [{"name": name, "missing": reason} for name, reason in missing.items()]


def table(found: list[dict[str, Any]], scenes: dict[str, float]) -> str:
    """Return both tables in Markdown."""
    lines = [
        "| environment | versions | physics | `env.step` | physics steps/s | step / own `mj_step` |"
        " ours in joint mode is | target | |",
        "|" + "---|" * 9,
    ]
    for row in found:
        if "missing" in row:
            lines.append(f"| {row['name']} | not to be had: {row['missing']} |")
            continue
        versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        overhead = "-" if row["overhead"] is None else f"{row['overhead']:.2f}"
        target = "" if row["target"] is None else f">= {row['target']:g}x"
        verdict = "" if row["target"] is None else "ok" if row["ok"] else "missed"
        lines.append(
            f"| {row['name']} | {versions} | {row['physics']} | {row['step_us']:.0f} us | "
            f"{row['physics_steps_per_s']:.0f} | {overhead} | {row['ours_is']:.2f}x | {target} | "
            f"{verdict} |"
        )
    lines += ["", "| scene | physics step | ratio |", "|---|---|---|"]
    first = next(iter(scenes.values()))
    lines += [f"| {name} | {us:.1f} us | {us / first:.2f} |" for name, us in scenes.items()]
    return "\n".join(lines)


def main() -> int:
    """Print the tables, or JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, help="keeps the peers' virtual environments")
    parser.add_argument("--rounds", type=int, default=15, help="alternating rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        found = rows(*measure(folder, options.rounds))
    scenes = measure_scenes(options.rounds)
    if options.json:
        print(json.dumps({"environments": found, "physics_step_us": scenes}, indent=2))
    else:
        print(table(found, scenes))
    return 0 if all(row.get("ok", True) for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
