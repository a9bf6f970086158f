/* What processes that were killed leave in a folder, and its removal. */
#ifndef HFTAC_RUNTIME_FILES_LEFT_OVER_H
#define HFTAC_RUNTIME_FILES_LEFT_OVER_H

#include <stdbool.h>

/* Tells others that `path`, a file or folder of a fresh temporary name that `fd` has open, has a
 * living owner, as long as `fd` is open.  False if another process was faster and removes it:
 * then the next name is to be tried. */
bool hft_left_claim(const char *path, int fd);
/* Removes the files in `folder` that killed processes left there, and gives each folder that
 * they left to `remove_folder` (if there is one).  Nothing is told about what cannot be removed. */
typedef void LeftFolder(void *context, const char *path);
void hft_left_remove(const char *folder, LeftFolder *remove_folder, void *context);

#endif
