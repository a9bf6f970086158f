/* Compiling the printed text with NVRTC, where the toolkit was there at build time.  Needs no GPU
 * and no driver. */
#include "codegen/codegen.h"

#ifdef HFTAC_HAVE_NVRTC
#include <nvrtc.h>
#include <string.h>

int cuda_check(Arena *a, const char *source, const char *arch, const char **log)
{
    nvrtcProgram program;
    nvrtcResult r = nvrtcCreateProgram(&program, source, "hftac.cu", 0, NULL, NULL);
    if (r != NVRTC_SUCCESS) {
        *log = arena_printf(a, "nvrtcCreateProgram: %s", nvrtcGetErrorString(r));
        return 1;
    }
    const char *options[] = {arena_printf(a, "--gpu-architecture=%s", arch), "--std=c++17",
                             "--fmad=false"};
    r = nvrtcCompileProgram(program, 3, options);
    size_t n = 0;
    char *text = arena_strdup(a, "");
    if (nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS && n > 1) {
        text = arena_alloc(a, n + 1);
        if (nvrtcGetProgramLog(program, text) != NVRTC_SUCCESS)
            text = arena_strdup(a, "(no log)");
    }
    *log = arena_printf(a, "nvrtcCompileProgram: %s\n%s", nvrtcGetErrorString(r), text);
    size_t cubin = 0;
    const bool made = r == NVRTC_SUCCESS &&
                      (strncmp(arch, "sm_", 3) ||
                       (nvrtcGetCUBINSize(program, &cubin) == NVRTC_SUCCESS && cubin > 0));
    nvrtcDestroyProgram(&program);
    return made ? 0 : 1;
}
#else
int cuda_check(Arena *a, const char *source, const char *arch, const char **log)
{
    (void)a;
    (void)source;
    (void)arch;
    *log =
        "hftac was built without the CUDA toolkit: the text cannot be compiled with NVRTC here";
    return -1;
}
#endif
