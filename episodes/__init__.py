"""Episodes on disk: schema, recorder, reader, replay; never imports teleop_agent or envs."""

from .compiled import CompiledModel, state_components
from .dataset import DatasetConfig, DemonstrationDataset, Statistics, open_dataset
from .errors import (
    EpisodesError,
    ExportError,
    FileFormatError,
    MissingExtraError,
    RecordError,
    ReplayError,
    RunError,
    WriteError,
)
from .quality import Quality
from .recorder import Recorder
from .records import (
    NO_TIME,
    EpisodeInfo,
    EpisodeResult,
    HandRecord,
    Outcome,
    RawDevice,
    RawFrame,
    StepRecord,
)
from .repair import left_by_crashes
from .run import Run, RunSpec
from .writer import Save

__all__ = [
    "NO_TIME",
    "CompiledModel",
    "DatasetConfig",
    "DemonstrationDataset",
    "EpisodeInfo",
    "EpisodeResult",
    "EpisodesError",
    "ExportError",
    "FileFormatError",
    "HandRecord",
    "MissingExtraError",
    "Outcome",
    "Quality",
    "RawDevice",
    "RawFrame",
    "RecordError",
    "Recorder",
    "ReplayError",
    "Run",
    "RunError",
    "RunSpec",
    "Save",
    "Statistics",
    "StepRecord",
    "WriteError",
    "left_by_crashes",
    "open_dataset",
    "state_components",
]
