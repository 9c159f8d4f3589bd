"""Checks that run the model: at home, over a rest of some seconds, and against its limits."""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from kinematics.frames import Array

from .findings import (
    FREE,
    Finding,
    Kind,
    Severity,
    hinges_and_slides,
    is_collidable,
    joint_servos,
    place,
    unit_of,
)

REST_S = 5.0
"""Long enough for the slowest servo and for an object to come to rest."""
PUSH_S = 0.4
"""Of full force into a limit: 20 of MuJoCo's default time constants."""
DEEP_M, VERY_DEEP_M = 1e-3, 5e-3
"""Depth of contact: what rests has micrometres; 5 mm throws a small thing."""
SAG = {"rad": 2e-3, "m": 5e-4}
"""Of a servo at rest: 1 mm at half a metre; half a millimetre of a finger."""
PAST_RANGE = {"rad": 0.01, "m": 1e-3}
"""At rest; soft limits give way by a little under any load."""
GIVE_WAY = {"rad": 0.05, "m": 2e-3}
"""Under full force: four times what a Panda gives way with MuJoCo's default solreflimit."""
STILL = {"rad": 0.02, "m": 5e-3}
"""Speed at the end of the rest [1/s]; a wrist in a limit cycle has 0.09 rad/s."""
DRIFT = {"rad": 0.02, "m": 2e-3}
"""From home: ctrl of the keyframe should hold its qpos."""
FALL_M = 0.5
MAX_PUSHED = 128
"""Joints pushed into their limits; more would take minutes."""


def rows_at_home(model: mujoco.MjModel, data: mujoco.MjData) -> Iterator[Finding]:
    """Count the constraint rows at home, and name the joints that stand in a limit."""
    active = int(np.count_nonzero(data.efc_state[: data.nefc]))  # 0 is a satisfied row
    touching = data.nefc - data.ne - data.nf - data.nl
    kinds = f"equality {data.ne}, friction {data.nf}, limit {data.nl}, contact {touching}"
    yield Finding(
        Severity.NOTE,
        "rows-at-home",
        "model",
        f"constraint rows at home, of which {active} active ({kinds}; {data.ncon} contacts)",
        data.nefc,
        None,
        "",
        "each costs time in every step: few is fast",
    )
    limit = int(mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT)
    for row in np.flatnonzero(data.efc_type[: data.nefc] == limit):
        joint = int(data.efc_id[row])
        if data.efc_pos[row] < 0.0:
            yield Finding(
                Severity.WARNING,
                "limit-at-home",
                place(model, Kind.mjOBJ_JOINT, joint),
                "depth in the joint's limit at home",
                -float(data.efc_pos[row]),
                0.0,
                unit_of(model, joint) if joint in hinges_and_slides(model) else "rad",
                "move home off the limit",
            )


def contacts_at_home(model: mujoco.MjModel, data: mujoco.MjData) -> Iterator[Finding]:
    """Find contacts at home that are too deep to be meant."""
    deepest: dict[tuple[int, ...], float] = {}
    for contact in data.contact[: data.ncon]:
        pair = tuple(int(geom) for geom in contact.geom)
        deepest[pair] = max(deepest.get(pair, 0.0), -float(contact.dist))
    for pair, depth in deepest.items():
        if depth > DEEP_M:
            one, two = (place(model, Kind.mjOBJ_GEOM, geom) for geom in pair)
            yield Finding(
                Severity.ERROR if depth > VERY_DEEP_M else Severity.WARNING,
                "penetration",
                f"{one}, {two}",
                "depth of contact at home",
                depth,
                DEEP_M,
                "m",
                "move them apart at home, or <exclude> the bodies if they are meant to overlap; "
                "MuJoCo lets a parent and its child overlap only if the parent can move",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Hold what happened while the model rested at home's ctrl."""

    start: mujoco.MjData
    end: mujoco.MjData
    seconds: float
    """Simulated."""
    cut: bool
    """Whether it was too slow to be done in time."""
    beyond: Array
    """(njnt,) the farthest that each joint was outside its range [rad or m]."""


def rest(model: mujoco.MjModel, home: mujoco.MjData, budget_s: float = 30.0) -> Rest:
    """Simulate ``REST_S`` from home, or less once it has taken ``budget_s`` of real time."""
    data = copy.copy(home)
    joints = [j for j in hinges_and_slides(model) if model.jnt_limited[j]]
    adr = model.jnt_qposadr[joints]
    low, high = model.jnt_range[joints].T if joints else np.zeros((2, 0))
    beyond = np.zeros(model.njnt)
    steps, done, until = round(REST_S / model.opt.timestep), 0, time.monotonic() + budget_s
    while done < steps and not data.warning.number.any() and time.monotonic() < until:
        mujoco.mj_step(model, data, nstep=min(_BLOCK, steps - done))
        done += _BLOCK
        q = data.qpos[adr]
        beyond[joints] = np.maximum(beyond[joints], np.maximum(low - q, q - high))
    warned = data.warning.number.any()
    if not warned:
        mujoco.mj_forward(model, data)
    seconds = min(done, steps) * model.opt.timestep
    return Rest(home, data, seconds, done < steps and not warned, beyond)


_BLOCK = 5
"""Steps between two looks: a few milliseconds."""


def breakdown(model: mujoco.MjModel, found: Rest) -> Iterator[Finding]:
    """Find what MuJoCo warned of while it ran, and a rest that was cut short."""
    for kind, count in zip(mujoco.mjtWarning.__members__, found.end.warning.number, strict=False):
        if count:
            yield Finding(
                Severity.ERROR,
                "breakdown",
                "model",
                f"warnings {kind.removeprefix('mjWARN_')} at rest, first within the time",
                float(found.seconds),
                None,
                "s",
                "the simulation is unstable: look at the other findings, then at the timestep",
            )
    if found.cut:
        yield Finding(
            Severity.NOTE,
            "rest-cut",
            "model",
            "simulated rest, cut because the model is slow",
            found.seconds,
            REST_S,
            "s",
            "what takes longer to show was not seen",
        )


def joints_at_rest(model: mujoco.MjModel, found: Rest) -> Iterator[Finding]:
    """Find joints that leave their range, drift from home or never come to rest."""
    driven = set(joint_servos(model).values())
    for j in hinges_and_slides(model):
        unit, where = unit_of(model, j), place(model, Kind.mjOBJ_JOINT, j)
        if found.beyond[j] > PAST_RANGE[unit]:
            yield Finding(
                Severity.WARNING,
                "outside-range",
                where,
                f"farthest outside its range in {found.seconds:.3g} s at rest",
                float(found.beyond[j]),
                PAST_RANGE[unit],
                unit,
                "take the load off the limit: gravcomp, another home, or a stiffer solreflimit",
            )
        if j not in driven:
            continue
        speed = abs(float(found.end.qvel[model.jnt_dofadr[j]]))
        if speed > STILL[unit]:
            yield Finding(
                Severity.WARNING,
                "restless",
                where,
                f"speed after {found.seconds:.3g} s at home's ctrl",
                speed,
                STILL[unit],
                unit + "/s",
                "look for chatter: integrator, forcerange on a stiff servo, missing damping",
            )
        adr = model.jnt_qposadr[j]
        drift = abs(float(found.end.qpos[adr] - found.start.qpos[adr]))
        if drift > DRIFT[unit]:
            yield Finding(
                Severity.WARNING,
                "home-drift",
                where,
                "way from home under home's own ctrl",
                drift,
                DRIFT[unit],
                unit,
                "let the keyframe's ctrl hold its qpos: a servo's is the joint's position",
            )


def servos_at_rest(model: mujoco.MjModel, found: Rest) -> Iterator[Finding]:
    """Find servos that sag."""
    for a, joint in joint_servos(model).items():
        unit = unit_of(model, joint)
        sag = abs(float(found.end.ctrl[a] - found.end.actuator_length[a]))
        if sag > SAG[unit]:
            yield Finding(
                Severity.WARNING,
                "servo-sag",
                place(model, Kind.mjOBJ_ACTUATOR, a),
                "distance from ctrl at rest",
                sag,
                SAG[unit],
                unit,
                'put gravcomp="1" on the bodies that the real machine holds itself, or raise kp',
            )


def forces_at_rest(model: mujoco.MjModel, found: Rest) -> Iterator[Finding]:
    """Find actuators and joints that need all their force to do nothing."""
    data, share = found.end, 0.99
    for a in range(model.nu):
        limits = model.actuator_forcerange[a]
        if model.actuator_forcelimited[a]:
            where = place(model, Kind.mjOBJ_ACTUATOR, a)
            yield from _saturated(where, float(data.actuator_force[a]), limits, share)
    for j in hinges_and_slides(model):
        if model.jnt_actfrclimited[j]:
            force = float(data.qfrc_actuator[model.jnt_dofadr[j]])
            where = place(model, Kind.mjOBJ_JOINT, j)
            yield from _saturated(where, force, model.jnt_actfrcrange[j], share)


def _saturated(where: str, force: float, limits: Array, share: float) -> Iterator[Finding]:
    limit = float(limits[1] if force > 0.0 else limits[0])
    if force != 0.0 and abs(force) >= share * abs(limit):
        yield Finding(
            Severity.WARNING,
            "saturated",
            where,
            "force at rest, which is all there is",
            force,
            limit,
            "N or N m",
            "take the load off (gravcomp, another home) or give the actuator more force",
        )


def falls(model: mujoco.MjModel, found: Rest) -> Iterator[Finding]:
    """Find free bodies that fall for ever, or at once."""
    grounded = any(
        is_collidable(model, g) and model.body_weldid[model.geom_bodyid[g]] == 0
        for g in range(model.ngeom)
    )
    for j in range(model.njnt):
        if int(model.jnt_type[j]) == FREE:
            z = int(model.jnt_qposadr[j]) + 2
            fallen = float(found.start.qpos[z] - found.end.qpos[z])
            if fallen > FALL_M:
                yield Finding(
                    Severity.WARNING if grounded else Severity.NOTE,
                    "falls",
                    place(model, Kind.mjOBJ_BODY, model.jnt_bodyid[j]),
                    "height lost at rest" + ("" if grounded else ", there being no ground"),
                    fallen,
                    FALL_M,
                    "m",
                    "let it stand on something, or take its free joint away",
                )


def limits_under_force(model: mujoco.MjModel, home: mujoco.MjData) -> Iterator[Finding]:
    """Press every driven joint into both ends of its range with all its force."""
    pushed = copy.copy(model)
    pushed.opt.disableflags |= int(
        mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_GRAVITY
    )
    worst: dict[str, tuple[float, int]] = {}
    forces = {j: f for j, f in _full_forces(model).items() if model.jnt_limited[j]}
    for j, force in list(forces.items())[:MAX_PUSHED]:
        beyond = max(_press(pushed, home, j, sign * force) for sign in (-1.0, 1.0))
        unit = unit_of(model, j)
        worst[unit] = max(worst.get(unit, (0.0, j)), (beyond, j))
        if beyond > GIVE_WAY[unit]:
            yield _gives_way(model, j, beyond, force, Severity.WARNING)
    for unit, (beyond, j) in worst.items():
        if beyond <= GIVE_WAY[unit]:
            yield _gives_way(model, j, beyond, forces[j], Severity.NOTE)
    if len(forces) > MAX_PUSHED:
        yield Finding(
            Severity.NOTE,
            "limits-left-out",
            "model",
            "driven joints with a range, not all of which were pressed into it",
            len(forces),
            MAX_PUSHED,
            "",
            "check parts of the model alone",
        )


def _gives_way(
    model: mujoco.MjModel, joint: int, beyond: float, force: float, severity: Severity
) -> Finding:
    unit, solref = unit_of(model, joint), model.jnt_solref[joint]
    least = 2.0 * model.opt.timestep
    return Finding(
        severity,
        "limit-gives-way",
        place(model, Kind.mjOBJ_JOINT, joint),
        f"overshoot under {force:.4g} {'N m' if unit == 'rad' else 'N'}, "
        f"solreflimit {solref[0]:.3g} {solref[1]:.3g}" + " (the worst)" * (severity == 0),
        beyond,
        GIVE_WAY[unit],
        unit,
        f"a range is a soft limit: lower solreflimit (to {least:.2g} s at the least), or limit "
        "the force; never take it for a safety limit",
    )


def _full_forces(model: mujoco.MjModel) -> dict[int, float]:
    """Return, by driven joint, the greatest force known to act on it [N or N m]."""
    forces: dict[int, float] = {}
    for a in range(model.nu):
        if int(model.actuator_trntype[a]) != int(mujoco.mjtTrn.mjTRN_JOINT):
            continue
        joint, force = int(model.actuator_trnid[a, 0]), np.inf
        if joint not in hinges_and_slides(model):
            continue
        gear = abs(float(model.actuator_gear[a, 0]))
        if model.actuator_forcelimited[a]:
            force = gear * float(np.abs(model.actuator_forcerange[a]).max())
        elif int(model.actuator_biastype[a]) == int(mujoco.mjtBias.mjBIAS_NONE):
            most = float(np.abs(model.actuator_ctrlrange[a]).max())
            if model.actuator_ctrllimited[a]:
                force = gear * most * abs(float(model.actuator_gainprm[a, 0]))
        if model.jnt_actfrclimited[joint]:
            force = min(force, float(np.abs(model.jnt_actfrcrange[joint]).max()))
        if np.isfinite(force):
            forces[joint] = max(forces.get(joint, 0.0), force)
    return forces


def _press(model: mujoco.MjModel, home: mujoco.MjData, joint: int, force: float) -> float:
    """Return how far a joint ends up outside its range under a force [N or N m]."""
    data = copy.copy(home)
    own = (model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_JOINT)) & (
        model.actuator_trnid[:, 0] == joint
    )
    gain, bias = model.actuator_gainprm[own].copy(), model.actuator_biasprm[own].copy()
    model.actuator_gainprm[own], model.actuator_biasprm[own] = 0.0, 0.0
    adr, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
    low, high = model.jnt_range[joint].tolist()
    data.qpos[adr] = high if force > 0.0 else low
    data.qfrc_applied[dof] = force
    beyond = 0.0
    for _ in range(max(1, round(PUSH_S / model.opt.timestep / _BLOCK))):
        mujoco.mj_step(model, data, nstep=_BLOCK)
        q = float(data.qpos[adr])
        beyond = max(beyond, q - high if force > 0.0 else low - q)
    model.actuator_gainprm[own], model.actuator_biasprm[own] = gain, bias
    return beyond if not data.warning.number.any() else np.inf


__all__ = [
    "Rest",
    "breakdown",
    "contacts_at_home",
    "falls",
    "forces_at_rest",
    "joints_at_rest",
    "limits_under_force",
    "rest",
    "rows_at_home",
    "servos_at_rest",
]
