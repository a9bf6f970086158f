/* Putting a set in place inside of its folder; see saved_set.h. */
#ifndef HFTAC_RUNTIME_FILES_SAVED_PLACE_H
#define HFTAC_RUNTIME_FILES_SAVED_PLACE_H

#include "runtime/files/saved_set.h"

/* Calls `visit` for every entry but . and .. until it returns false; false if it did, or if the
 * folder cannot be read (errno). */
typedef bool SetVisit(void *context, const char *folder, const char *name);
bool hft_each_entry(const char *folder, SetVisit *visit, void *context);
/* Removes a folder of members (and a list of them), as far as it goes. */
void hft_set_remove(const char *folder, SetMember *is_member);

/* Writes the list of the members in `staged`, renames it to folder/.hftac-new, and finishes. */
hftac_status hft_place(const char *folder, const char *staged, SetMember *is_member);
/* Finishes what a killed process began: moves the members that still stand in .hftac-new. */
hftac_status hft_place_finish(const char *folder, SetMember *is_member);

#endif
