"""Checks of the computer: Python, MuJoCo, pictures, disk, timer, priority."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np

from .clock import RealClock
from .findings import Finding, fault, ok, warning

PYTHONS = ((3, 11), (3, 13))
"""First and last that the project is tested with."""
LOW_DISK_BYTES, NO_DISK_BYTES = 2 * 10**9, 2 * 10**8
BYTES_PER_HOUR = 0.7e9
"""Of recorded demonstrations: 0.18 MB a second with two arms, without pictures."""
_PICTURE = """
import gymnasium
env = gymnasium.make("envs:PicoPanda-v0", render_mode="rgb_array", width=64, height=48)
env.reset(seed=0)
from envs.rendering import choose_backend
picture = env.render()
assert picture.std() > 1.0, "the picture is empty"
print(choose_backend())
"""
_PICTURE_TIMEOUT_S = 120.0


def check_computer(folder: Path) -> Iterator[Finding]:
    """Look at all that has nothing to do with the headset; ``folder`` is where episodes go."""
    yield check_python(sys.version_info[:2])
    yield ok("MuJoCo", f"{mujoco.__version__}, NumPy {np.__version__}")
    yield check_pictures()
    yield check_disk(folder)
    yield check_timer()


def check_python(version: tuple[int, int]) -> Finding:
    """Compare a version with those that the project is tested with."""
    first, last = PYTHONS
    name = f"{version[0]}.{version[1]}, {platform.system()} {platform.machine()}"
    if first <= version <= last:
        return ok("Python", name)
    range_ = f"{first[0]}.{first[1]} to {last[0]}.{last[1]}"
    return warning("Python", name, f"make the virtual environment with Python {range_}")


def check_pictures(timeout_s: float = _PICTURE_TIMEOUT_S) -> Finding:
    """Draw one picture in a process of its own: a broken OpenGL may take its process along."""
    what = "OpenGL"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PICTURE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        found = f"no picture within {timeout_s:g} s"
        return warning(what, found, "update the graphics driver; MUJOCO_GL names another backend")
    if done.returncode == 0:
        return ok(what, f"draws with {done.stdout.split()[-1]}")
    last = done.stderr.strip().splitlines()[-1:] or [f"ended with code {done.returncode}"]
    fix = "recording works without; for pictures and the window do what the message says"
    return warning(what, last[0], fix)


def check_disk(folder: Path) -> Finding:
    """See whether there is room for episodes in the folder, or where it is going to be."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return fault("disk", f"{there}: {error}", "mend the folder or record elsewhere (--out)")
    found = f"{free / 1e9:.1f} GB free for {folder}: {free / BYTES_PER_HOUR:.0f} h of recording"
    fix = "free space, or record elsewhere: collect.py --out FOLDER"
    if free < NO_DISK_BYTES:
        return fault("disk", found, fix)
    return warning("disk", found, fix) if free < LOW_DISK_BYTES else ok("disk", found)


def check_timer(waits: int = 150) -> Finding:
    """Measure how late a sleeping thread wakes up, as the control loop sleeps."""
    clock, late_ms = RealClock(), []
    for _ in range(waits):
        deadline = clock.now_ns() + 2_000_000
        clock.sleep_until(deadline)
        late_ms.append((clock.now_ns() - deadline) * 1e-6)
    worst = float(np.percentile(late_ms, 95))
    found = f"wakes up {np.median(late_ms):.2f} ms late, 95 % of the time below {worst:.2f} ms"
    if worst < 1.0:
        return ok("timer", found)
    return warning("timer", found, "close other programs; plug the laptop in; end power saving")
