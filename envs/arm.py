"""One arm inside an environment: the target it has accepted and the ctrl that follows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Workspace
from kinematics.frames import Array, quat_wxyz
from kinematics.ik import ArmIK, IKTick
from kinematics.names import as_index, joint_addresses, named_id

from .scene import HAND, Mount, compose_arm
from .servo import GripperServo, JointServo


class Clamp(IntFlag):
    """Name the limits that acted on a commanded target."""

    NONE = 0
    SPEED = 1
    """The target asked for more than v_max or omega_max."""
    WORKSPACE = 2
    """The target left the workspace box."""
    LEASH = 4
    """The target ran ahead of the measured tool: something blocks the arm."""
    REACH = 8
    """The IK could not follow: out of reach or against joint limits."""
    CLEARANCE = 16
    """A link was too near to another or to the table, or on its way there too fast."""


@dataclass(frozen=True, slots=True)
class Leash:
    """Bound how far the accepted target may lead, beyond one control period of motion."""

    measured_m: float = 0.010
    """Ahead of the measured tool: 5 times the servo's p95 error, so it acts on contact only."""
    measured_rad: float = 0.05
    joint_rad: float = 0.02
    """Of a joint reference ahead of the measured joint: 5 times the servo's p95 error, too."""
    reach_m: float = 0.005
    """Ahead of what the IK reaches: an arm at full stretch answers within 5 mm of target."""
    reach_rad: float = 0.05


class ArmController:
    """Keep what one arm was told and turn it into ctrl; all poses in world.

    The accepted target is what the next increment builds on. It moves only by actions, within
    speed, workspace and leash, so a zero increment holds exactly, whatever load pulls at the arm.
    """

    def __init__(
        self, model: mujoco.MjModel, side: Side, mount: Mount, n_substeps: int, n_ticks: int
    ) -> None:
        """Address the arm in ``model``; ``n_ticks`` IK ticks divide the ``n_substeps``."""
        arm, gripper = mount.arm, mount.gripper
        self.side, self.arm, self.gripper = side, arm, gripper
        self.speed, self.leash = arm.speed, Leash()
        self.workspace = Workspace(
            mount.T_world_base, np.array(arm.workspace_lower), np.array(arm.workspace_upper)
        )
        self._box = self.workspace
        """Holds the target; larger only while it comes in from where the arm began, outside."""
        self.base_quat = quat_wxyz(mount.T_world_base)
        names = [side.prefix + name for name in arm.joints]
        qpos_adr, dof_adr = joint_addresses(model, names)
        self.qpos_adr, self.dof_adr = as_index(qpos_adr), as_index(dof_adr)
        fingers = [side.prefix + HAND + name for name in gripper.joints]
        finger_adr, _ = joint_addresses(model, fingers)
        self.finger_adr = as_index(finger_adr)
        self.site = named_id(model, mujoco.mjtObj.mjOBJ_SITE, side.prefix + HAND + gripper.ee_site)
        actuator = mujoco.mjtObj.mjOBJ_ACTUATOR
        servos = [named_id(model, actuator, side.prefix + name) for name in arm.servos]
        self.actuators = as_index(np.array(servos))
        self.grip_actuator = named_id(model, actuator, side.prefix + HAND + gripper.actuator)
        self.ik = ArmIK(
            compose_arm(side, mount),
            joints=names,
            site=side.prefix + HAND + gripper.ee_site,
            velocity_limits=arm.velocity_limits,
            rest=arm.home,
        )
        timestep = model.opt.timestep
        self._period, self._ticks = n_substeps * timestep, n_ticks
        self.tick_time = self._period / n_ticks
        n = len(names)
        ctrlrange = model.actuator_ctrlrange[self.actuators]
        self._servo = JointServo(n, n_substeps, n_ticks, timestep, arm.servo_time, ctrlrange)
        self._grip = GripperServo(
            n_substeps, timestep, gripper.max_speed, gripper.ctrl_open, gripper.ctrl_closed
        )
        self._postures = np.zeros((n_ticks + 1, n))
        self._block = np.zeros((n_substeps, n))
        self._side_by_side = isinstance(self.actuators, slice)
        self.position, self.quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
        """Accepted target: (3,) [m] and (4,) wxyz."""
        self._told_p, self._told_q = self.position.copy(), self.quat.copy()
        """What the IK was last told; ahead of the accepted target while it is out of reach."""
        self.closure = 0.0
        self.clamps = Clamp.NONE
        """Limits that acted in the last control step."""
        self.residual = IKTick()
        """What the IK left over; for joint targets, when they were encoded."""
        self.half_range = 0.5 * (self.ik.upper - self.ik.lower)
        """(n,) [rad]; what 1 stands for in an action of joint targets."""
        self.joint_span = tuple(zip(self.ik.lower.tolist(), self.half_range.tolist(), strict=True))
        """Lower end and half of each joint's range [rad]."""
        self._reach = [speed * self._period for speed in arm.velocity_limits]
        self._lead = [reach + self.leash.joint_rad for reach in self._reach]
        ends, ahead = ctrlrange.T, arm.servo_time * np.array(arm.velocity_limits)
        self._inner = ((ends[0] + ahead).tolist(), (ends[1] - ahead).tolist())
        """[rad]; between these, feed-forward at full speed stays within the ctrl's range."""
        self._turn, self._way = np.zeros(3), np.zeros(3)
        self._point, self._between = np.zeros(3), np.zeros(4)
        self._measured_p, self._measured_q = np.zeros(3), np.zeros(4)

    # What the arm measures.

    def measure(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Return the tool's position (3,) [m] and wxyz (4,) as of the last kinematics pass.

        The arrays are reused by the next call.
        """
        self._measured_p[:] = data.site_xpos[self.site]
        mujoco.mju_mat2Quat(self._measured_q, data.site_xmat[self.site])
        return self._measured_p, self._measured_q

    def observe(self, data: mujoco.MjData) -> list[float]:
        """Return what is observed of the arm, in the order of ``Observer``'s keys."""
        mujoco.mju_mat2Quat(self._measured_q, data.site_xmat[self.site])
        # Plain floats: they cost less than the calls of NumPy after a pass of physics.
        return [
            *data.site_xpos[self.site].tolist(),
            *_half(self._measured_q.tolist()),
            *self.position.tolist(),
            *_half(self.quat.tolist()),
            *data.qpos[self.qpos_adr].tolist(),
            *data.qvel[self.dof_adr].tolist(),
            self.opening(data),
        ]

    def opening(self, data: mujoco.MjData) -> float:
        """Return the distance between the pads [m]."""
        return sum(data.qpos[self.finger_adr].tolist())

    def measured_target(self, data: mujoco.MjData) -> EndEffectorTarget:
        """Return where the tool is and how far the gripper is closed."""
        position, quat = self.measure(data)
        closure = 1.0 - self.opening(data) / self.gripper.max_opening
        return EndEffectorTarget(self.side, position, quat, min(max(closure, 0.0), 1.0))

    def commanded(self) -> EndEffectorTarget:
        """Return the accepted target."""
        return EndEffectorTarget(self.side, self.position, self.quat, self.closure)

    # Setting and keeping state.

    def reset(self, data: mujoco.MjData) -> None:
        """Accept the measured pose and stand still there."""
        self.ik.reset(data.qpos[self.qpos_adr])
        self._servo.reset()
        self._grip.reset(float(data.ctrl[self.grip_actuator]))
        self.closure = min(max(self._grip.closure, 0.0), 1.0)
        self._stand()
        self._box = self.workspace.including(self.position)
        self.clamps = Clamp.NONE

    def _stand(self) -> None:
        """Accept the pose of the commanded posture."""
        self.ik.write_tool(self.position, self.quat)
        self._told_p[:], self._told_q[:] = self.position, self.quat

    def get_memory(self) -> Array:
        """Return all that the controller remembers, (3 n + 16,): see ``set_memory``."""
        return np.concatenate(
            [
                self.position,
                self.quat,
                [self.closure, self._grip.reference],
                self._told_p,
                self._told_q,
                self.ik.q,
                self.ik.velocity,
                self._servo.velocity,
            ]
        )

    def set_memory(self, memory: Array) -> None:
        """Take back what ``get_memory`` gave."""
        n = len(self.arm.joints)
        fixed, q, increment, velocity = np.split(memory, [16, 16 + n, 16 + 2 * n])
        self.position[:], self.quat[:] = fixed[:3], fixed[3:7]
        self._box = self.workspace.including(self.position)
        self.closure = float(fixed[7])
        self._grip.reset(float(fixed[8]))
        self._told_p[:], self._told_q[:] = fixed[9:12], fixed[12:]
        self.ik.reset(q, increment)
        self._servo.velocity[:] = velocity
        self.clamps = Clamp.NONE

    # One control step.

    def follow_pose(
        self, data: mujoco.MjData, position: Array, quat: Array, closure: float, ctrl: Array
    ) -> IKTick:
        """Accept a target within the limits and write the ctrl (n_substeps, nu) toward it."""
        self._accept(data, position, quat)
        self._postures[0] = self.ik.q
        previous = self.ik.velocity
        # From where the last step ended, not from the target drawn back since: jerking to and fro
        # between the two every step would make the arm buzz at full stretch.
        self._track(self._told_p, self._told_q, self.position, self.quat)
        self._told_p[:], self._told_q[:] = self.position, self.quat
        tick = self.residual = self.ik.report()
        self._stay_in_reach(tick)
        self._servo.follow(self._postures, previous, self._joint_ctrl(ctrl))
        self._finish(closure, ctrl)
        return tick

    def look_ahead(self, position: Array, quat: Array) -> Array:
        """Return the joint targets (n,) [rad] one control step toward a pose; change nothing."""
        kept, increment = self.ik.q, self.ik.velocity
        start_p, start_q = self.ik.tool()
        self._track(start_p, start_q, position, quat)
        self.residual = self.ik.report()
        ahead = self.ik.q
        self.ik.reset(kept, increment)
        return ahead

    def follow_joints(
        self, data: mujoco.MjData, q: Sequence[float], closure: float, ctrl: Array
    ) -> None:
        """Move the reference to joint positions ``q`` (n,) [rad], at joint speed and on a leash."""
        # Plain floats: seven of them cost less than a call of NumPy after a pass of physics.
        start, measured = self.ik.q.tolist(), data.qpos[self.qpos_adr].tolist()
        leashed = slowed = False
        posture, move, inside = [], [], True
        for wanted, now, was, lead, reach, low, high in zip(
            q, measured, start, self._lead, self._reach, *self._inner, strict=True
        ):
            if abs(wanted - now) > lead:
                wanted, leashed = (now + lead if wanted > now else now - lead), True
            if abs(wanted - was) > reach:
                wanted, slowed = (was + reach if wanted > was else was - reach), True
            inside = inside and low < wanted < high and low < was < high
            posture.append(wanted)
            move.append(wanted - was)
        self.clamps = Clamp.NONE
        if leashed:
            self.clamps |= Clamp.LEASH
        if slowed:
            self.clamps |= Clamp.SPEED
        self.ik.stand(posture, [step / self._ticks for step in move])
        self._servo.glide(start, move, self._joint_ctrl(ctrl), inside)
        self._finish(closure, ctrl)
        self._stand()

    def _track(self, start_p: Array, start_q: Array, position: Array, quat: Array) -> None:
        """Run the IK ticks of one control step along the straight way between two poses."""
        ik, point, between = self.ik, self._point, self._between
        mujoco.mju_subQuat(self._turn, quat, start_q)
        np.subtract(position, start_p, out=self._way)
        for k in range(1, self._ticks + 1):
            share = k / self._ticks
            between[:] = start_q
            mujoco.mju_quatIntegrate(between, self._turn, share)
            mujoco.mju_addScl(point, start_p, self._way, share)
            ik.step(point, between, self.tick_time)
            self._postures[k] = ik.q

    def _joint_ctrl(self, ctrl: Array) -> Array:
        """Return where the joints' ctrl (n_substeps, n) goes."""
        return ctrl[:, self.actuators] if self._side_by_side else self._block

    def _finish(self, closure: float, ctrl: Array) -> None:
        """Complete the ctrl of a control step: the joints' if they are scattered, the gripper's."""
        if not self._side_by_side:
            ctrl[:, self.actuators] = self._block
        self.closure = closure
        self._grip.follow(closure, ctrl[:, self.grip_actuator])

    def _accept(self, data: mujoco.MjData, position: Array, quat: Array) -> None:
        speed, period = self.speed, self._period
        if self._box is not self.workspace:
            self._box = self.workspace.including(self.position)
        inside = self._box.clamp(position)
        self.clamps = Clamp.NONE if inside.tolist() == position.tolist() else Clamp.WORKSPACE
        self._toward(inside, quat, speed.linear * period, speed.angular * period, Clamp.SPEED)
        p, q = self.measure(data)
        pulled = self._pull(
            p,
            q,
            speed.linear * period + self.leash.measured_m,
            speed.angular * period + self.leash.measured_rad,
            Clamp.LEASH,
        )
        if pulled:  # the measured tool may be outside
            self._keep_inside()

    def _stay_in_reach(self, tick: IKTick) -> None:
        """Draw the accepted target back to what the IK reached, so that it never winds up."""
        near = self.ik.barriers.acted
        if near:
            self.clamps |= Clamp.CLEARANCE
        if (
            tick.position_error <= self.leash.reach_m
            and tick.rotation_error <= self.leash.reach_rad
        ):
            return
        position, quat = self.ik.tool()
        reason = Clamp.CLEARANCE if near else Clamp.REACH
        self._pull(position, quat, self.leash.reach_m, self.leash.reach_rad, reason)
        self._keep_inside()

    def _toward(
        self, position: Array, quat: Array, reach_m: float, reach_rad: float, flag: Clamp
    ) -> None:
        """Move the accepted target toward a pose, by at most the two reaches."""
        offset = position - self.position
        distance = mujoco.mju_norm3(offset)
        if distance > reach_m * _ROUNDING:
            self.position += offset * (reach_m / distance)
            self.clamps |= flag
        else:
            self.position[:] = position
        mujoco.mju_subQuat(self._turn, quat, self.quat)
        angle = mujoco.mju_norm3(self._turn)
        if angle > reach_rad * _ROUNDING:
            mujoco.mju_quatIntegrate(self.quat, self._turn, reach_rad / angle)
            self.clamps |= flag
        else:
            self.quat[:] = quat

    def _pull(
        self, position: Array, quat: Array, reach_m: float, reach_rad: float, flag: Clamp
    ) -> bool:
        """Draw the accepted target to within the two reaches of a pose; return whether it moved."""
        offset = self.position - position
        distance = mujoco.mju_norm3(offset)
        far = distance > reach_m * _ROUNDING
        if far:
            self.position[:] = position + offset * (reach_m / distance)
        mujoco.mju_subQuat(self._turn, self.quat, quat)
        angle = mujoco.mju_norm3(self._turn)
        turned = angle > reach_rad * _ROUNDING
        if turned:
            self.quat[:] = quat
            mujoco.mju_quatIntegrate(self.quat, self._turn, reach_rad / angle)
        if far or turned:
            self.clamps |= flag
        return far or turned

    def _keep_inside(self) -> None:
        inside = self._box.clamp(self.position)
        if inside.tolist() != self.position.tolist():
            self.position[:] = inside
            self.clamps |= Clamp.WORKSPACE


def _half(quat: list[float]) -> list[float]:
    """Return a quaternion (4,) on the half-sphere of a tool pointing down."""
    return [-entry for entry in quat] if quat[1] < 0.0 else quat


_ROUNDING = 1.0 + 1e-6
"""A float32 action of exactly full speed must not count as too fast."""
