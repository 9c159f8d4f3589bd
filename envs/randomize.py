"""Draw how an episode's world differs from the model: what is seen, and how it moves.

Every number comes from the episode's seed. What is drawn goes into the model and is handed out as
edits (``kinematics.edits``), which a recording stores and a replay puts back. ``visual`` changes
nothing but pictures: distractors touch nothing and have no joints, so that the same seed gives the
same states with it or without.
"""

import colorsys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from scipy.spatial.transform import Rotation

from kinematics.edits import ModelEditor, ModelEdits
from kinematics.frames import Array, quat_wxyz, rotation
from kinematics.names import names_of

from .errors import OptionError
from .scene import DISTRACTOR, OBJECT, TIMESTEP

GROUPS = ("visual", "dynamics", "sizes")
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Say how far everything is drawn. Spans are uniform, factors of the model's own value.

    Sources: [T] Tobin et al. 2017, arXiv 1703.06907; [A] OpenAI et al. 2018, "Learning dexterous
    in-hand manipulation", arXiv 1808.00177, table 1; [P] Peng et al. 2018, arXiv 1710.06537;
    [R] the defaults of robosuite's domain randomisation.
    """

    # visual
    light_shift_m: float = 0.3
    """Of a lamp in each axis; [R] 0.1 at less than half our lamp's distance."""
    light_tilt_rad: float = 0.35
    """[R]; shadows and shading turn by as much."""
    light_colour: Span = (0.85, 1.15)
    """Of each of a lamp's three components: from tungsten-like to daylight-like."""
    brightness: Span = (0.6, 1.3)
    """Of lamp and headlight, each its own; below, things vanish in the table's shade; above, a
    white arm saturates."""
    surface_saturation: Span = (0.0, 0.4)
    """Of table and floor, at any hue: paler than any object, so that objects stand out."""
    surface_value: Span = (0.35, 0.95)
    object_hue: float = 0.02
    """Of 1, either way (7 degrees): red stays red, sorts stay apart."""
    object_saturation: Span = (0.85, 1.0)
    object_value: Span = (0.75, 1.15)
    camera_shift_m: float = 0.05
    """Of a camera that stands, in each axis: [T], half the longer sides of the box."""
    camera_turn_rad: float = 0.05
    """In each axis; half of [T]'s, so that the task's area stays in the picture."""
    mount_shift_m: float = 0.005
    """Of a camera on the arm: what a bracket leaves open."""
    mount_turn_rad: float = 0.03
    field_of_view: Span = (0.95, 1.05)
    """[T]."""
    distractors: tuple[int, int] = (0, 6)
    """How many; [T] has up to ten on a larger table."""
    distractor_saturation: Span = (0.3, 0.9)
    distractor_hue_gap: float = 0.08
    """Of 1 (29 degrees) from every colour of the task: "the red cube" is the only red thing."""
    # dynamics
    friction: Span = (0.7, 1.3)
    """[A], sliding; one factor for each object and each tool's pads."""
    mass: Span = (0.5, 1.5)
    """[A]; of mass and inertia alike: the same shape of another material."""
    gain: Span = (0.8, 1.25)
    """Log-uniform, of kp and kv alike: the set point and kv / kp, by which the servos are fed
    forward, stay. [A] has 0.75 .. 1.5, [P] 0.5 .. 2 for motors without feedback of torque."""
    # sizes
    size: Span = (0.9, 1.1)
    """Of an object in all directions, its density kept: a 40 mm cube is 36 to 44 mm. The grippers
    hold them all, and bins and zones have room for them."""
    noise: Mapping[str, float] = field(
        default_factory=lambda: {
            "joint_pos": 1e-3,  # rad; what moves the tool by 1 mm at full stretch
            "joint_vel": 1e-2,  # rad/s; joint_pos differenced over 100 ms
            "eef_pos": 1e-3,  # m; [A]'s for fingertips
            "object": 2e-3,  # m, on lengths only; [A] has 5 mm for a 50 mm block, our cube has 40
        }
    )
    """Standard deviations of an observation's entries, new in every step, cut at ``NOISE_CUT``."""


NOISE_CUT = 3.0
"""Standard deviations: bounded, so that a checker can know by how much an observation may err."""


class SensorNoise:
    """Add noise to observations; the same at the same time of the same episode."""

    def __init__(self, scale: Mapping[str, Array], boxes: Mapping[str, spaces.Box]) -> None:
        """``scale``: standard deviations (n,) by key; ``boxes``: the keys' bounds, in order."""
        self._scale = np.concatenate([scale[key] for key in boxes])
        self._lower = np.concatenate([box.low for box in boxes.values()]).astype(float)
        self._upper = np.concatenate([box.high for box in boxes.values()]).astype(float)
        self._bounds = {key: NOISE_CUT * float(each.max()) for key, each in scale.items()}
        self.key = np.zeros(2, np.uint64)
        """Of the episode."""

    def bounds(self) -> dict[str, float]:
        """Return the most by which an entry errs [its unit], by key of the observation."""
        return {key: bound for key, bound in self._bounds.items() if bound > 0.0}

    def added(self, entries: Sequence[float], time: float) -> list[float]:
        """Return ``entries`` (n,) as the sensors have them at a time of the episode [s]."""
        # Made from key and counter, it needs no state that restoring would have to restore.
        counted = np.random.Philox(key=self.key, counter=[0, 0, 0, round(time / TIMESTEP)])
        error = np.random.Generator(counted).standard_normal(len(entries))
        seen = entries + self._scale * np.clip(error, -NOISE_CUT, NOISE_CUT)
        return np.clip(seen, self._lower, self._upper).tolist()


def sensor_noise(boxes: Mapping[str, spaces.Box], object_names: Sequence[str]) -> SensorNoise:
    """Return the noise on observations of these bounds.

    Of ``object``, it is on places and offsets (``..._x``, ``_y``, ``_z``); quaternions stay whole.
    """
    noise = Ranges().noise  # by the part of robot0_joint_pos after its first _
    scale = {
        key: np.full(box.shape, noise.get(key.partition("_")[2], 0.0)) for key, box in boxes.items()
    }
    lengths = [name[-2:] in ("_x", "_y", "_z") for name in object_names]
    scale["object"] = np.where(lengths, noise["object"], 0.0)
    return SensorNoise(scale, boxes)


def check_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """Return the groups asked for, in the order of ``GROUPS``; OptionError for any other."""
    asked = [groups] if isinstance(groups, str) else list(groups)
    unknown = [name for name in asked if name not in GROUPS]
    if unknown:
        raise OptionError(f"randomize={asked!r} has unknown {unknown}; choose from {GROUPS}")
    return tuple(name for name in GROUPS if name in asked)


class Randomizer:
    """Draw an episode's edits into a model."""

    def __init__(
        self,
        editor: ModelEditor,
        groups: Sequence[str],
        tools: Sequence[frozenset[int]],
        resizable: Sequence[str] = (),
    ) -> None:
        """Look over the editor's model; ``tools`` holds the pads' geoms of each arm.

        ``resizable``: names of the bodies that ``sizes`` scales.
        """
        self._editor, self._model = editor, editor.model
        self._groups, self._tools, self._resizable = groups, tools, resizable
        self._ranges = Ranges()
        self._scratch = mujoco.MjData(editor.model)

    def draw(self, rng: np.random.Generator) -> tuple[ModelEdits, npt.NDArray[np.uint64]]:
        """Edit the model anew; return the edits and the key of the episode's sensor noise.

        Each group has a generator of its own, and draws the same whether others are asked for or
        not.
        """
        seed = np.random.SeedSequence(int(rng.integers(2**63)))
        visual, dynamics, noise, sizes = seed.spawn(4)
        self._editor.reset()
        if "visual" in self._groups:
            self._draw_visual(np.random.default_rng(visual))
        if "dynamics" in self._groups:
            self._draw_dynamics(np.random.default_rng(dynamics))
        if "sizes" in self._groups:
            self._draw_sizes(np.random.default_rng(sizes))
        # Derives subtree masses, inverse inertias and the cameras' and lights' own frames.
        mujoco.mj_setConst(self._model, self._scratch)
        return self._editor.edits(), noise.generate_state(2, np.uint64).astype(np.uint64)

    # What is seen.

    def _draw_visual(self, rng: np.random.Generator) -> None:
        self._light(rng)
        self._paint(rng)
        self._aim(rng)
        self._distract(rng)

    def _light(self, rng: np.random.Generator) -> None:
        model, ranges = self._model, self._ranges
        for i in range(model.nlight):
            model.light_pos[i] += _shift(rng, ranges.light_shift_m)
            model.light_dir[i] = _turn(rng, ranges.light_tilt_rad).apply(model.light_dir[i])
            model.light_diffuse[i] *= rng.uniform(*ranges.brightness)
            model.light_diffuse[i] *= rng.uniform(*ranges.light_colour, 3)
        head, factor = model.vis.headlight, rng.uniform(*ranges.brightness)
        head.ambient[:] *= factor
        head.diffuse[:] *= factor

    def _paint(self, rng: np.random.Generator) -> None:
        ranges, colours = self._ranges, self._model.mat_rgba
        for name in SURFACES:
            saturation, value = (
                rng.uniform(*span) for span in (ranges.surface_saturation, ranges.surface_value)
            )
            colours[self._model.material(name).id, :3] = colorsys.hsv_to_rgb(
                rng.uniform(), saturation, value
            )
        for i in self._task_materials():
            hue, saturation, value = colorsys.rgb_to_hsv(*colours[i, :3].tolist())
            hue = (hue + rng.uniform(-ranges.object_hue, ranges.object_hue)) % 1.0
            saturation *= rng.uniform(*ranges.object_saturation)
            value = min(1.0, value * rng.uniform(*ranges.object_value))
            colours[i, :3] = colorsys.hsv_to_rgb(hue, saturation, value)

    def _task_materials(self) -> list[int]:
        names = [self._model.material(i).name for i in range(self._model.nmat)]
        return [i for i, name in enumerate(names) if name.startswith(OBJECT)]

    def _aim(self, rng: np.random.Generator) -> None:
        """Move and turn cameras; those of one stand (``<name>_left``, ``_right``) together."""
        model, ranges = self._model, self._ranges
        for ids in self._stands().values():
            standing = model.body_weldid[model.cam_bodyid[ids[0]]] == 0
            shift, turn = (
                (ranges.camera_shift_m, ranges.camera_turn_rad)
                if standing
                else (ranges.mount_shift_m, ranges.mount_turn_rad)
            )
            offset, turned = _shift(rng, shift), _turn(rng, turn)
            view, middle = rng.uniform(*ranges.field_of_view), model.cam_pos[ids].mean(axis=0)
            for i in ids:
                model.cam_pos[i] = middle + turned.apply(model.cam_pos[i] - middle) + offset
                model.cam_quat[i] = quat_wxyz(turned * rotation(model.cam_quat[i]))
                model.cam_fovy[i] *= view

    def _stands(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, name in enumerate(names_of(self._model, mujoco.mjtObj.mjOBJ_CAMERA)):
            found.setdefault(name.removesuffix("_left").removesuffix("_right"), []).append(i)
        return found

    def _distract(self, rng: np.random.Generator) -> None:
        """Lay distractors on the rim of the table: no tool of a single arm gets there."""
        model, ranges = self._model, self._ranges
        geoms = [i for i in range(model.ngeom) if model.geom(i).name.startswith(DISTRACTOR)]
        hues = self._task_hues()
        low, high = ranges.distractors
        count = int(rng.integers(low, high + 1))
        taken = list[Array]()
        for i in rng.permutation(geoms)[:count].tolist():
            place = _rim_place(rng, taken)
            taken.append(place)
            model.geom_pos[i] = (*place, model.geom_pos[i, 2])
            half = rng.uniform(-np.pi, np.pi) / 2
            model.geom_quat[i] = (np.cos(half), 0.0, 0.0, np.sin(half))
            saturation, value = (
                rng.uniform(*span) for span in (ranges.distractor_saturation, ranges.surface_value)
            )
            hue = _other_hue(rng, hues, ranges.distractor_hue_gap)
            model.geom_rgba[i] = (*colorsys.hsv_to_rgb(hue, saturation, value), 1.0)

    def _task_hues(self) -> list[float]:
        colours = [
            colorsys.rgb_to_hsv(*self._model.mat_rgba[i, :3].tolist())
            for i in self._task_materials()
        ]
        return [hue for hue, saturation, _ in colours if saturation > _COLOURLESS]

    # How it moves.

    def _draw_dynamics(self, rng: np.random.Generator) -> None:
        model, ranges = self._model, self._ranges
        objects = [i for i in range(model.nbody) if model.body(i).name.startswith(OBJECT)]
        for body in objects:
            own = np.flatnonzero(model.geom_bodyid == body)
            model.geom_friction[own, 0] *= rng.uniform(*ranges.friction)
            factor = rng.uniform(*ranges.mass)
            model.body_mass[body] *= factor
            model.body_inertia[body] *= factor
        for pads in self._tools:
            model.geom_friction[sorted(pads), 0] *= rng.uniform(*ranges.friction)
        for i in range(model.nu):
            factor = np.exp(rng.uniform(*np.log(ranges.gain)))
            model.actuator_gainprm[i] *= factor
            model.actuator_biasprm[i] *= factor

    def _draw_sizes(self, rng: np.random.Generator) -> None:
        model = self._model
        for name in self._resizable:
            body, factor = model.body(name).id, rng.uniform(*self._ranges.size)
            own = np.flatnonzero(model.geom_bodyid == body)
            for lengths in (model.geom_size, model.geom_pos, model.geom_rbound, model.geom_aabb):
                lengths[own] *= factor
            boxes = slice(
                model.body_bvhadr[body], model.body_bvhadr[body] + model.body_bvhnum[body]
            )
            model.bvh_aabb[boxes] *= factor
            model.body_ipos[body] *= factor
            model.body_mass[body] *= factor**3
            model.body_inertia[body] *= factor**5


SURFACES = ("scene/top", "floor")
"""Materials of table and floor."""
RIM_LOWER, RIM_UPPER = np.array([0.20, -0.64]), np.array([0.88, 0.64])
"""m; the part of the table top in front of the robot."""
INNER = np.array([0.84, 0.54])
"""m; x and distance from y = 0 beyond which nothing of 35 mm radius meets the workspace, which
ends at 0.80 and 0.50, nor hides it from the cameras."""
GAP_M = 0.09
"""Between distractors: twice their largest radius, and some."""
_COLOURLESS = 0.25
_TRIES = 100


def _rim_place(rng: np.random.Generator, taken: Sequence[Array]) -> Array:
    """Draw a place (2,) [m] on the rim, apart from those taken."""
    for _ in range(_TRIES):
        place = rng.uniform(RIM_LOWER, RIM_UPPER)
        outside = place[0] > INNER[0] or abs(place[1]) > INNER[1]
        if outside and all(np.linalg.norm(place - other) > GAP_M for other in taken):
            return place
    # Six places of this size cover an eighth of the rim: a hundred misses mean a wrong table.
    raise OptionError("found no room for distractors; leave 'visual' out of randomize")


def _other_hue(rng: np.random.Generator, hues: Sequence[float], gap: float) -> float:
    """Draw a hue (0 .. 1) away from ``hues``; where they leave no room, the farthest found."""
    drawn = rng.uniform(size=_TRIES).tolist()
    away = [min((_apart(hue, other) for other in hues), default=0.5) for hue in drawn]
    fits = [hue for hue, distance in zip(drawn, away, strict=True) if distance >= gap]
    return fits[0] if fits else drawn[int(np.argmax(away))]


def _apart(hue: float, other: float) -> float:
    return abs((hue - other + 0.5) % 1.0 - 0.5)


def _shift(rng: np.random.Generator, reach: float) -> Array:
    return rng.uniform(-reach, reach, 3)


def _turn(rng: np.random.Generator, reach: float) -> Rotation:
    return Rotation.from_rotvec(rng.uniform(-reach, reach, 3))
