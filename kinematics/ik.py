"""Inverse kinematics of one arm: damped least squares with the limits inside.

Every tick minimises, over the joint increment dq,

    |J dq - e|^2 + (damping + error_damping |e|^2) |dq|^2 + smoothness |dq - dq_prev|^2
    + posture |dq - N d|^2,      d = posture_gain (rest - q),   N the null-space projector,

in the box [max(lower - q, -v dt), min(upper - q, v dt)]. Joint range and speed are both boxes on
dq, so MuJoCo's ``mju_boxQP`` (a projected Newton method, Tassa et al. 2014) solves it exactly;
clipping after the solve instead loses the arm at its limits. Where ``barriers`` stand, the same
sum is brought to its least within them (``kinematics.barriers``). A tick calls MuJoCo's own dense
routines and elementwise numpy only, never BLAS, so that it gives the same bits under any of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from operator import le

import mujoco
import numpy as np
import numpy.typing as npt

from .barriers import Barriers
from .errors import KinematicsError
from .frames import Array, pose, quat_wxyz
from .names import as_index, joint_addresses, named_id


class IKStatus(IntEnum):
    """Say how a tick or a solve ended."""

    CONVERGED = 0
    """The tool is at the target within the tolerances."""
    LIMITED = 1
    """On the way: a joint's range or speed limit acted and the error still shrinks."""
    UNREACHABLE = 2
    """The error has stopped shrinking: out of reach, or stopped by the joint ranges."""


@dataclass(frozen=True, slots=True)
class IKConfig:
    """Hold the weights of a tick; each was chosen by measurement on tracking paths."""

    damping: float = 1e-6
    """Keeps the problem strictly convex; too small to be felt."""
    error_damping: float = 1.0
    """Per m2 and rad2 of error: calms far targets. 1e-3 chatters past reach (417 rad/s2 rms)."""
    smoothness: float = 1e-3
    """Weight on the change of dq: stops the velocity box from making joints bang to and fro."""
    posture: float = 1e-5
    """Weight of the null-space motion; a hundredth of ``smoothness`` keeps it slow."""
    posture_gain: float = 0.01
    """Share of the way to the rest posture asked for each tick: 2 1/s at 200 ticks a second."""
    nullspace_damping: float = 1e-4
    """Added to J J' in the projector, so that it stays defined at singularities."""
    tolerance_m: float = 1e-3
    tolerance_rad: float = 0.0175
    """1 mm and 1 degree: below what a parallel gripper's grasp notices."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise KinematicsError(f"IKConfig.{name} must be finite and >= 0, got {value}")
        if self.damping <= 0.0 or self.nullspace_damping <= 0.0:
            raise KinematicsError("IKConfig.damping and nullspace_damping must be > 0")


@dataclass(slots=True)
class IKTick:
    """Hold what the last tick left over."""

    status: IKStatus = IKStatus.CONVERGED
    position_error: float = 0.0
    """Distance of the posture's tool from the target [m]."""
    rotation_error: float = 0.0
    """Angle of the posture's tool from the target [rad]."""
    limited: bool = False
    """A joint's range or speed limit acted."""


@dataclass(frozen=True, slots=True, eq=False)
class IKSolution:
    """Hold the outcome of ``ArmIK.solve``."""

    qpos: Array
    """(n,) joint positions [rad], inside the ranges."""
    status: IKStatus
    position_error: float
    """[m]"""
    rotation_error: float
    """[rad]"""
    iterations: int

    @property
    def ok(self) -> bool:
        """Return whether the target was met within the tolerances."""
        return self.status is IKStatus.CONVERGED


class ArmIK:
    """Keep one arm's commanded posture and move it toward tool targets.

    ``model`` may hold anything besides the arm; the arm's joints and the tool's site are found by
    name, everything else stays at ``qpos0``. The solver has its own ``MjData`` and never touches a
    simulation's. A model without geoms is fastest.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        joints: Sequence[str],
        site: str,
        velocity_limits: npt.ArrayLike,
        rest: npt.ArrayLike,
        config: IKConfig | None = None,
    ) -> None:
        """Address the arm by name.

        ``velocity_limits`` (n,) [rad/s]; ``rest`` (n,) [rad], the posture that the null space
        prefers and that ``reset()`` goes to. Raises UnknownNameError or KinematicsError.
        """
        self.config = config or IKConfig()
        self._model, self._data = model, mujoco.MjData(model)
        self._site = named_id(model, mujoco.mjtObj.mjOBJ_SITE, site)
        qpos_adr, self._dof_adr = joint_addresses(model, joints)
        self._qpos_at = as_index(qpos_adr)
        n = len(joints)
        self.joints = tuple(joints)
        ids = [named_id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in joints]
        self.lower = np.array(model.jnt_range[ids, 0])
        self.upper = np.array(model.jnt_range[ids, 1])
        self._ranges = self.lower.tolist(), self.upper.tolist()
        if not np.all(self.lower < self.upper):
            raise KinematicsError(f"joints {list(joints)} need ranges; the model leaves some open")
        self.velocity_limits = np.array(velocity_limits, dtype=np.float64)
        self.rest = np.array(rest, dtype=np.float64)
        if self.velocity_limits.shape != (n,) or not np.all(self.velocity_limits > 0.0):
            raise KinematicsError(f"velocity_limits must be {n} positive rad/s")
        if self.rest.shape != (n,):
            raise KinematicsError(f"rest must have {n} joint positions, got {self.rest.shape}")
        self.barriers = Barriers(model, self._data, self._dof_adr, self.velocity_limits)
        """Stand in the way of ``step``, not of ``solve``; the caller keeps them up to date."""
        self._allocate(n)
        self.reset()

    def _allocate(self, n: int) -> None:
        """Make the buffers and views that a tick works in, so that it allocates nothing."""
        model, data = self._model, self._data
        self._site_p, self._site_m = data.site_xpos[self._site], data.site_xmat[self._site]
        self._site_q, self._local = np.zeros(4), np.zeros(3)
        self._target_p, self._target_q = np.zeros(3), np.zeros(4)
        self._error = np.zeros(6)
        self._error_p, self._error_r = self._error[:3], self._error[3:]
        self._size = 0.0
        self._jac_full = np.zeros((6, model.nv))
        self._jac_p, self._jac_r = self._jac_full[:3], self._jac_full[3:]
        whole = np.array_equal(self._dof_adr, np.arange(model.nv))
        self._jac = self._jac_full if whole else np.zeros((6, n))
        self._gram, self._hessian = np.zeros((n, n)), np.zeros((n, n))
        self._gradient, self._null, self._drag = np.zeros(n), np.zeros(n), np.zeros(n)
        self._gram_flat, self._hessian_flat = self._gram.reshape(-1), self._hessian.reshape(-1)
        self._eye_flat = np.eye(n).reshape(-1)
        self._box_lower, self._box_upper = np.zeros(n), np.zeros(n)
        self._factor = np.zeros(n * (n + 7))
        self._free = np.zeros(n, dtype=np.int32)
        self._q, self._step = np.zeros(n), np.zeros(n)  # the solver starts at the last step
        self._dt, self._reach, self._back = 0.0, np.zeros(n), np.zeros(n)
        self._outside, self._limited = False, False

    @property
    def q(self) -> Array:
        """Return a copy of the commanded posture (n,) [rad]."""
        return self._q.copy()

    @property
    def velocity(self) -> Array:
        """Return a copy of the last tick's joint increment (n,) [rad], per tick."""
        return self._step.copy()

    def carrier(self, body: str) -> int:
        """Return the body of that name, for barriers: 0 if no joint of the arm moves it."""
        index = named_id(self._model, mujoco.mjtObj.mjOBJ_BODY, body)
        return index if self._model.body_weldid[index] else 0

    def reset(self, q: npt.ArrayLike | None = None, increment: npt.ArrayLike | None = None) -> None:
        """Stand at posture ``q`` (n,) [rad], the rest posture by default.

        ``increment`` (n,) [rad] is the tick that led there; zero by default.
        """
        posture = self.rest if q is None else np.asarray(q, dtype=np.float64)
        angles, (lower, upper) = posture.tolist(), self._ranges  # lists: faster for seven numbers
        right = posture.shape == self._q.shape
        self._outside = not (right and all(map(le, lower, angles)) and all(map(le, angles, upper)))
        if self._outside and not (right and all(map(isfinite, angles))):
            raise KinematicsError(f"posture must be {self._q.size} finite rad, got {posture}")
        self._q[:] = posture
        self._step[:] = 0.0 if increment is None else increment
        self._refresh()

    def stand(self, q: Sequence[float], increment: Sequence[float]) -> None:
        """Do as ``reset`` with checked postures, once a control step."""
        self._q[:] = q
        self._step[:] = increment
        self._outside = True  # maybe: ticks then look, at no harm to those inside
        self._refresh()

    def write_tool(self, position: Array, quat: Array) -> None:
        """Write the commanded posture's tool pose into arrays, as ``tool`` returns it."""
        position[:] = self._site_p
        mujoco.mju_mat2Quat(quat, self._site_m)

    def tool(self) -> tuple[Array, Array]:
        """Return the commanded posture's tool position (3,) [m] and wxyz quaternion (4,)."""
        mujoco.mju_mat2Quat(self._site_q, self._site_m)
        return self._site_p.copy(), self._site_q.copy()

    def forward(self, q: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the tool's position (3,) [m] and quaternion (4,) at ``q``, changing nothing."""
        self._data.qpos[self._qpos_at] = np.asarray(q, dtype=np.float64)
        mujoco.mj_kinematics(self._model, self._data)
        result = self.tool()
        self._refresh()
        return result

    def step(self, position: Array, quat: Array, dt: float) -> None:
        """Move the posture by one tick of ``dt`` [s] toward a tool pose in the model's world.

        ``position`` (3,) [m], ``quat`` (4,) wxyz. The posture never leaves the joint ranges (from
        outside it returns at the speed limit) nor exceeds the speeds. ``report`` tells how it went.
        """
        config = self.config
        self._target_p[:] = position
        self._target_q[:] = quat
        if dt != self._dt:
            self._dt, self._reach = dt, self.velocity_limits * dt
            self._back = -self._reach
        self._measure()
        self._size = size = mujoco.mju_norm(self._error)
        self._linearise(
            config.damping + config.smoothness + config.error_damping * size * size + config.posture
        )
        self._lean(config.posture * config.posture_gain)
        mujoco.mju_addToScl(self._gradient, self._step, -config.smoothness)
        np.subtract(self._gradient, self._null, out=self._gradient)
        if self.barriers:
            mujoco.mju_scl(self._drag, self._step, config.smoothness * _BRAKE)
        self._solve_box()
        if self.barriers:
            self.barriers.keep(
                *(self._step, dt, self._hessian, self._gradient, self._drag),
                *(self._box_lower, self._box_upper),
            )
        np.add(self._q, self._step, out=self._q)
        self._refresh()

    def report(self) -> IKTick:
        """Return how the last tick went, measured against its target."""
        before = self._size
        self._measure()
        config = self.config
        position_error = mujoco.mju_norm3(self._error_p)
        rotation_error = mujoco.mju_norm3(self._error_r)
        if position_error <= config.tolerance_m and rotation_error <= config.tolerance_rad:
            status = IKStatus.CONVERGED
        elif mujoco.mju_norm(self._error) > _STALLED * before:
            status = IKStatus.UNREACHABLE
        else:
            status = IKStatus.LIMITED
        return IKTick(status, position_error, rotation_error, self._limited)

    def solve(
        self,
        position: npt.ArrayLike,
        quat: npt.ArrayLike,
        *,
        seed: npt.ArrayLike | None = None,
        restarts: int = 24,
        iterations: int = 60,
        rng: np.random.Generator | None = None,
    ) -> IKSolution:
        """Find a posture that reaches a tool pose, for resets and checks.

        Starts at ``seed`` (n,), the rest posture by default, and from up to ``restarts`` further
        postures drawn by ``rng`` (seeded 0 by default, so that the same call gives the same
        answer). Leaves the commanded posture as it was.
        """
        kept, increment = self.q, self.velocity
        draw = rng or np.random.default_rng(0)
        start = self.rest if seed is None else np.asarray(seed, dtype=np.float64)
        target = pose(position, quat)  # refuses what is no pose
        self._target_p[:], self._target_q[:] = target.translation, quat_wxyz(target)
        self._dt, self._reach = 0.0, np.full(len(self._q), _LONGEST_STEP)
        self._back = -self._reach
        best = self._descend(np.clip(start, self.lower, self.upper), iterations)
        for _ in range(restarts):
            if best.ok:
                break
            trial = self._descend(draw.uniform(self.lower, self.upper), iterations)
            if trial.position_error + trial.rotation_error < (
                best.position_error + best.rotation_error
            ):
                best = trial
        self.reset(kept, increment)
        return best

    # Inside a tick: no @, no numpy.linalg, no scipy.

    def _refresh(self) -> None:
        self._data.qpos[self._qpos_at] = self._q
        mujoco.mj_kinematics(self._model, self._data)

    def _measure(self) -> None:
        """Set the error (6,), tool minus target: position [m], rotation vector [rad], world."""
        np.subtract(self._site_p, self._target_p, out=self._error_p)
        mujoco.mju_mat2Quat(self._site_q, self._site_m)
        mujoco.mju_subQuat(self._local, self._site_q, self._target_q)
        mujoco.mju_rotVecQuat(self._error_r, self._local, self._target_q)

    def _linearise(self, diagonal: float) -> None:
        """Set the Jacobian J, J'J, the Hessian J'J plus a diagonal, and the gradient J' error."""
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_jacSite(self._model, self._data, self._jac_p, self._jac_r, self._site)
        if self._jac is not self._jac_full:
            np.take(self._jac_full, self._dof_adr, axis=1, out=self._jac)
        mujoco.mju_mulMatTMat(self._gram, self._jac, self._jac)
        mujoco.mju_addScl(self._hessian_flat, self._gram_flat, self._eye_flat, diagonal)
        mujoco.mju_mulMatTVec(self._gradient, self._jac, self._error)

    def _lean(self, weight: float) -> None:
        """Set the null space's share (n,) of the pull d to the rest posture; uses J'J up.

        By Woodbury's identity d - J' (J J' + c)^-1 J d = c (J' J + c)^-1 d, c the damping.
        """
        damping, null = self.config.nullspace_damping, self._null
        np.subtract(self.rest, self._q, out=null)
        np.multiply(null, weight * damping, out=null)
        mujoco.mju_addToScl(self._gram_flat, self._eye_flat, damping)
        mujoco.mju_cholFactor(self._gram, 0.0)
        mujoco.mju_cholSolve(null, self._gram, null)

    def _solve_box(self) -> None:
        """Minimise over the ranges and the reach (n,) of one step into ``_step``."""
        lower, upper = self._box_lower, self._box_upper
        np.subtract(self.lower, self._q, out=lower)
        np.subtract(self.upper, self._q, out=upper)
        np.maximum(lower, self._back, out=lower)
        np.minimum(upper, self._reach, out=upper)
        if self._outside:
            # Beyond its range by more than one step a joint has no room: back at full speed. The
            # solver wants lower < upper.
            np.minimum(lower, self._reach - _SLIVER, out=lower)
            np.maximum(upper, lower + _SLIVER, out=upper)
        rank = mujoco.mju_boxQP(
            self._step, self._factor, self._free, self._hessian, self._gradient, lower, upper
        )
        if rank < 0:
            raise KinematicsError(f"box QP failed for posture {self._q}; target {self._target_p}")
        self._limited = rank < len(self._step)

    def _descend(self, start: Array, iterations: int) -> IKSolution:
        """Iterate from ``start`` with long steps until the target is met or nothing improves."""
        self._q[:] = start
        self._step[:] = 0.0
        self._outside = False
        self._refresh()
        config, done = self.config, 0
        while done < iterations:
            done += 1
            self._measure()
            size = mujoco.mju_norm(self._error)
            if size < 1e-9:
                break
            self._linearise(config.damping + _SOLVE_ERROR_DAMPING * size**2)
            self._solve_box()
            self._q += self._step
            self._refresh()
            if mujoco.mju_norm(self._step) < 1e-9:
                break
        self._size = 0.0
        tick = self.report()
        return IKSolution(self.q, tick.status, tick.position_error, tick.rotation_error, done)


_BRAKE = 0.1
"""Share of the joints' motion that a tick at a barrier does not want to keep. What the tool may not
do the joints would else go on doing: at full speed through the null space, for half a second."""
_SLIVER = 1e-12
"""rad; far below what a joint can show."""
_STALLED = 0.999
"""A tick that removes less than a thousandth of the error has stalled."""
_LONGEST_STEP = 0.5
"""rad an iteration of ``solve``: within it the Jacobian still points the right way."""
_SOLVE_ERROR_DAMPING = 1e-3
"""Per m2 and rad2: far from the target Levenberg's damping, near it plain Gauss-Newton."""
