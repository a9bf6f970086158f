/* Finding a device by its name. */
#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"

/* Names that are known, whether or not this libhftac has the device. */
static const char *const known_names[] = {"cpu", "cuda"};

static const DeviceKind *find_kind(const char *name, size_t length)
{
    for (const DeviceKind *const *k = hft_device_kinds; *k; k++)
        if (strlen((*k)->name) == length && memcmp((*k)->name, name, length) == 0)
            return *k;
    return NULL;
}

static bool is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof known_names / sizeof known_names[0]; i++)
        if (strlen(known_names[i]) == length && memcmp(known_names[i], name, length) == 0)
            return true;
    return false;
}

/* The N of "NAME:N", 0 without one; -1: it is no number. */
static int32_t read_number(const char *rest)
{
    if (!*rest)
        return 0;
    const size_t digits = strspn(rest + 1, "0123456789");
    return *rest == ':' && digits >= 1 && digits <= 4 && !rest[1 + digits]
               ? (int32_t)strtol(rest + 1, NULL, 10)
               : -1;
}

hftac_status hft_device_open(const char *name, const DeviceSetup *setup, Device **out)
{
    *out = NULL;
    const char *wanted = name ? name : "cpu";
    const size_t length = strcspn(wanted, ":");
    DeviceSetup with_number = *setup;
    with_number.number = read_number(wanted + length);
    const DeviceKind *kind = find_kind(wanted, length);
    if ((!kind && !is_known(wanted, length)) || with_number.number < 0)
        return hft_fail(HFTAC_USAGE, "there is no device \"%s\": it is cpu, cuda or cuda:N",
                        wanted);
    if (!kind)
        return hft_fail(HFTAC_DEVICE,
                        "%s cannot run on \"%s\": it has code for CPUs only, and this libhftac "
                        "knows no CUDA device",
                        setup->path, wanted);
    return kind->open(&with_number, out);
}

uint64_t hft_device_number_tensor(Device *d)
{
    return ++d->n_tensors;
}

void hft_device_close(Device *d)
{
    if (d)
        d->kind->close(d);
}
