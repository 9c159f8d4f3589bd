"""Traces: every bit back, clear errors, and the device that plays them."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinematics import Side
from teleop_agent.clock import VirtualClock
from teleop_agent.devices.trace_file import TraceDevice, TraceWriter, read_trace, record_trace
from teleop_agent.devices.trace_format import decode_frame, encode_frame
from teleop_agent.errors import DeviceClosedError, TraceError
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose

MS = 1_000_000

floats = st.floats(allow_nan=True, allow_infinity=True)
poses = st.builds(
    TrackedPose,
    connected=st.booleans(),
    valid=st.booleans(),
    tracked=st.booleans(),
    matrix=st.lists(floats, min_size=12, max_size=12).map(lambda v: np.reshape(v, (3, 4))),
    serial=st.text(st.characters(codec="utf-8")),
)
controllers = st.builds(
    Controller,
    pose=poses,
    input_valid=st.booleans(),
    trigger=floats,
    grip=floats,
    stick=st.tuples(floats, floats),
    buttons=st.integers(0, 7).map(Button),
)
frames = st.builds(
    OperatorFrame,
    seq=st.integers(0, 2**63),
    t_device_ns=st.integers(-(2**63), 2**63),
    t_recv_ns=st.integers(-(2**63), 2**63),
    head=poses,
    controllers=st.fixed_dictionaries(dict.fromkeys(Side, controllers)),
    headset_worn=st.booleans(),
    space=st.integers(0, 2**31 - 1),
)


def simple_frame(seq: int, t_ms: int) -> OperatorFrame:
    t_ns = t_ms * MS
    controller = Controller(TrackedPose(True, True, True, np.full((3, 4), seq / 3)), True, 0.5)
    return OperatorFrame(seq, t_ns - MS, t_ns, TrackedPose(), dict.fromkeys(Side, controller))


def write(path: Path, frames: list[OperatorFrame]) -> Path:
    with TraceWriter(path, "test") as writer:
        for frame in frames:
            writer.write(frame)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of five frames, 10 ms apart, that begins at 1000 ms."""
    return write(tmp_path / "t.jsonl", [simple_frame(n, 1000 + 10 * n) for n in range(5)])


def pose_values(pose: TrackedPose) -> tuple[object, ...]:
    numbers = [repr(value) for value in pose.matrix.ravel().tolist()]
    return (pose.connected, pose.valid, pose.tracked, numbers, pose.serial)


def values(frame: OperatorFrame) -> tuple[object, ...]:
    """Return all of a frame in a form where NaN equals NaN and 0.0 differs from -0.0."""
    hands = [
        (
            pose_values(hand.pose),
            hand.input_valid,
            repr((hand.trigger, hand.grip, *hand.stick)),
            hand.buttons,
        )
        for hand in (frame.controllers[side] for side in Side)
    ]
    times = (frame.seq, frame.t_device_ns, frame.t_recv_ns)
    return (*times, pose_values(frame.head), hands, frame.headset_worn, frame.space)


@given(frames)
def test_a_line_brings_back_every_bit(frame: OperatorFrame) -> None:
    line = encode_frame(frame)
    assert "\n" not in line
    json.loads(line, parse_constant=pytest.fail)  # strict JSON: no NaN or Infinity as words
    assert values(decode_frame(line)) == values(frame)


def test_an_older_line_says_nothing_of_headset_and_space() -> None:
    fields = json.loads(encode_frame(simple_frame(0, 5)))
    del fields["headset_worn"], fields["space"]
    assert values(decode_frame(json.dumps(fields))) == values(simple_frame(0, 5))


def test_a_file_brings_back_its_frames(tmp_path: Path) -> None:
    written = [simple_frame(0, 5), simple_frame(3, 5), simple_frame(4, 16)]  # two were dropped
    path = write(tmp_path / "Größe 手" / "ä.jsonl", written)
    assert [values(frame) for frame in read_trace(path)] == [values(frame) for frame in written]
    header = json.loads(path.read_text(encoding="utf-8").split("\n")[0])
    assert header == {
        "format": "picopanda-operator-trace",
        "version": 1,
        "clock": {"unit": "ns", "kind": "monotonic"},
        "device": "test",
    }
    assert b"\r" not in path.read_bytes()


def test_every_line_is_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with TraceWriter(path, "test") as writer:
        for seq in range(3):
            writer.write(simple_frame(seq, seq))
            assert len(read_trace(path)) == seq + 1
        writer.close()  # and again by the context


def test_a_trace_is_never_overwritten(trace: Path) -> None:
    before = trace.read_bytes()
    with pytest.raises(TraceError, match="exists and is not overwritten"):
        TraceWriter(trace, "test")
    assert trace.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 2, 30, 700])
def test_a_line_cut_short_at_the_end_is_left_out(
    trace: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    trace.write_bytes(trace.read_bytes()[:-cut])
    whole = 5 if cut == 1 else 4  # one byte less is only the newline
    assert len(read_trace(trace)) == whole
    assert ("line 6: cut short, left out" in caplog.text) == (whole == 4)


def test_windows_line_ends_are_read(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes().replace(b"\n", b"\r\n"))
    assert len(read_trace(trace)) == 5


def change(fields: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split("/")
    for name in parents:
        fields = fields[name]
    if value is KeyError:
        del fields[last]
    else:
        fields[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("seq", KeyError, "seq: missing; found t_device_ns, t_recv_ns, head, right, left"),
        ("seq", 1.5, "seq: expected an integer, got 1.5"),
        ("seq", True, "seq: expected an integer, got True"),
        ("seq", 1, "seq must grow, got 1 after 1"),
        ("t_recv_ns", 5, "t_recv_ns must not fall, got 5 after 1010000000"),
        ("head", [], "head: expected an object, got []"),
        ("head/serial", 7, "head: serial: expected a string, got 7"),
        ("left", KeyError, "left: missing"),
        ("left/buttons", 8, "left: buttons: expected a sum of [1, 2, 4], got 8"),
        ("left/grip", "0.5", "left: grip: expected a number or one of nan, inf, -inf, got '0.5'"),
        ("left/stick", [0.0], "left: stick: expected a list of 2 numbers, got [0.0]"),
        ("right/pose/valid", 1, "right: pose: valid: expected true or false, got 1"),
        ("right/pose/matrix", [0] * 11, "right: pose: matrix: expected a list of 12 numbers"),
        ("right/trigger", 10**400, "right: trigger: expected a number within the range of float64"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(
    trace: Path, path: str, value: object, message: str
) -> None:
    lines = trace.read_text(encoding="utf-8").split("\n")
    fields = json.loads(lines[3])
    change(fields, path, value)
    lines[3] = json.dumps(fields)
    trace.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read_trace(trace)
    assert f"{trace}, line 4: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[1]", "expected a JSON object, got list"),
        (b'{"seq": NaN}', "NaN is not JSON"),
        (b'{"seq": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 5_000, "not JSON"),
    ],
)
def test_a_wrong_line_is_named(trace: Path, line: bytes, message: str) -> None:
    lines = trace.read_bytes().split(b"\n")
    lines[2] = line
    trace.write_bytes(b"\n".join(lines))
    with pytest.raises(TraceError) as caught:
        read_trace(trace)
    assert f"{trace}, line 3: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change_header", "message"),
    [
        ({"format": "other"}, "format is 'other', expected 'picopanda-operator-trace'"),
        ({"version": 2}, "version is 2, this program reads 1"),
        ({"clock": {"unit": "s"}}, "clock is {'unit': 's'}, expected"),
    ],
)
def test_a_wrong_header_is_refused(
    trace: Path, change_header: dict[str, object], message: str
) -> None:
    lines = trace.read_text(encoding="utf-8").split("\n")
    lines[0] = json.dumps(json.loads(lines[0]) | change_header)
    trace.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read_trace(trace)
    assert f"{trace}, line 1: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"hello", b"\x89HDF\r\n\x1a\n", b"{}\n"])
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="line 1: not a trace"):
        read_trace(path)


def test_a_trace_without_frames_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no frames"):
        read_trace(write(tmp_path / "t.jsonl", []))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read trace .*none\.jsonl: No such file"):
        TraceDevice(tmp_path / "none.jsonl").connect()


@pytest.mark.parametrize("start_ms", [0, 7, 1000, 500_000])
def test_times_are_shifted_so_that_the_first_read_gets_the_first_frame(
    trace: Path, start_ms: int
) -> None:
    with TraceDevice(trace) as device:
        first = device.read(start_ms * MS)
        assert [frame.t_recv_ns for frame in first] == [start_ms * MS]
        assert first[0].t_device_ns == (start_ms - 1) * MS
        assert device.read((start_ms + 9) * MS) == []
        later = device.read((start_ms + 25) * MS)
        assert [frame.t_recv_ns - start_ms * MS for frame in later] == [10 * MS, 20 * MS]
        assert [frame.seq for frame in device.read((start_ms + 1000) * MS)] == [3, 4]
        with pytest.raises(DeviceClosedError, match="over after 5 frames"):
            device.read((start_ms + 1000) * MS)


def test_recording_a_device_copies_it(
    trace: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    copy = tmp_path / "copy.jsonl"
    with TraceDevice(trace) as device:
        count = record_trace(device, copy, VirtualClock(1000 * MS), name="trace", seconds=10.0)
    assert count == 5
    assert copy.read_bytes().split(b"\n")[1:] == trace.read_bytes().split(b"\n")[1:]


def test_recording_ends_after_its_time(trace: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    with TraceDevice(trace) as device:
        count = record_trace(device, copy, VirtualClock(), name="trace", seconds=0.02)
    assert count == len(read_trace(copy)) == 3
