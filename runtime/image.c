/* Loading a model.so: ELF headers, CPU, descriptor, in that order of trust.
 *
 * Only after all of them are right does anything call into the file. */
#include "runtime/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/error.h"

static hftac_status check_file(const char *path, ElfLayout *layout)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return hft_fail_file(path, "cannot open", errno);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        close(fd);
        return hft_fail(HFTAC_MODEL, "%s: not a model.so: not a file, or empty", path);
    }
    const size_t bytes = (size_t)st.st_size;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (map == MAP_FAILED)
        return hft_fail_file(path, "cannot map", error);
    const hftac_status s = hft_elf_check(path, map, bytes, layout);
    munmap(map, bytes);
    return s;
}

/* dlopen searches the system's folders for a name without a slash. */
static void *load(const char *path)
{
    if (strchr(path, '/'))
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const size_t bytes = strlen(path) + 3;
    char *here = malloc(bytes);
    if (!here)
        return NULL;
    snprintf(here, bytes, "./%s", path);
    void *handle = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    free(here);
    return handle;
}

hftac_status hft_image_open(const char *path, Image *image)
{
    memset(image, 0, sizeof *image);
    hftac_status s = check_file(path, &image->layout);
    if (s)
        return s;
    image->handle = load(path);
    if (!image->handle) {
        const char *why = dlerror();
        return hft_fail(HFTAC_MODEL, "%s: dlopen: %s", path, why ? why : "out of memory");
    }
    struct link_map *map = NULL;
    if (dlinfo(image->handle, RTLD_DI_LINKMAP, &map) != 0 || !map) {
        s = hft_fail(HFTAC_MODEL, "%s: dlinfo failed", path);
        goto fail;
    }
    image->base = map->l_addr;
    image->model = dlsym(image->handle, HFTAC_ABI_SYMBOL);
    if (!image->model) {
        s = hft_fail(HFTAC_MODEL, "%s: not a model.so: it has no symbol %s", path,
                     HFTAC_ABI_SYMBOL);
        goto fail;
    }
    s = hft_model_check(path, image);
    if (s)
        goto fail;
    s = hft_cpu_check(path, image->model->cpu_features);
    if (!s)
        return HFTAC_OK;
fail:
    hft_image_close(image);
    return s;
}

void hft_image_close(Image *image)
{
    if (image->handle)
        dlclose(image->handle);
    image->handle = NULL;
    image->model = NULL;
}
