/* Reading lines for the prompt: libedit on a terminal, plain lines otherwise. What is completed and remembered is decided in Lua
 * (fa4.repl); the history file is plain text, one line per entry, readable by its owner alone. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#ifdef FA4_HAVE_LIBEDIT
#include <histedit.h>
#endif

enum { HISTORY_ENTRIES_MAX = 5000 };

/* Lives in a userdata kept in the registry under its own address. */
typedef struct line_reader {
    lua_State *state; /* set while a line is read: completion calls back into it */
    char prompt[64];
    char *history_path; /* NULL: nothing is kept across runs */
#ifdef FA4_HAVE_LIBEDIT
    EditLine *editor;
    History *history;
    bool failed; /* no editor on this terminal */
#endif
} line_reader;

static const char reader_key, completer_key;

static line_reader *reader_get(lua_State *L) {
    lua_pushlightuserdata(L, (void *)&reader_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    line_reader *reader = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return reader;
}

static int reader_collect(lua_State *L) {
    line_reader *reader = lua_touserdata(L, 1);
#ifdef FA4_HAVE_LIBEDIT
    if (reader->editor) el_end(reader->editor);
    if (reader->history) history_end(reader->history);
    reader->editor = NULL;
    reader->history = NULL;
#endif
    free(reader->history_path);
    reader->history_path = NULL;
    return 0;
}

/* ---- plain lines ---- */

/* Pushes the line, false when interrupted, nil at the end. */
static int read_plain(lua_State *L, const char *prompt, bool show) {
    char *text = NULL;
    size_t capacity = 0;
    if (show) {
        FILE *stream = isatty(STDOUT_FILENO) ? stdout : stderr;
        fputs(prompt, stream);
        fflush(stream);
    }
    errno = 0;
    ssize_t length = getline(&text, &capacity, stdin);
    if (length >= 0) {
        lua_pushlstring(L, text, (size_t)length);
    } else if (errno == EINTR) {
        clearerr(stdin);
        lua_pushboolean(L, 0);
    } else {
        lua_pushnil(L);
    }
    free(text);
    return 1;
}

#ifdef FA4_HAVE_LIBEDIT
/* ---- lines with libedit ---- */

static bool history_ready(line_reader *reader) {
    HistEvent event;
    if (reader->history) return true;
    reader->history = history_init();
    if (!reader->history) return false;
    history(reader->history, &event, H_SETSIZE, HISTORY_ENTRIES_MAX);
    history(reader->history, &event, H_SETUNIQUE, 1);
    return true;
}

static char *show_prompt(EditLine *editor) {
    line_reader *reader = NULL;
    el_get(editor, EL_CLIENTDATA, &reader);
    return reader->prompt;
}

/* Tab: the Lua completer gets the text before the cursor and returns what to insert and, when there is a choice, a list to show. */
static unsigned char complete(EditLine *editor, wint_t key) {
    line_reader *reader = NULL;
    (void)key;
    el_get(editor, EL_CLIENTDATA, &reader);
    lua_State *L = reader->state;
    const LineInfo *line = el_line(editor);
    int top = lua_gettop(L);
    unsigned char result = CC_ERROR;
    lua_pushlightuserdata(L, (void *)&completer_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    if (lua_isfunction(L, -2) && lua_pcall(L, 1, 2, 0) == 0) {
        size_t bytes = 0;
        const char *insert = lua_tolstring(L, -2, &bytes);
        if (bytes > 0 && el_insertstr(editor, insert) == 0) result = CC_REFRESH;
        if (lua_isstring(L, -1)) {
            fprintf(stdout, "\n%s\n", lua_tostring(L, -1));
            fflush(stdout);
            result = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return result;
}

/* Waits for a key or an interrupt, whichever is first: SIGINT is let in only while waiting, so none is lost in between. Returns 1, or 0 at
 * the end of input, or -1 with errno. */
static int wait_for_key(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    int result = 1;
    if (host_signals_interrupted()) {
        errno = EINTR;
        result = -1;
    } else if (ppoll(&input, 1, NULL, &before) < 0) {
        result = -1;
    }
    int problem = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = problem;
    return result;
}

/* One character for libedit, in the user's character set. */
static int read_key(EditLine *editor, wchar_t *key) {
    mbstate_t state;
    (void)editor;
    memset(&state, 0, sizeof state);
    for (int bytes = 0; bytes < (int)MB_LEN_MAX; bytes++) {
        char byte;
        ssize_t count;
        do {
            if (wait_for_key() < 0 && (errno != EINTR || host_signals_interrupted())) return -1;
            count = read(STDIN_FILENO, &byte, 1);
        } while (count < 0 && errno == EINTR && !host_signals_interrupted());
        if (count <= 0) return (int)count;
        size_t used = mbrtowc(key, &byte, 1, &state);
        if (used == (size_t)-2) continue;
        if (used == (size_t)-1) *key = L'?'; // not a character here
        return 1;
    }
    *key = L'?';
    return 1;
}

static bool editor_open(line_reader *reader) {
    if (reader->editor) return true;
    if (reader->failed) return false;
    // Where no locale is set, what is typed is still UTF-8 nearly everywhere.
    if (strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0) setlocale(LC_CTYPE, "C.UTF-8");
    reader->editor = el_init("fa4", stdin, stdout, stderr);
    reader->failed = reader->editor == NULL;
    if (reader->failed) return false;
    el_set(reader->editor, EL_CLIENTDATA, reader);
    el_set(reader->editor, EL_PROMPT, show_prompt);
    el_set(reader->editor, EL_EDITOR, "emacs");
    el_set(reader->editor, EL_SIGNAL, 0);
    el_set(reader->editor, EL_GETCFN, read_key);
    if (history_ready(reader)) el_set(reader->editor, EL_HIST, history, reader->history);
    // The wide form: the narrow one keeps copies that libedit never frees.
    el_wset(reader->editor, EL_ADDFN, L"fa4-complete", L"Complete a name", complete);
    el_set(reader->editor, EL_BIND, "^I", "fa4-complete", NULL);
    el_set(reader->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(reader->editor, EL_BIND, "^W", "ed-delete-prev-word", NULL);
    return true;
}

static int read_edited(lua_State *L, line_reader *reader, const char *prompt) {
    int count = 0;
    snprintf(reader->prompt, sizeof reader->prompt, "%s", prompt);
    host_signals_save_terminal();
    reader->state = L;
    errno = 0;
    const char *text = el_gets(reader->editor, &count);
    int problem = errno;
    reader->state = NULL;
    if (text && count > 0) {
        lua_pushlstring(L, text, (size_t)count);
    } else if (count < 0 && problem == EINTR) {
        el_reset(reader->editor);
        fputc('\n', stdout);
        lua_pushboolean(L, 0);
    } else {
        lua_pushnil(L);
    }
    return 1;
}
#endif

/* readline(prompt): the line with its newline, false when Ctrl-C came, nil at the end of input. */
static int host_readline(lua_State *L) {
    const char *prompt = luaL_checkstring(L, 1);
    bool terminal = isatty(STDIN_FILENO);
    host_signals_stop();
#ifdef FA4_HAVE_LIBEDIT
    line_reader *reader = reader_get(L);
    const char *term = getenv("TERM");
    bool dumb = !term || !*term || strcmp(term, "dumb") == 0;
    if (terminal && isatty(STDOUT_FILENO) && !dumb && editor_open(reader)) return read_edited(L, reader, prompt);
#endif
    return read_plain(L, prompt, terminal);
}

/* ---- history ---- */

static void history_enter(line_reader *reader, const char *line) {
#ifdef FA4_HAVE_LIBEDIT
    HistEvent event;
    if (history_ready(reader)) history(reader->history, &event, H_ENTER, line);
#else
    (void)reader;
    (void)line;
#endif
}

/* Makes the folders of path, each for its owner alone. What fails shows when the file is opened. */
static void make_folders(const char *path) {
    char *copy = strdup(path);
    if (!copy) return;
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(copy, 0700);
        *slash = '/';
    }
    free(copy);
}

/* open_history(path): true, or nil and why lines will not be kept. */
static int host_open_history(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    line_reader *reader = reader_get(L);
    make_folders(path);
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    FILE *stream = file < 0 ? NULL : fdopen(file, "r");
    if (!stream) {
        if (file >= 0) close(file);
        lua_pushnil(L);
        lua_pushfstring(L, "%s: %s", path, strerror(errno));
        return 2;
    }
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, stream)) >= 0) {
        if (length > 0 && line[length - 1] == '\n') line[length - 1] = '\0';
        if (line[0]) history_enter(reader, line);
    }
    free(line);
    fclose(stream);
    free(reader->history_path);
    reader->history_path = strdup(path);
    lua_pushboolean(L, 1);
    return 1;
}

/* remember(line): enters one line and appends it to the file at once, so that a crash or a second fa4 loses nothing. */
static int host_remember(lua_State *L) {
    const char *line = luaL_checkstring(L, 1);
    line_reader *reader = reader_get(L);
    history_enter(reader, line);
    if (!reader->history_path) return 0;
    int file = open(reader->history_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return 0;
    size_t length = strlen(line);
    char *text = malloc(length + 1);
    if (text) {
        memcpy(text, line, length);
        text[length] = '\n';
        ssize_t ignored = write(file, text, length + 1); // one write: lines of two processes do not mix
        (void)ignored;
        free(text);
    }
    close(file);
    return 0;
}

/* set_completer(fn): fn(text before the cursor) returns what to insert and a text to show, or nil. */
static int host_set_completer(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushlightuserdata(L, (void *)&completer_key);
    lua_pushvalue(L, 1);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

void host_line_register(lua_State *L) {
    static const luaL_Reg functions[] = {{"readline", host_readline},
                                         {"open_history", host_open_history},
                                         {"remember", host_remember},
                                         {"set_completer", host_set_completer},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_pushlightuserdata(L, (void *)&reader_key);
    line_reader *reader = lua_newuserdata(L, sizeof *reader);
    memset(reader, 0, sizeof *reader);
    lua_newtable(L);
    lua_pushcfunction(L, reader_collect);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}
