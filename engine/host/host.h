/* The executable's own parts: the embedded modules, the Lua state, signals, reading lines. An embedder like any other: of the engine it
 * needs only the public header, and that through Lua. */
#ifndef FA4_HOST_HOST_H
#define FA4_HOST_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

enum { HOST_OK = 0, HOST_FAILED = 1, HOST_USAGE = 2, HOST_NO_DEVICE = 3, HOST_INTERRUPTED = 130, HOST_TERMINATED = 143 };

/* One Lua module inside the executable: source text, not NUL-terminated as far as size says. */
typedef struct host_module {
    const char *name;  /* as required: "fa4.mask" */
    const char *chunk; /* "@fa4/mask.lua" */
    const char *source;
    size_t size;
} host_module;

extern const host_module host_modules[];
extern const int host_module_count;

/* ---- state.c ---- */

/* Adds the standard libraries, the embedded modules and the module fa4.host. executable: argv[0]. Raises without memory. */
void host_state_fill(lua_State *L, const char *executable);
/* Calls the function below its `arguments` on the stack; prints an error with its traceback. Returns the exit code. */
int host_call(lua_State *L, int arguments, int results);
/* Prints the load error on top of the stack and returns HOST_FAILED. */
int host_report_load(lua_State *L);

/* ---- signals.c ---- */

/* From here on SIGINT interrupts what L runs (a second one leaves with 130) and SIGTERM leaves with 143. One state per process. */
void host_signals_install(lua_State *L);
/* Default actions again, before the state is closed. */
void host_signals_remove(void);
/* true: the prompt is on, where Ctrl-C gives the prompt back instead of ending the process. */
void host_signals_prompt(bool on);
/* The engine's flag that an interrupt also sets: fa4_context_interrupt. NULL: none. */
void host_signals_watch(volatile int32_t *flag);
/* At the prompt: a chunk starts; an interrupt that came since the last stop stops it at once. */
void host_signals_start(void);
/* The chunk has ended, or a line is about to be read: forgets interrupts. */
void host_signals_stop(void);
/* Has an interrupt come, and not been forgotten? */
bool host_signals_interrupted(void);
/* The terminal's settings as they are now are restored when a signal ends the process. */
void host_signals_save_terminal(void);

/* ---- line.c ---- */

/* Adds readline, remember, open_history and set_completer to the table on top of the stack. */
void host_line_register(lua_State *L);

#endif
