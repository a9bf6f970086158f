/* The kinds of devices that this library has.  A file of its own, so that a test can bring
 * another list. */
#include "runtime/device.h"

const DeviceKind *const hft_device_kinds[] = {&hft_cpu_device, NULL};
