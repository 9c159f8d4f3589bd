"""One operator frame as one line of text, and back, without losing a bit.

A trace is UTF-8 text of JSON lines. The first holds the format's name and version, the name of
the recorded device and the unit and kind of the times. Every other line is one ``OperatorFrame``:
matrices are lists of 12 numbers, row by row; numbers that JSON has not are the strings ``"nan"``,
``"inf"`` and ``"-inf"``; ``buttons`` is the value of ``Button``. ``headset_worn`` and ``space`` may
be missing, as they are in older traces: true and 0 then.
"""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from kinematics import Side

from ..errors import TraceError
from ..frame import Button, Controller, OperatorFrame, TrackedPose

FORMAT = "picopanda-operator-trace"
VERSION = 1
CLOCK = {"unit": "ns", "kind": "monotonic"}

_T = TypeVar("_T")
_BUTTON_VALUES = range(int(Button.PRIMARY | Button.SECONDARY | Button.STICK) + 1)


def encode_header(device: str) -> str:
    """Return the first line of a trace of ``device``."""
    header = {"format": FORMAT, "version": VERSION, "clock": CLOCK, "device": device}
    return json.dumps(header, ensure_ascii=False)


def check_header(line: bytes | str) -> None:
    """Raise TraceError unless ``line`` opens a trace that this module reads."""
    try:
        header = _parse(line)
    except TraceError as error:
        raise TraceError(f"not a trace: expected its header, {error}") from error
    if header.get("format") != FORMAT:
        raise TraceError(f"not a trace: format is {header.get('format')!r}, expected {FORMAT!r}")
    if header.get("version") != VERSION:
        raise TraceError(
            f"version is {header.get('version')!r}, this program reads {VERSION}: record it again"
        )
    if header.get("clock") != CLOCK:
        raise TraceError(f"clock is {header.get('clock')!r}, expected {CLOCK}")


def encode_frame(frame: OperatorFrame) -> str:
    """Return ``frame`` as one line of strict JSON, without the line's end."""
    fields: dict[str, Any] = {
        "seq": frame.seq,
        "t_device_ns": frame.t_device_ns,
        "t_recv_ns": frame.t_recv_ns,
        "head": _pose_fields(frame.head),
    }
    for side in Side:
        controller = frame.controllers[side]
        fields[side.value] = {
            "pose": _pose_fields(controller.pose),
            "input_valid": controller.input_valid,
            "trigger": _number_field(controller.trigger),
            "grip": _number_field(controller.grip),
            "stick": [_number_field(value) for value in controller.stick],
            "buttons": int(controller.buttons),
        }
    fields |= {"headset_worn": frame.headset_worn, "space": frame.space}
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode_frame(line: bytes | str) -> OperatorFrame:
    """Return the frame in ``line``; raise TraceError that names what is wrong."""
    fields = _parse(line)
    return OperatorFrame(
        seq=_get(fields, "seq", _integer),
        t_device_ns=_get(fields, "t_device_ns", _integer),
        t_recv_ns=_get(fields, "t_recv_ns", _integer),
        head=_get(fields, "head", _pose),
        controllers={side: _get(fields, side.value, _controller) for side in Side},
        headset_worn=_get({"headset_worn": True} | fields, "headset_worn", _flag),
        space=_get({"space": 0} | fields, "space", _integer),
    )


def is_whole(line: bytes) -> bool:
    """Return whether ``line`` is complete; a JSON object that was cut short never parses."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _pose_fields(pose: TrackedPose) -> dict[str, Any]:
    return {
        "connected": pose.connected,
        "valid": pose.valid,
        "tracked": pose.tracked,
        "matrix": [_number_field(value) for value in pose.matrix.ravel().tolist()],
        "serial": pose.serial,
    }


def _number_field(value: float) -> float | str:
    """Return what JSON can hold; Python writes floats so that reading gives the same bits."""
    return float(value) if math.isfinite(value) else str(float(value))


def _parse(line: bytes | str) -> dict[str, Any]:
    def refuse(word: str) -> NoReturn:
        raise TraceError(f"{word} is not JSON; non-finite numbers are the strings nan, inf, -inf")

    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        value = json.loads(text, parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise TraceError(f"not UTF-8 ({error})") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise TraceError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _get(fields: dict[str, Any], key: str, convert: Callable[[Any], _T]) -> _T:
    """Return a field, converted; an error inside it says the path that leads to it."""
    if key not in fields:
        raise TraceError(f"{key}: missing; found {', '.join(fields) or 'nothing'}")
    try:
        return convert(fields[key])
    except TraceError as error:
        raise TraceError(f"{key}: {error}") from error


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TraceError(f"expected an object, got {value!r}")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TraceError(f"expected an integer, got {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TraceError(f"expected true or false, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TraceError(f"expected a string, got {value!r}")
    return value


def _number(value: Any) -> float:
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TraceError(f"expected a number or one of nan, inf, -inf, got {value!r}")
    try:
        return float(value)
    except OverflowError as error:
        raise TraceError("expected a number within the range of float64") from error


def _numbers(value: Any, count: int) -> list[float]:
    if not isinstance(value, list) or len(value) != count:
        raise TraceError(f"expected a list of {count} numbers, got {value!r}")
    return [_number(item) for item in value]


def _pose(value: Any) -> TrackedPose:
    fields = _object(value)
    matrix = _get(fields, "matrix", lambda item: _numbers(item, 12))
    return TrackedPose(
        connected=_get(fields, "connected", _flag),
        valid=_get(fields, "valid", _flag),
        tracked=_get(fields, "tracked", _flag),
        matrix=np.reshape(matrix, (3, 4)),
        serial=_get(fields, "serial", _text),
    )


def _stick(value: Any) -> tuple[float, float]:
    x, y = _numbers(value, 2)
    return x, y


def _buttons(value: Any) -> Button:
    if _integer(value) not in _BUTTON_VALUES:
        raise TraceError(f"expected a sum of {[int(b) for b in Button if b]}, got {value}")
    return Button(value)


def _controller(value: Any) -> Controller:
    fields = _object(value)
    return Controller(
        pose=_get(fields, "pose", _pose),
        input_valid=_get(fields, "input_valid", _flag),
        trigger=_get(fields, "trigger", _number),
        grip=_get(fields, "grip", _number),
        stick=_get(fields, "stick", _stick),
        buttons=_get(fields, "buttons", _buttons),
    )
