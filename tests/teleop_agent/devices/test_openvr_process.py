"""Recording SteamVR's stream from another process, as a user's program does."""

import os
import subprocess
import sys
from pathlib import Path

from openvr_standin import Player, StandInRuntime, find_served, pose_matrix
from watching import wait_for

from kinematics import Side
from teleop_agent.devices.trace_file import read_trace
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose

RECORD = """
import sys
from pathlib import Path
from teleop_agent.clock import RealClock
from teleop_agent.devices import make_device
from teleop_agent.devices.trace_file import record_trace

with make_device("openvr") as device:
    print("connected", flush=True)
    record_trace(device, Path(sys.argv[1]), RealClock(), name="openvr", seconds=60.0)
"""


def stream(count: int) -> list[OperatorFrame]:
    """Return ``count`` frames at 72 Hz whose hands move and press differently."""
    frames: list[OperatorFrame] = []
    for n in range(count):
        hands = {
            Side.RIGHT: Controller(
                TrackedPose(True, True, True, pose_matrix((0.01 * n, 1.0, -0.4))),
                input_valid=True,
                grip=n / 64,
                buttons=Button(n % 8),
            ),
            Side.LEFT: Controller(
                TrackedPose(n % 10 != 9, True, n % 4 != 3, pose_matrix((-0.2, 0.02 * n, 1 / 3)))
            ),
        }
        head = TrackedPose(True, True, True, pose_matrix((0.0, 1.6, 0.001 * n)))
        frames.append(OperatorFrame(n, n * 13_888_889, n * 13_888_889, head, hands))
    return frames


def test_another_process_records_what_was_served(runtime: StandInRuntime, tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    player = Player(runtime, stream(40))
    command = [sys.executable, "-c", RECORD, str(path)]
    process = subprocess.Popen(
        command, env=os.environ | runtime.env, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "connected\n"
        with player:
            player.wait()
        # An event must not overtake the last frame.
        wait_for(lambda: find_served(read_trace(path), player.served)[-1] == 39)
        runtime.quit()
        assert process.wait(20) == 0
    recorded = read_trace(path)
    found = find_served(recorded, player.served)
    for frame, index in zip(recorded, found, strict=True):
        served = player.served[index]
        assert frame.t_recv_ns >= served.t_recv_ns
        for side in Side:
            pose, there = frame.controllers[side].pose, served.controllers[side].pose
            assert (pose.connected, pose.tracked) == (there.connected, there.tracked)
    assert runtime.counters.quit_acknowledgements == 1
