/* How the programs end with an error, and their standard files. */
#include "tools/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/plain.h"

enum {
    MESSAGE_BYTES = 16384
};

void print_escaped(const char *s, FILE *to)
{
    for (size_t left = strlen(s); left;) {
        const PlainPiece piece = hft_plain_piece(s, left);
        fputs(*s == '\n' ? "\n" : piece.shown, to);
        s += piece.bytes;
        left -= piece.bytes;
    }
}

_Noreturn void die(int code, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fflush(stdout);
    fputs(PROGRAM ": error: ", stderr);
    print_escaped(text, stderr);
    fputs(code == EXIT_USAGE ? "\nTry '" PROGRAM " --help'.\n" : "\n", stderr);
    exit(code);
}

void standard_files_open(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

bool stdout_failed(void)
{
    return fflush(stdout) != 0 || ferror(stdout);
}

void stdout_flush(void)
{
    if (stdout_failed())
        die(EXIT_FILE, "cannot write to standard output: %s", strerror(errno));
}

_Noreturn void stdout_end(void)
{
    stdout_flush();
    exit(0);
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
