"""What an observation of an episode means, in attributes."""

from typing import Any

from . import schema
from .errors import RecordError
from .records import EpisodeInfo


def observation_attrs(key: str, info: EpisodeInfo) -> dict[str, Any]:
    """Return the attributes of one observation: the schema's, then those of the info."""
    known = schema.observation_field(key)
    attrs: dict[str, Any] = {}
    if known is not None:
        attrs = {"unit": known.unit, "description": known.meaning}
        if known.names:
            attrs["names"] = list(known.names)
        if known.quat:
            attrs["quat_order"] = "wxyz"
    for name, value in info.observation_attrs.get(key, {}).items():
        attrs[name] = list(value) if isinstance(value, tuple) else value
    missing = {"unit", "description"} - attrs.keys()
    if missing:
        raise RecordError(
            f"observation {key!r} is not in the schema: give its {sorted(missing)} in "
            "EpisodeInfo.observation_attrs"
        )
    return attrs
