"""Checks of what a compiled model says, before anything moves: ``model -> findings``."""

from collections.abc import Callable, Iterator

import mujoco
import numpy as np

from .findings import (
    FREE,
    Finding,
    Kind,
    Severity,
    angle_between,
    hinges_and_slides,
    is_collidable,
    joint_servos,
    place,
    relative_pose,
    unit_of,
)
from .masses import inertias, light_dofs

WELD = int(mujoco.mjtEq.mjEQ_WELD)
BODY = int(mujoco.mjtObj.mjOBJ_BODY)
SHOWN_GROUPS = 3
"""MuJoCo's viewer and renderer show groups 0, 1 and 2 unless told otherwise."""
SNAP_M, SNAP_RAD = 1e-3, np.deg2rad(1.0)
"""What a weld may pull at once without throwing things."""


def time_constants(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find solref time constants under two time steps, which MuJoCo silently raises to that."""
    limit = 2.0 * model.opt.timestep
    joints = [j for j in range(model.njnt) if model.jnt_limited[j]]
    dofs = [d for d in range(model.nv) if model.dof_frictionloss[d] > 0.0]
    geoms = [g for g in range(model.ngeom) if is_collidable(model, g)]
    tendons = [t for t in range(model.ntendon) if model.tendon_limited[t]]
    tables = [
        ("solref", Kind.mjOBJ_GEOM, geoms, model.geom_solref),
        ("solref", Kind.mjOBJ_EQUALITY, range(model.neq), model.eq_solref),
        ("solref", Kind.mjOBJ_PAIR, range(model.npair), model.pair_solref),
        ("solreflimit", Kind.mjOBJ_JOINT, joints, model.jnt_solref),
        ("solreflimit", Kind.mjOBJ_TENDON, tendons, model.tendon_solref_lim),
        ("solreffriction", Kind.mjOBJ_DOF, dofs, model.dof_solref),
    ]
    unsafe = model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_REFSAFE)
    for attribute, kind, elements, solref in tables:
        for i in elements:
            if 0.0 < solref[i, 0] < limit * (1.0 - 1e-9):
                yield Finding(
                    Severity.ERROR if unsafe else Severity.WARNING,
                    "time-constant",
                    place(model, kind, i),
                    f"time constant of {attribute}",
                    float(solref[i, 0]),
                    limit,
                    "s",
                    f"raise {attribute} to two time steps, or make the timestep shorter: "
                    + ("it is unstable" if unsafe else "MuJoCo raises it without a word"),
                )


def free_joints(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find free joints that a default slows down: things then fall and fly too slowly."""
    for j in range(model.njnt):
        if int(model.jnt_type[j]) != FREE:
            continue
        dofs = slice(model.jnt_dofadr[j], model.jnt_dofadr[j] + 6)
        found = {
            "damping": (model.dof_damping[dofs], "N s/m"),
            "armature": (model.dof_armature[dofs], "kg"),
            "frictionloss": (model.dof_frictionloss[dofs], "N"),
            "stiffness": (model.jnt_stiffness[j : j + 1], "N/m"),
        }
        for what, (values, unit) in found.items():
            if np.any(values != 0.0):
                yield Finding(
                    Severity.WARNING,
                    "free-joint-default",
                    place(model, Kind.mjOBJ_JOINT, j),
                    f"{what} of a free joint",
                    float(np.abs(values).max()),
                    0.0,
                    unit,
                    'write <freejoint/>, which takes no defaults, instead of <joint type="free"/>',
                )


def welds(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find welds that hold no rotation."""
    for e in range(model.neq):
        if int(model.eq_type[e]) == WELD and model.eq_data[e, 10] == 0.0:
            yield Finding(
                Severity.WARNING,
                "weld-torquescale",
                place(model, Kind.mjOBJ_EQUALITY, e),
                "torquescale of a weld",
                0.0,
                None,
                "m",
                "set torquescale to about the size of the welded thing in metres, or write "
                "<connect> if only the position is meant",
            )


def weld_targets(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find welds that hold the pose in which the model was written, and how far home is off it."""
    if not any(int(kind) == WELD for kind in model.eq_type):
        return
    drawn, home = mujoco.MjData(model), at_home(model)
    mujoco.mj_kinematics(model, drawn)
    for e in range(model.neq):
        if int(model.eq_type[e]) != WELD or int(model.eq_objtype[e]) != BODY:
            continue
        a, b = model.eq_obj1id[e], model.eq_obj2id[e]
        # eq_data: anchor in b, then the pose of b in a that the weld wants.
        anchor, wanted = model.eq_data[e, :3], model.eq_data[e, 3:10]
        gaps = []
        for data in (drawn, home):
            now, point = relative_pose(model, data, a, b), np.zeros(3)
            mujoco.mju_rotVecQuat(point, anchor, now[3:])
            gap = float(np.linalg.norm(now[:3] + point - wanted[:3]))
            gaps.append((gap, angle_between(now[3:], wanted[3:])))
        (drawn_m, drawn_rad), (home_m, home_rad) = gaps
        if drawn_m > 1e-6 or drawn_rad > 1e-6:
            continue  # a target of its own
        snaps = home_m > SNAP_M or home_rad > SNAP_RAD
        yield Finding(
            Severity.WARNING if snaps else Severity.NOTE,
            "weld-target",
            place(model, Kind.mjOBJ_EQUALITY, e),
            f"home's distance from the weld's target, the pose of modelling time (and "
            f"{np.rad2deg(home_rad):.3g} deg)",
            home_m,
            SNAP_M,
            "m",
            "give relpose with a quaternion that is not zero; when it is switched on in a run, "
            "write the present pose into model.eq_data first, or the things snap together",
        )


def hidden_sites(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find sites that no picture shows."""
    for s in range(model.nsite):
        if model.site_group[s] >= SHOWN_GROUPS:
            yield Finding(
                Severity.NOTE,
                "site-hidden",
                place(model, Kind.mjOBJ_SITE, s),
                "group of a site",
                float(model.site_group[s]),
                SHOWN_GROUPS - 1,
                "",
                "to see it, switch the group on in the viewer's panel (Rendering, Group enable)",
            )


def names(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find what code must address by number, because it has no name."""
    moving = hinges_and_slides(model)
    wanted = [
        (Severity.WARNING, Kind.mjOBJ_JOINT, moving),
        (Severity.WARNING, Kind.mjOBJ_ACTUATOR, range(model.nu)),
        (Severity.NOTE, Kind.mjOBJ_BODY, range(1, model.nbody)),
        (Severity.NOTE, Kind.mjOBJ_JOINT, [j for j in range(model.njnt) if j not in moving]),
    ]
    for severity, kind, elements in wanted:
        nameless = [i for i in elements if not mujoco.mj_id2name(model, int(kind), int(i))]
        if nameless:
            yield Finding(
                severity,
                "no-name",
                place(model, kind, nameless[0]),
                "elements of this kind without a name, beginning with this one",
                len(nameless),
                0.0,
                "",
                "give a name: numbers change when something is added to the model",
            )


def explicit_damping(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find servos whose damping the Euler integrator cannot follow: they chatter."""
    if model.opt.integrator != int(mujoco.mjtIntegrator.mjINT_EULER):
        return
    for a, joint in joint_servos(model).items():
        gear, d = model.actuator_gear[a, 0], model.jnt_dofadr[joint]
        kv = -float(model.actuator_biasprm[a, 2]) * gear * gear
        share = kv * model.opt.timestep / max(float(model.dof_M0[d]), 1e-12)
        if share > 2.0:  # an explicit step overshoots rest by more than it was off
            yield Finding(
                Severity.WARNING,
                "servo-explicit",
                place(model, Kind.mjOBJ_ACTUATOR, a),
                "kv x timestep / inertia, integrated explicitly",
                share,
                2.0,
                "",
                'write <option integrator="implicitfast"/>',
            )


def ranges(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find servos without a ctrlrange, and those that ask for more than the joint's range."""
    for a, joint in joint_servos(model).items():
        where = place(model, Kind.mjOBJ_ACTUATOR, a)
        if not model.actuator_ctrllimited[a]:
            yield Finding(
                Severity.NOTE,
                "ctrl-unlimited",
                where,
                "ctrlrange of a position servo, which reads as (0, 0)",
                0.0,
                None,
                unit_of(model, joint),
                'write ctrlrange, or inheritrange="1": action scaling divides by it',
            )
        elif model.jnt_limited[joint]:
            (low, high), gear = model.jnt_range[joint], model.actuator_gear[a, 0]
            asked = np.sort(model.actuator_ctrlrange[a] / gear) if gear else np.zeros(2)
            beyond = max(low - asked[0], asked[1] - high)
            if beyond > 1e-3 * (high - low):
                yield Finding(
                    Severity.NOTE,
                    "ctrl-beyond-range",
                    where,
                    "reach of ctrl beyond the joint's range",
                    float(beyond),
                    0.0,
                    unit_of(model, joint),
                    "let ctrlrange be the joint's range, or the servo presses on its limit",
                )


def mirrored_meshes(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find meshes that a negative scale has mirrored."""
    for m in range(model.nmesh):
        determinant = float(np.prod(model.mesh_scale[m]))
        if determinant < 0.0:
            yield Finding(
                Severity.WARNING,
                "mirrored",
                place(model, Kind.mjOBJ_MESH, m),
                "determinant of the mesh's axes",
                determinant,
                0.0,
                "",
                "a left part made from a right one is well; an axis table with det -1 is not: "
                "turn the mesh instead of mirroring it",
            )


def keyframes(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find keyframes that do not fit: zeros for a free body, or joints outside their range."""
    if model.nkey == 0:
        if model.nu:
            yield Finding(
                Severity.NOTE,
                "no-home",
                "model",
                "keyframes",
                0.0,
                1.0,
                "",
                "give a keyframe home with qpos and ctrl; without one the model is checked in the "
                "pose it was written in, with ctrl 0",
            )
        return
    for k in range(model.nkey):
        where, qpos = place(model, Kind.mjOBJ_KEY, k), model.key_qpos[k]
        for j in range(model.njnt):
            adr = int(model.jnt_qposadr[j])
            if int(model.jnt_type[j]) == FREE:
                part, drawn = qpos[adr : adr + 7], model.qpos0[adr : adr + 7]
                padded = not part[:3].any() and drawn[:3].any()
                if padded and part[3:].tolist() in ([1, 0, 0, 0], [0, 0, 0, 0]):
                    yield Finding(
                        Severity.WARNING,
                        "key-padded",
                        f"{where}, {place(model, Kind.mjOBJ_JOINT, j)}",
                        "distance from where the model has the body, all numbers being zero",
                        float(np.linalg.norm(drawn[:3])),
                        0.0,
                        "m",
                        "write the body's pose into the keyframe: it was filled with zeros when "
                        "the body was added",
                    )
            elif model.jnt_limited[j] and j in hinges_and_slides(model):
                low, high = model.jnt_range[j]
                beyond = float(max(low - qpos[adr], qpos[adr] - high))
                if beyond > 1e-6:
                    yield Finding(
                        Severity.ERROR,
                        "key-outside-range",
                        f"{where}, {place(model, Kind.mjOBJ_JOINT, j)}",
                        "distance outside the joint's range",
                        beyond,
                        0.0,
                        unit_of(model, j),
                        "move the keyframe inside the range, or widen the range",
                    )
        for a in range(model.nu):
            low, high = model.actuator_ctrlrange[a]
            beyond = float(max(low - model.key_ctrl[k, a], model.key_ctrl[k, a] - high))
            if model.actuator_ctrllimited[a] and beyond > 1e-6:
                yield Finding(
                    Severity.WARNING,
                    "key-ctrl-outside",
                    f"{where}, {place(model, Kind.mjOBJ_ACTUATOR, a)}",
                    "ctrl outside its range, and so clipped",
                    beyond,
                    0.0,
                    "",
                    "write a ctrl that holds the keyframe's pose",
                )


def at_home(model: mujoco.MjModel) -> mujoco.MjData:
    """Return data at the keyframe ``home``, else at the first, else in the pose as written."""
    data = mujoco.MjData(model)
    if model.nkey:
        home = mujoco.mj_name2id(model, int(Kind.mjOBJ_KEY), "home")
        mujoco.mj_resetDataKeyframe(model, data, max(home, 0))
    mujoco.mj_forward(model, data)
    return data


CHECKS: tuple[Callable[[mujoco.MjModel], Iterator[Finding]], ...] = (
    time_constants,
    free_joints,
    welds,
    weld_targets,
    hidden_sites,
    names,
    inertias,
    light_dofs,
    explicit_damping,
    ranges,
    mirrored_meshes,
    keyframes,
)
