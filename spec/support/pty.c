/*
 * pty SECONDS COMMAND [ARGUMENT...]: drives a program on a pseudo-terminal by the lines that it reads on standard input.
 *
 *   send TEXT          types TEXT; \n, \r, \t, \e, \\ and \xHH are understood
 *   within S TEXT      waits until TEXT comes out, at most S seconds, in what came since the last match
 *   without TEXT       TEXT must not be in what came since the last match (wait for something first)
 *   exit CODE          waits for the program to end with that status
 *
 * Prints everything the program wrote. Exit status: 0 all held, 1 something did not (said on standard error), 77 no pseudo-terminal.
 * The program is killed after SECONDS in all.
 */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUTPUT_BYTES_MAX = 1 << 20, LINE_BYTES_MAX = 4096 };

typedef struct driver {
    int terminal;
    pid_t child;
    double deadline;
    char output[OUTPUT_BYTES_MAX];
    size_t length, matched; /* bytes that came; where the search goes on */
    int ended, status;
} driver;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes what the program writes until `until`, at most one read. Returns 0 when the terminal is closed. */
static int take(driver *d, double until) {
    double left = until - now();
    struct pollfd wait = {.fd = d->terminal, .events = POLLIN};
    int ready = poll(&wait, 1, left <= 0 ? 0 : (int)(left * 1000) + 1);
    if (ready <= 0) return 1;
    ssize_t count = read(d->terminal, d->output + d->length, OUTPUT_BYTES_MAX - 1 - d->length);
    if (count <= 0) return 0;
    fwrite(d->output + d->length, 1, (size_t)count, stdout);
    d->length += (size_t)count;
    d->output[d->length] = '\0';
    return 1;
}

/* In place: \n, \r, \t, \e, \\, \xHH. Returns the length. */
static size_t unescape(char *text) {
    char *to = text;
    for (char *from = text; *from; from++) {
        if (*from != '\\' || from[1] == '\0') {
            *to++ = *from;
            continue;
        }
        from++;
        if (*from == 'n') *to++ = '\n';
        else if (*from == 'r') *to++ = '\r';
        else if (*from == 't') *to++ = '\t';
        else if (*from == 'e') *to++ = 27;
        else if (*from == 'x' && from[1] && from[2]) {
            char digits[3] = {from[1], from[2], '\0'};
            *to++ = (char)strtol(digits, NULL, 16);
            from += 2;
        } else *to++ = *from;
    }
    *to = '\0';
    return (size_t)(to - text);
}

static int await(driver *d, double seconds, const char *text) {
    double until = now() + seconds;
    if (until > d->deadline) until = d->deadline;
    for (;;) {
        char *found = memmem(d->output + d->matched, d->length - d->matched, text, strlen(text));
        if (found) {
            d->matched = (size_t)(found - d->output) + strlen(text);
            return 1;
        }
        if (now() >= until || !take(d, until)) return 0;
    }
}

static int await_exit(driver *d, int code) {
    while (now() < d->deadline && take(d, d->deadline)) {
    }
    while (!d->ended && now() < d->deadline) {
        d->ended = waitpid(d->child, &d->status, WNOHANG) == d->child;
        if (!d->ended) usleep(2000);
    }
    return d->ended && WIFEXITED(d->status) && WEXITSTATUS(d->status) == code;
}

static int step(driver *d, char *line) {
    char *rest;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "send ", 5) == 0) {
        size_t count = unescape(line + 5);
        usleep(40000); // a line editor shows its prompt a moment before it has the terminal
        return write(d->terminal, line + 5, count) == (ssize_t)count;
    }
    if (strncmp(line, "within ", 7) == 0) {
        double seconds = strtod(line + 7, &rest);
        if (*rest != ' ') return 0;
        unescape(rest + 1);
        return await(d, seconds, rest + 1);
    }
    if (strncmp(line, "without ", 8) == 0) {
        unescape(line + 8);
        return memmem(d->output + d->matched, d->length - d->matched, line + 8, strlen(line + 8)) == NULL;
    }
    if (strncmp(line, "exit ", 5) == 0) return await_exit(d, atoi(line + 5));
    return line[0] == '\0';
}

int main(int argc, char **argv) {
    static driver d;
    char line[LINE_BYTES_MAX], shown[LINE_BYTES_MAX];
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    int failed = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: pty SECONDS COMMAND [ARGUMENT...] < steps\n");
        return 2;
    }
    d.deadline = now() + atof(argv[1]);
    d.child = forkpty(&d.terminal, NULL, NULL, &size);
    if (d.child < 0) {
        fprintf(stderr, "pty: no pseudo-terminal: %s\n", strerror(errno));
        return 77;
    }
    if (d.child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    while (!failed && fgets(line, sizeof line, stdin)) {
        memcpy(shown, line, sizeof shown);
        failed = !step(&d, line);
        if (failed) fprintf(stderr, "\npty: did not hold: %s", shown);
    }
    if (!d.ended) {
        kill(d.child, SIGKILL);
        waitpid(d.child, &d.status, 0);
    }
    if (failed && d.ended) fprintf(stderr, "pty: the program ended with status %d\n", WIFEXITED(d.status) ? WEXITSTATUS(d.status) : -1);
    close(d.terminal);
    fflush(stdout);
    return failed;
}
