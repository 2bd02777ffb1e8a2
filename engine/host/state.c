/* The Lua state: embedded modules, the module fa4.host, and calls whose errors are printed with a traceback. */
#include "host/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- embedded modules ---- */

/* A searcher as package.loaders wants it: the loader, or why there is none. */
static int search_embedded(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    for (int i = 0; i < host_module_count; i++) {
        const host_module *m = &host_modules[i];
        if (strcmp(name, m->name) != 0) continue;
        if (luaL_loadbufferx(L, m->source, m->size, m->chunk, "t") != 0) return lua_error(L);
        return 1;
    }
    lua_pushfstring(L, "\n\tno module '%s' inside the executable", name);
    return 1;
}

/* After package.preload, before the path: an installed module of another version must not mix in. */
static void add_searcher(lua_State *L) {
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "loaders");
    for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, search_embedded);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 2);
}

/* ---- the module fa4.host ---- */

/* source(name): the text of an embedded module, or nil. The documentation is read from it. */
static int host_source(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    for (int i = 0; i < host_module_count; i++) {
        if (strcmp(name, host_modules[i].name) != 0) continue;
        lua_pushlstring(L, host_modules[i].source, host_modules[i].size);
        return 1;
    }
    lua_pushnil(L);
    return 1;
}

/* watch(flag): flag is the cdata pointer that fa4_context_interrupt returned, or nil. */
static int host_watch(lua_State *L) {
    volatile int32_t *flag = NULL;
    if (!lua_isnoneornil(L, 1)) {
        const void *payload = lua_topointer(L, 1); // of a pointer cdata: where the pointer is stored
        if (!payload || lua_type(L, 1) <= LUA_TTHREAD) return luaL_argerror(L, 1, "expected a pointer from the FFI");
        memcpy(&flag, payload, sizeof flag);
    }
    host_signals_watch(flag);
    return 0;
}

static int describe_error(lua_State *L);

/* protect(f, ...): nil, or what went wrong: {message =, traceback =, kind =, interrupted =}. For the prompt: an interrupt stops f and is
 * forgotten afterwards; it never reaches the caller. */
static int host_protect(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushcfunction(L, describe_error);
    lua_insert(L, 1);
    host_signals_start();
    int status = lua_pcall(L, lua_gettop(L) - 2, 0, 1);
    bool interrupted = host_signals_interrupted();
    host_signals_stop();
    if (status == 0) return 0;
    if (!lua_istable(L, -1)) { // no memory, or an error while the error was described
        lua_newtable(L);
        lua_insert(L, -2);
        lua_setfield(L, -2, "message");
    }
    lua_pushboolean(L, interrupted);
    lua_setfield(L, -2, "interrupted");
    return 1;
}

static int host_prompt(lua_State *L) {
    host_signals_prompt(lua_toboolean(L, 1));
    return 0;
}

static int host_is_terminal(lua_State *L) {
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

static int open_host(lua_State *L) {
    static const luaL_Reg functions[] = {{"source", host_source},
                                         {"watch", host_watch},
                                         {"protect", host_protect},
                                         {"prompt", host_prompt},
                                         {"is_terminal", host_is_terminal},
                                         {NULL, NULL}};
    lua_newtable(L);
    luaL_setfuncs(L, functions, 0);
    host_line_register(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_setfield(L, -2, "executable");
    lua_pushstring(L, FA4_VERSION_TEXT);
    lua_setfield(L, -2, "version");
    return 1;
}

void host_state_fill(lua_State *L, const char *executable) {
    lua_gc(L, LUA_GCSTOP, 0);
    luaL_openlibs(L);
    add_searcher(L);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushstring(L, executable);
    lua_pushcclosure(L, open_host, 1);
    lua_setfield(L, -2, "fa4.host");
    lua_pop(L, 2);
    lua_gc(L, LUA_GCRESTART, 0);
}

/* ---- calls ---- */

/* Turns any error value into {message =, traceback =, kind =}. */
static int describe_error(lua_State *L) {
    lua_settop(L, 1);
    lua_newtable(L);
    if (lua_istable(L, 1)) {
        lua_getfield(L, 1, "kind");
        lua_setfield(L, 2, "kind");
    }
    if (lua_isnil(L, 1)) {
        lua_pushliteral(L, "(error without a message)");
    } else if (lua_isstring(L, 1)) {
        lua_pushvalue(L, 1);
    } else if (luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1)) {
        // The object's own words are on top.
    } else {
        lua_pushfstring(L, "(error object: a %s)", luaL_typename(L, 1));
    }
    lua_setfield(L, 2, "message");
    luaL_traceback(L, L, NULL, 1);
    lua_setfield(L, 2, "traceback");
    lua_settop(L, 2);
    return 1;
}

/* Prints the error on top of the stack, a string or describe_error's table, and pops it. */
static int report(lua_State *L) {
    int code = HOST_FAILED;
    fflush(stdout);
    if (lua_istable(L, -1)) {
        lua_getfield(L, -1, "kind");
        const char *kind = lua_isstring(L, -1) ? lua_tostring(L, -1) : "";
        if (strcmp(kind, "device") == 0) code = HOST_NO_DEVICE;
        lua_getfield(L, -2, "message");
        lua_getfield(L, -3, "traceback");
        fprintf(stderr, "fa4: %s\n", lua_tostring(L, -2));
        // Where the script was says nothing about a wrong environment variable.
        if (strcmp(kind, "environment") != 0) fprintf(stderr, "%s\n", lua_tostring(L, -1));
        lua_pop(L, 3);
    } else {
        const char *text = lua_tostring(L, -1);
        fprintf(stderr, "fa4: %s\n", text ? text : "error without a message");
    }
    lua_pop(L, 1);
    return host_signals_interrupted() ? HOST_INTERRUPTED : code;
}

int host_call(lua_State *L, int arguments, int results) {
    int base = lua_gettop(L) - arguments;
    lua_pushcfunction(L, describe_error);
    lua_insert(L, base);
    int status = lua_pcall(L, arguments, results, base);
    lua_remove(L, base);
    return status == 0 ? HOST_OK : report(L);
}

int host_report_load(lua_State *L) { return report(L); }
