/* What hftac and hftrun have in common as programs: exit codes, the way they end with an error,
 * and their standard files.  PROGRAM, the name in messages, is defined by the build. */
#ifndef HFTAC_TOOLS_PROGRAM_H
#define HFTAC_TOOLS_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>

/* As users know them; 70 (internal error) is ir/support/diag.c's, 128 + n is signal n. */
enum {
    EXIT_INPUT = 1,
    EXIT_USAGE = 2,
    EXIT_FILE = 3,
    EXIT_MISSING = 4, /* a device or a tool */
    EXIT_DIVERGED = 5
};

/* Prints "hftrun: error: ..." and after a usage error where help is, and ends the program.  No
 * byte of the text can command a terminal; newlines in it are kept. */
_Noreturn void die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints text that quotes files or arguments as die does. */
void print_escaped(const char *text, FILE *to);

/* Standard files that are closed are opened so that nothing else gets their numbers; reading and
 * writing still fail. */
void standard_files_open(void);
/* Whether anything printed so far did not arrive (errno). */
bool stdout_failed(void);
/* Ends the program with EXIT_FILE if what was printed did not arrive. */
void stdout_flush(void);
/* ... and with 0 if it did. */
_Noreturn void stdout_end(void);

/* Seconds by a clock that only goes forward. */
double now(void);

#endif
