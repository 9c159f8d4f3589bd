"""Why a sample did not move the robot, and in what state a hand is."""

from enum import StrEnum


class Reason(StrEnum):
    """Say why a sample was refused or an arm is held; the value is fit for a status line."""

    NO_SAMPLE = "no sample yet"
    DISCONNECTED = "controller not connected"
    INVALID = "pose not valid"
    UNTRACKED = "tracking lost"
    NON_FINITE = "pose not finite"
    ZERO = "pose all zero"
    IDENTITY = "pose is the runtime's default"
    NOT_RIGID = "rotation not orthonormal"
    MIRRORED = "rotation mirrored"
    OTHER_DEVICE = "another controller took this hand"
    JUMP = "pose jumped"
    SETTLING = "pose not yet consistent"
    STALE = "no fresh sample"
    FROZEN = "pose frozen"
    INPUT_INVALID = "buttons not readable (dashboard open?)"
    REPEAT = "same pose again, between two measurements"
    DUPLICATE_STAMP = "time stamp repeated"
    OLD_STAMP = "time stamp in the past"
    FUTURE_STAMP = "time stamp in the future"
    LATE = "sample arrived late"
    CLOCK_RESTART = "sender restarted its clock"
    STALLED = "control loop stood still"
    RECENTRED = "play space recentred"
    HEADSET_OFF = "headset taken off"
    NO_FACING = "facing unknown: headset pose not usable"
    GAZE_VERTICAL = "headset looks straight up or down"


PASSING = frozenset(
    {
        Reason.REPEAT,
        Reason.SETTLING,
        Reason.DUPLICATE_STAMP,
        Reason.OLD_STAMP,
        Reason.FUTURE_STAMP,
        Reason.LATE,
    }
)
"""Reasons to skip one sample; every other reason holds the arm. A stream of nothing but skipped
samples goes stale, which holds it too."""


class HandState(StrEnum):
    """Name the state of one hand's clutch."""

    RELEASED = "released"
    """The arm holds; a squeeze counts once the grip was seen open (start, reset, new facing)."""
    READY = "ready"
    """The arm holds; the grip was seen open, so the next squeeze engages."""
    ENGAGED = "engaged"
    """The arm follows the hand."""
    HELD = "held"
    """A fault holds arm and gripper; the stream must mend and the grip must be seen open."""
