/* Several files of one folder that are one unit: all of the old ones or all of the new ones.
 *
 * A new set is written and synced out of sight, then takes the old one's place in one step:
 *
 *   exchange   The folder holds nothing else (or is not there yet): a new folder is written
 *              beside it and exchanged with it by one system call (renameat2).  Nobody ever
 *              sees a mixture.
 *   in place   The folder holds files of the user's own, is where this process (or a link to
 *              it) works, is a mount point, belongs to somebody else, its parent cannot be
 *              written, or the file system cannot exchange: the folder stays what it is.  The
 *              new set is written into a folder inside of it, with a list of its members;
 *              renaming that folder to ".hftac-new" is the step.  Then the members move to
 *              their places, one by one.  A process that is killed meanwhile leaves ".hftac-new"
 *              behind; who reads the set through hft_set_find sees all of the new one, and
 *              the next save finishes the moves.
 *
 * The user's own files are never touched.  What killed processes leave behind (folders called
 * .hftac-... beside or inside of the folder) is removed by the next save. */
#ifndef HFTAC_RUNTIME_FILES_SAVED_SET_H
#define HFTAC_RUNTIME_FILES_SAVED_SET_H

#include <stdbool.h>

#include "runtime/files/atomic_file.h"

/* Whether a file of this name belongs to sets of this kind: those of the old set go. */
typedef bool SetMember(const char *name);

typedef struct SavedSet SavedSet;

/* Starts a set in `folder`, which is made if need be (its parent must be there). */
hftac_status hft_set_begin(const char *folder, SetMember *is_member, SavedSet **set);
/* A new file of the set; it must be committed or aborted before the set is. */
hftac_status hft_set_create(const SavedSet *set, const char *name, AtomicFile **file);
/* The step.  After a failure the old set is as it was.  Both free the set. */
hftac_status hft_set_commit(SavedSet *set);
void hft_set_abort(SavedSet *set); /* accepts NULL */

/* Where the member `name` of the folder's set is to be read; malloc'd, NULL without memory.
 * There may be no such file. */
char *hft_set_find(const char *folder, const char *name);

#endif
