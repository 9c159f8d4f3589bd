"""``python -m teleop_agent``: what it writes, says and returns."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from teleop_agent.commands import main
from teleop_agent.devices.trace_file import TraceDevice, read_trace


def run(*args: object) -> int:
    return main([str(arg) for arg in args])


def test_a_trace_holds_what_the_device_published(tmp_path: Path, capsys) -> None:
    path = tmp_path / "a b" / "spur é.jsonl"
    assert run("record-trace", path, "--device", "sim", "--seconds", 2, "--seed", 7) == 0
    frames = read_trace(path)
    assert 175 <= len(frames) <= 181  # 90 a second, some still on their way
    assert f"{len(frames)} frames in" in capsys.readouterr().out
    copy = tmp_path / "copy.jsonl"
    assert run("record-trace", copy, "--device", f"trace:{path}") == 0, "ends with the stream"
    again = read_trace(copy)
    # Times are shifted alike, and the rest is untouched.
    shift = again[0].t_recv_ns - frames[0].t_recv_ns
    assert [frame.t_device_ns + shift for frame in frames] == [f.t_device_ns for f in again]
    assert all(
        (one.head.matrix == two.head.matrix).all() and one.seq == two.seq
        for one, two in zip(frames, again, strict=True)
    )


def test_what_cannot_be_is_said(tmp_path: Path, capsys) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("mine", encoding="utf-8")
    assert run("record-trace", path, "--device", "sim", "--seconds", 1) == 1
    assert "is not overwritten" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert run("record-trace", tmp_path / "u", "--device", "simm") == 2
    assert "choose one of" in capsys.readouterr().err
    assert run("record-trace", tmp_path / "u", "--device", "sim") == 2
    assert "--seconds" in capsys.readouterr().err
    assert run("record-trace", tmp_path / "u", "--device", "sim", "--seconds", -1) == 2
    assert run("record-trace", path / "below", "--device", "sim", "--seconds", 1) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert run("record-trace", tmp_path / "u", "--device", f"trace:{tmp_path / 'none'}") == 1
    assert "cannot read trace" in capsys.readouterr().err
    assert not (tmp_path / "u").exists()


def test_devices_are_listed(capsys) -> None:
    assert run("devices") == 0
    assert "trace:FILE" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to another process")
def test_ctrl_c_keeps_what_was_written(tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    run("record-trace", long, "--device", "sim", "--seconds", 100)
    frames, path = read_trace(long), tmp_path / "part.jsonl"
    program = subprocess.Popen(
        [sys.executable, "-m", "teleop_agent", "record-trace", path, "--device", f"trace:{long}"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    with program:
        while not (path.exists() and path.stat().st_size > 20_000):
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    kept = read_trace(path)
    assert 0 < len(kept) < len(frames)
    assert f"{len(kept)} frames in".encode() in out
    device = TraceDevice(path)
    with device:
        assert device.read(0)
