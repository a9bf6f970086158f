/* Symbols of loaded model.so files, for debuggers and profilers: the library loads them by itself,
 * so the dynamic loader, which gdb and perf ask otherwise, knows nothing of them. */
#ifndef HFTAC_RUNTIME_MODEL_SYMBOLS_H
#define HFTAC_RUNTIME_MODEL_SYMBOLS_H

#include "runtime/model/loader.h"

/* An entry in gdb's list. */
typedef struct DebugEntry DebugEntry;

/* Puts the file into gdb's list of code that a program made while it ran; NULL: it has no
 * symbols, or memory ran out, which harms nothing.  Changes the file's copy (addresses of
 * sections and symbols become those in memory), which must stay as long as the entry. */
DebugEntry *hft_symbols_register(ElfFile *f, const Mapping *m);
void hft_symbols_forget(DebugEntry *e);
/* Appends "address bytes name" of each function to a file, as perf reads it from
 * /tmp/perf-PID.map.  f: as it was registered. */
hftac_status hft_symbols_write(const ElfFile *f, const char *path);

#endif
