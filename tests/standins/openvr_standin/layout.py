"""The memory shared by test and runtime, and the C header with that and OpenVR's own layouts.

Each structure is written once, in Python: OpenVR's by the installed package ``openvr``, the shared
ones here. The C side is generated, so the two cannot drift apart.
"""

import ctypes as ct
from typing import Any

import openvr

DEVICES = 16
EVENTS = 64


class Device(ct.Structure):
    """One tracked device as the runtime knows it."""

    _fields_ = (
        ("device_class", ct.c_uint32),
        ("role", ct.c_uint32),
        ("connected", ct.c_uint32),
        ("valid", ct.c_uint32),
        ("tracking_result", ct.c_uint32),
        ("activity", ct.c_int32),
        ("packet", ct.c_uint32),
        ("pressed", ct.c_uint64),
        ("axes", (ct.c_float * 2) * 5),
        ("matrix", (ct.c_float * 4) * 3),  # T_standing_device
        ("velocity", ct.c_float * 3),  # in the standing frame, m/s
        ("serial", ct.c_char * 64),
        ("controller_type", ct.c_char * 64),
        ("model", ct.c_char * 64),
        ("battery", ct.c_float),  # 0 .. 1; 0 when it does not tell
    )


class Event(ct.Structure):
    """One event in the ring; its place is its number modulo the ring's size."""

    _fields_ = (("kind", ct.c_uint32), ("device", ct.c_uint32))


class World(ct.Structure):
    """What the test decides; the runtime reads it as a whole."""

    _fields_ = (
        ("init_error", ct.c_int32),
        ("server_up", ct.c_uint32),
        ("outdated", ct.c_uint32),
        ("input_available", ct.c_uint32),
        ("dashboard_open", ct.c_uint32),
        ("events_sent", ct.c_uint32),
        ("standing_from_raw", (ct.c_float * 4) * 3),
        ("standing_from_seated", (ct.c_float * 4) * 3),
        ("events", Event * EVENTS),
        ("devices", Device * DEVICES),
    )


class Counters(ct.Structure):
    """What the runtime reports back."""

    _fields_ = (
        ("inits", ct.c_uint32),
        ("cleanups", ct.c_uint32),
        ("application_type", ct.c_uint32),
        ("quit_acknowledgements", ct.c_uint32),
        ("haptic_pulses", ct.c_uint32 * DEVICES),
        ("haptic_us", ct.c_uint32 * DEVICES),  # of the last pulse
    )


class Shared(ct.Structure):
    """The shared file. ``sequence`` is odd while the test writes ``world``."""

    _fields_ = (("sequence", ct.c_uint32), ("world", World), ("counters", Counters))


_CONSTANTS = (
    "VRInitError_",
    "TrackedProp_",
    "TrackedDeviceClass_",
    "TrackingUniverse",
    "TrackingResult_",
    "VRApplication_",
    "k_EDeviceActivityLevel_",
    "Prop_SerialNumber_String",
    "Prop_ControllerType_String",
    "Prop_ModelNumber_String",
    "Prop_DeviceBatteryPercentage_Float",
    "k_unTrackedDeviceIndexInvalid",
)

_INTEGERS = {1: "8", 2: "16", 4: "32", 8: "64"}


def c_header() -> str:
    """Return the header ``layout.h`` that ``vrclient.c`` includes."""
    lines = ["/* Generated from the installed Python package openvr and layout.py. */"]
    lines += ["#include <stdint.h>", ""]
    lines += [f'#define SYSTEM_VERSION "{openvr.IVRSystem_Version}"']
    lines += [f'#define OVERLAY_VERSION "{openvr.IVROverlay_Version}"']
    lines += [f"#define DEVICES {DEVICES}u", f"#define EVENTS {EVENTS}u", ""]
    lines += [
        f"#define {name} {int(value)}"
        for name, value in vars(openvr).items()
        if name.startswith(_CONSTANTS) and isinstance(value, int)
    ]
    for prefix, table in (("", openvr.IVRSystem_FnTable), ("OVERLAY_", openvr.IVROverlay_FnTable)):
        slots = [f"  {prefix}SLOT_{name}," for name, *_ in table._fields_]
        lines += ["", "enum {", *slots, f"  {prefix}SLOTS", "};", ""]
    seen: set[str] = set()
    for structure in (
        openvr.TrackedDevicePose_t,
        openvr.VRControllerState_t,
        openvr.VREvent_t,
        Shared,
    ):
        lines += _c_structure(structure, seen)
    return "\n".join(lines) + "\n"


def _c_structure(structure: type[ct.Structure], seen: set[str]) -> list[str]:
    """Return the definition of ``structure``, after those it is made of, each once."""
    name = structure.__name__
    if name in seen:
        return []
    seen.add(name)
    lines: list[str] = []
    body: list[str] = []
    for field, kind, *_ in structure._fields_:
        element: Any = kind
        suffix = ""
        while issubclass(element, ct.Array):
            element, suffix = element._type_, f"{suffix}[{element._length_}]"
        if issubclass(element, ct.Structure):
            lines += _c_structure(element, seen)
        body.append(f"  {_c_type(element)} {field}{suffix or _union_size(element)};")
    pack = getattr(structure, "_pack_", 0)
    lines += [f"#pragma pack(push, {pack})"] if pack else []
    lines += ["typedef struct {", *body, f"}} {name};"]
    lines += ["#pragma pack(pop)"] if pack else []
    return [*lines, f'_Static_assert(sizeof({name}) == {ct.sizeof(structure)}, "{name}");', ""]


def _c_type(kind: type) -> str:
    if issubclass(kind, ct.Structure):
        return kind.__name__
    if issubclass(kind, ct.Union):
        return "uint8_t"  # never read by field here: bytes of the right number do
    code = kind._type_  # type: ignore[attr-defined]
    if code in "fdc":
        return {"f": "float", "d": "double", "c": "char"}[code]
    return f"{'u' if code.isupper() else ''}int{_INTEGERS[ct.sizeof(kind)]}_t"


def _union_size(kind: type) -> str:
    return f"[{ct.sizeof(kind)}]" if issubclass(kind, ct.Union) else ""
