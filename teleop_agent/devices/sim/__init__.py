"""The simulated operator: a person's body, hands, eyes and mind, who knows no task."""

from .device import SimConfig, SimDevice

__all__ = ["SimConfig", "SimDevice"]
