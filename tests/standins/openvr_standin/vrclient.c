/* A runtime that stands in for SteamVR: the library that libopenvr_api loads.
 *
 * Everything it answers comes from one shared file, whose path is in OPENVR_STANDIN_STATE and
 * whose layout, like OpenVR's own structures, is in the generated layout.h. Only what a program
 * that reads poses and inputs in the background may call is here; any other call ends the process
 * and says so, rather than answer with something invented.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layout.h"

typedef void (*Function)(void);
typedef HmdMatrix34_t Matrix;

static Shared *shared;        /* mapped between Init and Cleanup */
static uint32_t events_read;  /* of this connection */

/* ---- the shared file ---- */

static bool attach(void) {
  const char *path = getenv("OPENVR_STANDIN_STATE");
  int file = path ? open(path, O_RDWR) : -1;
  struct stat status;
  if (file < 0) return false;
  if (fstat(file, &status) == 0 && status.st_size == (off_t)sizeof(Shared)) {
    void *memory = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) shared = memory;
  }
  close(file);
  return shared != NULL;
}

static void detach(void) {
  if (shared) munmap(shared, sizeof(Shared));
  shared = NULL;
}

/* Copy the world as it was between two writes: an odd or changed sequence means a torn copy. */
static World look(void) {
  World world;
  for (;;) {
    uint32_t before = __atomic_load_n(&shared->sequence, __ATOMIC_ACQUIRE);
    memcpy(&world, &shared->world, sizeof world);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint32_t after = __atomic_load_n(&shared->sequence, __ATOMIC_RELAXED);
    if (before == after && before % 2 == 0) return world;
    usleep(20);
  }
}

static bool known(const World *world, uint32_t index) {
  return index < DEVICES && world->devices[index].device_class != TrackedDeviceClass_Invalid;
}

/* ---- poses ---- */

static Matrix as_matrix(const float rows[3][4]) {
  Matrix matrix;
  memcpy(matrix.m, rows, sizeof matrix.m);
  return matrix;
}

static Matrix inverse(Matrix a) {
  Matrix r;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) r.m[i][j] = a.m[j][i];
    r.m[i][3] = -(a.m[0][i] * a.m[0][3] + a.m[1][i] * a.m[1][3] + a.m[2][i] * a.m[2][3]);
  }
  return r;
}

static Matrix product(Matrix a, Matrix b) {
  Matrix r;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 4; j++) {
      r.m[i][j] = a.m[i][0] * b.m[0][j] + a.m[i][1] * b.m[1][j] + a.m[i][2] * b.m[2][j];
    }
    r.m[i][3] += a.m[i][3];
  }
  return r;
}

static Matrix in_universe(const World *world, int universe, Matrix standing) {
  if (universe == TrackingUniverseStanding) return standing;
  bool raw = universe == TrackingUniverseRawAndUncalibrated;
  Matrix origin = as_matrix(raw ? world->standing_from_raw : world->standing_from_seated);
  return product(inverse(origin), standing);
}

static TrackedDevicePose_t pose_of(const World *world, uint32_t index, int universe, float seconds) {
  TrackedDevicePose_t pose;
  memset(&pose, 0, sizeof pose);
  pose.eTrackingResult = TrackingResult_Uninitialized;
  if (!known(world, index)) return pose;
  const Device *device = &world->devices[index];
  pose.eTrackingResult = device->tracking_result;
  pose.bPoseIsValid = device->valid != 0;
  pose.bDeviceIsConnected = device->connected != 0;
  if (!device->connected) return pose; /* with a zero matrix, as SteamVR has it */
  Matrix standing = as_matrix(device->matrix);
  for (int i = 0; i < 3; i++) standing.m[i][3] += seconds * device->velocity[i];
  pose.mDeviceToAbsoluteTracking = in_universe(world, universe, standing);
  memcpy(&pose.vVelocity, device->velocity, sizeof pose.vVelocity);
  return pose;
}

static void get_poses(int universe, float seconds, TrackedDevicePose_t *poses, uint32_t count) {
  World world = look();
  for (uint32_t i = 0; i < count; i++) poses[i] = pose_of(&world, i, universe, seconds);
}

/* ---- devices ---- */

static int get_class(uint32_t index) {
  World world = look();
  return known(&world, index) ? (int)world.devices[index].device_class : TrackedDeviceClass_Invalid;
}

static bool is_connected(uint32_t index) {
  World world = look();
  return known(&world, index) && world.devices[index].connected;
}

static int get_role(uint32_t index) {
  World world = look();
  return known(&world, index) ? (int)world.devices[index].role : 0;
}

/* A device that left may keep its role; one that is connected goes before it. */
static uint32_t get_index_for_role(int role) {
  World world = look();
  uint32_t found = k_unTrackedDeviceIndexInvalid;
  for (uint32_t i = 0; i < DEVICES; i++) {
    if (!known(&world, i) || (int)world.devices[i].role != role) continue;
    if (world.devices[i].connected) return i;
    found = i;
  }
  return found;
}

/* Asked twice by callers: with no buffer for the size, then for the text. */
static uint32_t get_string(uint32_t index, int property, char *text, uint32_t size, int *error) {
  World world = look();
  const char *value = NULL;
  *error = TrackedProp_InvalidDevice;
  if (!known(&world, index)) return 0;
  if (property == Prop_SerialNumber_String) value = world.devices[index].serial;
  if (property == Prop_ControllerType_String) value = world.devices[index].controller_type;
  if (property == Prop_ModelNumber_String) value = world.devices[index].model;
  *error = TrackedProp_UnknownProperty;
  if (!value || !*value) return 0;
  uint32_t needed = (uint32_t)strlen(value) + 1;
  *error = size < needed ? TrackedProp_BufferTooSmall : TrackedProp_Success;
  if (size >= needed) memcpy(text, value, needed);
  return needed;
}

static float get_float(uint32_t index, int property, int *error) {
  World world = look();
  *error = TrackedProp_InvalidDevice;
  if (!known(&world, index)) return 0.0f;
  *error = TrackedProp_UnknownProperty;
  if (property != Prop_DeviceBatteryPercentage_Float) return 0.0f;
  if (world.devices[index].battery <= 0.0f) return 0.0f;
  *error = TrackedProp_Success;
  return world.devices[index].battery;
}

static const char *get_runtime_version(void) { return "2.16.7"; }

/* ---- inputs and events ---- */

static bool is_input_available(void) { return look().input_available != 0; }

static int get_activity_level(uint32_t index) {
  World world = look();
  return known(&world, index) ? world.devices[index].activity : k_EDeviceActivityLevel_Unknown;
}

/* Blocked inputs read as success and all zero, as in SteamVR; poses are not blocked. */
static bool get_state(uint32_t index, VRControllerState_t *state, uint32_t size) {
  if (size != sizeof *state) return false;
  World world = look();
  memset(state, 0, sizeof *state);
  if (!known(&world, index)) return false;
  const Device *device = &world.devices[index];
  bool headset = device->device_class == TrackedDeviceClass_HMD; /* its sensor is a button */
  if (!headset && device->device_class != TrackedDeviceClass_Controller) return false;
  if (!device->connected) return false;
  if (!world.input_available || world.dashboard_open) return true;
  state->unPacketNum = device->packet;
  state->ulButtonPressed = device->pressed;
  memcpy(state->rAxis, device->axes, sizeof device->axes);
  return true;
}

static void trigger_haptic(uint32_t index, uint32_t axis, unsigned short microseconds) {
  (void)axis;
  if (index >= DEVICES) return;
  shared->counters.haptic_pulses[index]++;
  shared->counters.haptic_us[index] = microseconds;
}

static bool poll_event(VREvent_t *event, uint32_t size) {
  World world = look();
  if (size != sizeof *event || events_read == world.events_sent) return false;
  if (world.events_sent - events_read > EVENTS) events_read = world.events_sent - EVENTS;
  const Event *next = &world.events[events_read++ % EVENTS];
  memset(event, 0, sizeof *event);
  event->eventType = next->kind;
  event->trackedDeviceIndex = next->device;
  return true;
}

static void acknowledge_quit(void) { shared->counters.quit_acknowledgements++; }

/* ---- the tables of IVRSystem and IVROverlay: plain functions, as openvr_capi.h orders them ---- */

static void not_modelled(void) {
  fprintf(stderr, "stand-in OpenVR runtime: a function that it does not model was called\n");
  abort();
}

static bool is_dashboard_visible(void) { return look().dashboard_open != 0; }

static Function system_table[SLOTS];
static Function overlay_table[OVERLAY_SLOTS];

static void fill_tables(void) {
  for (int i = 0; i < OVERLAY_SLOTS; i++) overlay_table[i] = not_modelled;
  overlay_table[OVERLAY_SLOT_isDashboardVisible] = (Function)is_dashboard_visible;
  for (int i = 0; i < SLOTS; i++) system_table[i] = not_modelled;
  system_table[SLOT_getDeviceToAbsoluteTrackingPose] = (Function)get_poses;
  system_table[SLOT_getTrackedDeviceClass] = (Function)get_class;
  system_table[SLOT_isTrackedDeviceConnected] = (Function)is_connected;
  system_table[SLOT_getControllerRoleForTrackedDeviceIndex] = (Function)get_role;
  system_table[SLOT_getTrackedDeviceIndexForControllerRole] = (Function)get_index_for_role;
  system_table[SLOT_getStringTrackedDeviceProperty] = (Function)get_string;
  system_table[SLOT_getFloatTrackedDeviceProperty] = (Function)get_float;
  system_table[SLOT_getRuntimeVersion] = (Function)get_runtime_version;
  system_table[SLOT_getTrackedDeviceActivityLevel] = (Function)get_activity_level;
  system_table[SLOT_isInputAvailable] = (Function)is_input_available;
  system_table[SLOT_getControllerState] = (Function)get_state;
  system_table[SLOT_triggerHapticPulse] = (Function)trigger_haptic;
  system_table[SLOT_pollNextEvent] = (Function)poll_event;
  system_table[SLOT_acknowledgeQuit_Exiting] = (Function)acknowledge_quit;
}

/* ---- IVRClientCore: a C++ object, so its functions get `this` and stand in a vtable ---- */

static int core_init(void *self, int application, const char *startup_info) {
  (void)self;
  (void)startup_info;
  if (!attach()) return VRInitError_Init_Internal;
  World world = look();
  int error = world.init_error;
  if (!error && application == VRApplication_Background && !world.server_up) {
    error = VRInitError_Init_NoServerForBackgroundApp; /* such a program never starts SteamVR */
  }
  if (error) {
    detach();
    return error;
  }
  events_read = world.events_sent;
  shared->counters.inits++;
  shared->counters.application_type = (uint32_t)application;
  return VRInitError_None;
}

static void core_cleanup(void *self) {
  (void)self;
  if (shared) shared->counters.cleanups++;
  detach();
}

static int core_is_version_valid(void *self, const char *version) {
  (void)self;
  bool known_name = strcmp(version, SYSTEM_VERSION) == 0 || strcmp(version, OVERLAY_VERSION) == 0;
  bool valid = shared && !look().outdated && known_name;
  return valid ? VRInitError_None : VRInitError_Init_InterfaceNotFound;
}

static void *core_get_interface(void *self, const char *version, int *error) {
  static const char prefix[] = "FnTable:";
  bool table = strncmp(version, prefix, strlen(prefix)) == 0;
  int code = VRInitError_Init_InterfaceNotFound;
  if (table) code = core_is_version_valid(self, version + strlen(prefix));
  if (error) *error = code;
  if (code != VRInitError_None) return NULL;
  bool system = strcmp(version + strlen(prefix), SYSTEM_VERSION) == 0;
  return system ? (void *)system_table : (void *)overlay_table;
}

static bool core_is_headset_present(void *self) {
  (void)self;
  return true;
}

static const char *core_error_text(void *self, int error) {
  (void)self;
  (void)error;
  return "an error of the stand-in OpenVR runtime";
}

static Function core_table[] = {
    (Function)core_init,
    (Function)core_cleanup,
    (Function)core_is_version_valid,
    (Function)core_get_interface,
    (Function)core_is_headset_present,
    (Function)core_error_text,
    (Function)core_error_text,
};

static struct {
  Function *table;
} core = {core_table};

/* A later version of this interface may have another table: better not found than guessed. */
__attribute__((visibility("default"))) void *VRClientCoreFactory(const char *name, int *error) {
  bool known_name = strcmp(name, "IVRClientCore_003") == 0;
  fill_tables();
  if (error) *error = known_name ? VRInitError_None : VRInitError_Init_InterfaceNotFound;
  return known_name ? &core : NULL;
}
