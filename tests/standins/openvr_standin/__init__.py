"""A runtime that stands in for SteamVR, so that the real OpenVR library has something to talk to.

``openvr`` (Python) and ``libopenvr_api`` are the real ones; they find the runtime through the path
registry, load its ``vrclient.so`` (ours, compiled from ``vrclient.c``) and call it. What it answers
comes from a file shared with the test, so a program under test may be another process:

    runtime = StandInRuntime(tmp_path, build_library(build_dir))
    os.environ.update(runtime.env)
    runtime.add_controller(3, Side.LEFT, matrix=pose_matrix((-0.2, 1.1, -0.4)))
    runtime.set_inputs(3, grip=1.0)

It does what we believe SteamVR does: it proves our code, not SteamVR.
"""

from .library import build_library, why_not_here
from .player import Player, find_served
from .runtime import StandInRuntime, pose_matrix

__all__ = [
    "Player",
    "StandInRuntime",
    "build_library",
    "find_served",
    "pose_matrix",
    "why_not_here",
]
