/* The command line of fa4: options, a script, a sub-command or the prompt, and the exit status. The rest of a sub-command or of the
 * prompt is Lua (fa4.info, fa4.test, fa4.repl, ...). */
#include "host/host.h"


#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <luajit.h>

static const char usage_text[] =
    "usage: fa4 [options] [script.lua [arguments]]\n"
    "       fa4 [options] command [arguments]\n";

static const char help_text[] =
    "\n"
    "Runs a Lua script with FlashAttention-4 at hand; without a script, the prompt.\n"
    "\n"
    "options\n"
    "  -e CODE        run CODE; the library is there as fa4\n"
    "  -l MODULE      require MODULE and keep it as a global of that name\n"
    "  -i             the prompt after everything else\n"
    "  -              run what comes on standard input as a script\n"
    "  --             the next argument is the script, whatever its name\n"
    "  --color=WHEN   auto, always or never (NO_COLOR also turns colour off)\n"
    "  --version      print the version\n"
    "  --help, -h     print this\n"
    "\n"
    "commands (a script of that name: ./info)\n"
    "  info           what this machine offers: CPU paths, threads, GPU software\n"
    "  test           run specs with busted inside this executable\n"
    "  cache ls|clear the kernels compiled at run time\n"
    "\n"
    "environment\n"
    "  FA4_NUM_THREADS=N  worker threads       FA4_CPU=NAME       instruction set\n"
    "  FA4_LOG=LEVEL      error, warn, info, debug (default warn)\n"
    "  FA4_CACHE_DIR=DIR  compiled kernels     NO_COLOR=1         no colour\n"
    "\n"
    "exit status\n"
    "  0 fine, 1 a script's error or a failed check, 2 usage, 3 a device is absent,\n"
    "  130 interrupted (a second Ctrl-C ends a compiled loop), 143 terminated\n";

typedef struct command_line {
    int argc;
    char **argv;
    int script;       /* index in argv; argc when there is none */
    const char *module; /* the sub-command's Lua module; NULL for a script */
    bool interactive; /* -i */
    bool code;        /* some -e */
    int exit_code;
} command_line;

/* ---- reading the command line ---- */

static int complain(const char *what, const char *argument) {
    fprintf(stderr, "fa4: %s: %s\n%s       fa4 --help tells more\n", argument, what, usage_text);
    return HOST_USAGE;
}

static int set_color(const char *when, const char *argument) {
    if (strcmp(when, "never") == 0) {
        setenv("NO_COLOR", "1", 1); // fa4.color and children read these
    } else if (strcmp(when, "always") == 0) {
        unsetenv("NO_COLOR");
        setenv("FORCE_COLOR", "1", 1);
    } else if (strcmp(when, "auto") != 0) {
        return complain("expected auto, always or never", argument);
    }
    return HOST_OK;
}

/* Does the option at argv[i] take the next argument? Sets *done when it has ended the program. */
static int read_option(command_line *line, int i, int *used, bool *done) {
    const char *option = line->argv[i];
    *used = 1;
    if (strcmp(option, "--version") == 0) {
        printf("fa4 %s (%s)\n", FA4_VERSION_TEXT, LUAJIT_VERSION);
        *done = true;
    } else if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
        printf("%s%s", usage_text, help_text);
        *done = true;
    } else if (strncmp(option, "--color=", 8) == 0) {
        return set_color(option + 8, option);
    } else if (strcmp(option, "--color") == 0) {
        return set_color("always", option);
    } else if (strcmp(option, "-i") == 0) {
        line->interactive = true;
    } else if (strcmp(option, "-e") == 0 || strcmp(option, "-l") == 0) {
        if (i + 1 >= line->argc) return complain("needs an argument", option);
        *used = 2;
        line->code = line->code || option[1] == 'e';
    } else {
        return complain("unknown option", option);
    }
    return HOST_OK;
}

static const char *command_module(const char *name) {
    static const char *const commands[][2] = {
        {"info", "fa4.info"}, {"test", "fa4.test"}, {"cache", "fa4.cache"}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i][0]) == 0) return commands[i][1];
    return NULL;
}

static int read_command_line(command_line *line, bool *done) {
    int i = 1;
    while (i < line->argc && line->argv[i][0] == '-' && line->argv[i][1] != '\0') {
        if (strcmp(line->argv[i], "--") == 0) {
            line->script = i + 1;
            return HOST_OK;
        }
        int used, code = read_option(line, i, &used, done);
        if (code != HOST_OK || *done) return code;
        i += used;
    }
    line->script = i;
    if (i < line->argc) line->module = command_module(line->argv[i]);
    return HOST_OK;
}

/* ---- running ---- */

/* arg as in plain Lua: arg[0] the script, arg[1] on its arguments, arg[-1] and below what stood before it. */
static void set_arg(lua_State *L, const command_line *line) {
    int zero = line->script < line->argc ? line->script : 0;
    lua_createtable(L, line->argc - zero, zero + 1);
    for (int i = 0; i < line->argc; i++) {
        lua_pushstring(L, line->argv[i]);
        lua_rawseti(L, -2, i - zero);
    }
    lua_setglobal(L, "arg");
}

/* global NAME = require(NAME) */
static int require_global(lua_State *L, const char *name) {
    lua_getglobal(L, "require");
    lua_pushstring(L, name);
    int code = host_call(L, 1, 1);
    if (code == HOST_OK) lua_setglobal(L, name);
    return code;
}

static int run_code(lua_State *L, const char *code) {
    // The library is loaded for one-liners that speak of it; `fa4 -e ""` starts without.
    if (strstr(code, "fa4")) {
        int failed = require_global(L, "fa4");
        if (failed) return failed;
    }
    if (luaL_loadbufferx(L, code, strlen(code), "=(command line)", "t") != 0) return host_report_load(L);
    return host_call(L, 0, 0);
}

static int run_options(lua_State *L, const command_line *line) {
    for (int i = 1; i < line->script && i < line->argc; i++) {
        const char *option = line->argv[i];
        int code = HOST_OK;
        if (strcmp(option, "-e") == 0) code = run_code(L, line->argv[++i]);
        else if (strcmp(option, "-l") == 0) code = require_global(L, line->argv[++i]);
        if (code != HOST_OK) return code;
    }
    return HOST_OK;
}

static int run_script(lua_State *L, const command_line *line) {
    const char *name = line->argv[line->script];
    bool input = strcmp(name, "-") == 0 && strcmp(line->argv[line->script - 1], "--") != 0;
    // Mode "t": byte code is refused, since crafted byte code can crash the machine.
    if (luaL_loadfilex(L, input ? NULL : name, "t") != 0) {
        if (strstr(lua_tostring(L, -1), "wrong mode"))
            lua_pushfstring(L, "%s: byte code is not run, only Lua source", input ? "standard input" : name);
        return host_report_load(L);
    }
    int arguments = line->argc - line->script - 1;
    luaL_checkstack(L, arguments + 8, "too many arguments");
    for (int i = 0; i < arguments; i++) lua_pushstring(L, line->argv[line->script + 1 + i]);
    return host_call(L, arguments, 0);
}

/* Calls function `name` of an embedded module with the arguments as a list; a number that it returns is the exit status. */
static int run_module(lua_State *L, const char *module, const char *name, const command_line *line) {
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    int code = host_call(L, 1, 1);
    if (code != HOST_OK) return code;
    lua_getfield(L, -1, name);
    lua_newtable(L);
    for (int i = line->script + 1; i < line->argc; i++) {
        lua_pushstring(L, line->argv[i]);
        lua_rawseti(L, -2, i - line->script);
    }
    code = host_call(L, 1, 1);
    if (code == HOST_OK && lua_isnumber(L, -1)) code = (int)lua_tointeger(L, -1);
    return code;
}

static int run_all(lua_State *L, const command_line *line) {
    int code = run_options(L, line);
    if (code != HOST_OK) return code;
    bool something = line->code;
    if (line->module) {
        code = run_module(L, line->module, "main", line);
        something = true;
    } else if (line->script < line->argc) {
        code = run_script(L, line);
        something = true;
    }
    if (something && !line->interactive) return code;
    return run_module(L, "fa4.repl", "main", line);
}

static int protected_main(lua_State *L) {
    command_line *line = lua_touserdata(L, 1);
    lua_settop(L, 0);
    host_state_fill(L, line->argv[0]);
    set_arg(L, line);
    host_signals_install(L);
    line->exit_code = run_all(L, line);
    return 0;
}

/* A full disk behind standard output must not look like success; a reader that left is no error. */
static int finish_output(int code) {
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE) {
        fprintf(stderr, "fa4: standard output: %s\n", errno ? strerror(errno) : "write failed");
        return code == HOST_OK ? HOST_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv) {
    static char default_name[] = "fa4";
    static char *no_arguments[] = {default_name, NULL};
    command_line line = {.argc = argc, .argv = argv};
    bool done = false;
    if (argc < 1) {
        line.argc = 1;
        line.argv = no_arguments;
    }
    // The user's character set for typing; numbers keep the decimal point that Lua reads.
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C");
    int code = read_command_line(&line, &done);
    if (code != HOST_OK || done) return finish_output(code);
    lua_State *L = luaL_newstate();
    if (!L) {
        fprintf(stderr, "fa4: no memory for a Lua state\n");
        return HOST_FAILED;
    }
    if (lua_cpcall(L, protected_main, &line) != 0) {
        fprintf(stderr, "fa4: %s\n", lua_tostring(L, -1));
        line.exit_code = HOST_FAILED;
    }
    host_signals_remove();
    lua_close(L);
    return finish_output(line.exit_code);
}
