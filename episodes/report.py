"""Draw an episode: where hand, target and tool went, what acted when, and some pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kinematics import Side

from . import schema
from .arrays import runs
from .environment import edit_as_recorded, make_env, stored_model
from .errors import EpisodesError, MissingExtraError
from .reader import Episode
from .symptoms import marks
from .tool import tool_site

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_PICTURES = 6
MIN_SPAN = 0.02
"""m; the least that an axis shows, so that noise does not look like motion."""
COLOURS = {"hand": "tab:green", "target": "tab:orange", "tool": "tab:blue"}


def report(episode: Episode, out: Path) -> list[str]:
    """Draw an episode into a PNG and return remarks, such as why there are no pictures."""
    figure_class = _figure_class()
    pictures, remarks = pictures_of(episode)
    sides = episode.sides
    height = 2.4 + 7.5 * len(sides)
    figure = figure_class(figsize=(14, height), layout="constrained")
    success = "success" if episode.success else "no success"
    figure.suptitle(
        f"{episode.task}  {episode.name}  seed {episode.seed}  {episode.n_rows} rows at "
        f"{episode.attrs['control_hz']} Hz  {success}  ({episode.attrs['end_reason']})"
    )
    strips = figure.subfigures(
        1 + len(sides), 1, height_ratios=[2.4, *(7.5 for _ in sides)], squeeze=False
    )[:, 0]
    _draw_pictures(strips[0], pictures, remarks)
    for robot, side in enumerate(sides):
        _draw_side(strips[robot + 1], episode, robot, side)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=90, format="png")
    return remarks


def hand_path(episode: Episode, side: Side) -> npt.NDArray[np.float64]:
    """Return the hand's path (T, 3) [m] in world, as each row's mapping places it."""
    points = episode.array(f"operator/{side}_filtered_pose")[:, :3]
    transforms = episode.array(f"operator/{side}_T_world_tracking")
    return np.einsum("tij,tj->ti", transforms[:, :3, :3], points) + transforms[:, :3, 3]


def met_at_engagement(
    hand: npt.NDArray[np.float64],
    target: npt.NDArray[np.float64],
    engaged: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Return the hand's path (T, 3) shifted to meet the target in the first engaged row."""
    known = np.flatnonzero(engaged & np.isfinite(hand).all(axis=1))
    return hand + (target[known[0]] - hand[known[0]]) if len(known) else hand


def tool_path(episode: Episode, robot: int, side: Side) -> npt.NDArray[np.float64]:
    """Return the tool's path (T, 3) [m] in world: observed, or else from the states."""
    observations = episode.observations()
    key = f"robot{robot}_eef_pos"
    if key in observations:
        return observations[key].astype(np.float64)
    holder = stored_model(episode)
    site = tool_site(holder.model, side)
    if site is None:
        return np.full((episode.n_rows, 3), np.nan)
    points: list[npt.NDArray[np.float64]] = []
    for state in episode.array(schema.STATES):
        holder.restore(state)
        points.append(holder.data.site_xpos[site].copy())
    return np.stack(points)


def pictures_of(
    episode: Episode, count: int = N_PICTURES
) -> tuple[list[tuple[int, npt.NDArray[np.uint8]]], list[str]]:
    """Render rows spread over the episode; no pictures and a remark where that is impossible."""
    states = episode.array(schema.STATES)
    rows = sorted({int(row) for row in np.linspace(0, len(states) - 1, count)})
    try:
        env = make_env(episode, render_mode="rgb_array")
    except EpisodesError as error:
        return [], [f"no pictures: {error}"]
    found: list[tuple[int, npt.NDArray[np.uint8]]] = []
    try:
        edit_as_recorded(episode, env)
        for row in rows:
            env.restore(states[row])
            found.append((row, np.asarray(env.render(), dtype=np.uint8)))
    except Exception as error:  # each OpenGL back end fails with errors of its own
        return [], [f"no pictures: rendering failed ({error}); is an OpenGL library installed?"]
    finally:
        env.close()
    return found, []


def _figure_class() -> "type[Figure]":
    try:
        from matplotlib.figure import Figure  # the canvas without a display, no global state
    except ImportError as error:
        raise MissingExtraError(
            'a report needs matplotlib: python -m pip install -e ".[plot]"'
        ) from error
    return Figure


def _draw_pictures(
    figure: Any, pictures: list[tuple[int, npt.NDArray[np.uint8]]], remarks: list[str]
) -> None:
    if not pictures:
        text = "\n".join(remarks) or "no pictures"
        figure.text(0.5, 0.5, text, ha="center", va="center", wrap=True, color="tab:red")
        return
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    for axis, (row, picture) in zip(axes, pictures, strict=True):
        axis.imshow(picture)
        axis.set_title(f"row {row}", fontsize=8)
        axis.axis("off")


def _draw_side(figure: Any, episode: Episode, robot: int, side: Side) -> None:
    time = episode.array(schema.T_SIM)
    target = episode.array(f"control/robot{robot}_accepted_pos")
    engaged = episode.array(f"operator/{side}_clutch")
    paths = {
        "hand": met_at_engagement(hand_path(episode, side), target, engaged),
        "target": target,
        "tool": tool_path(episode, robot, side),
    }
    grid = figure.add_gridspec(5, 2, width_ratios=[3, 2], height_ratios=[3, 3, 3, 2, 2])
    left = [figure.add_subplot(grid[0, 0])]
    left += [figure.add_subplot(grid[row, 0], sharex=left[0]) for row in range(1, 5)]
    left[0].set_title(
        f"robot{robot}, {side} hand (shifted to meet the target at first engagement)", fontsize=9
    )
    for axis, column, name in zip(left, range(3), schema.XYZ, strict=False):
        for label, path in paths.items():
            axis.plot(time, path[:, column], label=label, color=COLOURS[label], linewidth=1.2)
        axis.set_ylabel(f"{name} [m]")
        _at_least(axis, MIN_SPAN)
    left[0].legend(fontsize=8, loc="upper right")
    _draw_gripper(left[3], episode, robot, side, time)
    _draw_flags(left[4], episode, robot, side, time)
    top = figure.add_subplot(grid[0:2, 1])
    _draw_view(top, paths, (0, 1), "from above")
    beside = figure.add_subplot(grid[2:5, 1])
    _draw_view(beside, paths, (0, 2), "from the side")


def _at_least(axis: "Axes", span: float) -> None:
    low, high = axis.get_ylim()
    if high - low < span:
        middle = (low + high) / 2.0
        axis.set_ylim(middle - span / 2.0, middle + span / 2.0)
    axis.ticklabel_format(axis="y", style="plain", useOffset=False)


def _draw_view(
    axis: "Axes", paths: dict[str, npt.NDArray[np.float64]], columns: tuple[int, int], title: str
) -> None:
    across, up = columns
    for label, path in paths.items():
        axis.plot(path[:, across], path[:, up], color=COLOURS[label], linewidth=1.2)
        known = path[np.isfinite(path).all(axis=1)]
        if len(known):
            axis.plot(known[0, across], known[0, up], "o", color=COLOURS[label], markersize=4)
    axis.set_title(f"{title} (dot: start)", fontsize=8)
    axis.set_xlabel(f"{schema.XYZ[across]} [m]")
    axis.set_ylabel(f"{schema.XYZ[up]} [m]")
    axis.set_aspect("equal", adjustable="datalim")


def _draw_gripper(
    axis: "Axes", episode: Episode, robot: int, side: Side, time: npt.NDArray[np.float64]
) -> None:
    axis.plot(time, episode.array(f"operator/{side}_trigger"), label="trigger", color="tab:green")
    axis.plot(time, episode.array(f"operator/{side}_closure"), label="closure", color="tab:orange")
    axis.set_ylim(-0.05, 1.05)
    axis.set_ylabel("0 .. 1")
    opening = episode.observations().get(f"robot{robot}_gripper_qpos")
    if opening is not None:
        metres = axis.twinx()
        metres.plot(time, 1e3 * opening.reshape(len(time), -1).sum(axis=1), color="tab:blue")
        metres.set_ylabel("opening [mm]", color="tab:blue")
    axis.legend(fontsize=8, loc="upper right")


def _draw_flags(
    axis: "Axes", episode: Episode, robot: int, side: Side, time: npt.NDArray[np.float64]
) -> None:
    strips = flags_of(episode, robot, side) | marks(episode, side)
    step = float(time[1] - time[0]) if len(time) > 1 else 1.0
    for level, (_, on) in enumerate(strips.items()):
        spans = [(time[start], time[end - 1] + step - time[start]) for start, end in runs(on)]
        axis.broken_barh(spans, (level - 0.35, 0.7), color=f"C{level % 10}")
    axis.set_yticks(range(len(strips)), list(strips), fontsize=7)
    axis.set_ylim(-0.6, len(strips) - 0.4)
    axis.set_xlabel("simulated time [s]")


def flags_of(episode: Episode, robot: int, side: Side) -> dict[str, npt.NDArray[np.bool_]]:
    """Return what was on in which row (T,): engagement, lateness, every limit that acted."""
    found = {
        "engaged": episode.array(f"operator/{side}_clutch"),
        "fine": episode.array(f"operator/{side}_fine"),
        "tracking lost": ~episode.array(f"operator/{side}_tracking_valid"),
        "late": episode.array("timing/overrun"),
        schema.SUCCESS: episode.array(schema.SUCCESS),
    }
    path = f"control/robot{robot}_clamps"
    clamps, attrs = episode.array(path), episode.dataset_attrs(path)
    for name, bit in zip(attrs.get("flags", ()), attrs.get("bits", ()), strict=False):
        found[f"limit: {name}"] = (clamps & np.uint32(bit)) != 0
    always = ("engaged", schema.SUCCESS)
    return {name: on for name, on in found.items() if name in always or on.any()}


def default_out(episode: Episode) -> Path:
    """Return where a report goes unless told otherwise: beside the episode's file."""
    return episode.path.with_name(f"{episode.name}.png")
