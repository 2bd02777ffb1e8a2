/* SIGINT and SIGTERM. Debian's LuaJIT does not poll hooks in compiled code, so an interrupt is three things at once: a hook for
 * interpreted Lua, the engine's flag for a running call, and a second Ctrl-C that ends the process. */
#include "host/host.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* What a signal handler must reach can only be static. */
static lua_State *volatile signal_state;
static pthread_t signal_thread;
static volatile int32_t *volatile signal_flag;
static volatile sig_atomic_t signal_count;
static volatile sig_atomic_t signal_prompt;
static volatile sig_atomic_t signal_running; /* does Lua run that an interrupt should stop? At an idle prompt it does not. */
static struct termios signal_terminal;
static volatile sig_atomic_t signal_terminal_saved;

static void raise_interrupt(lua_State *L, lua_Debug *record) {
    (void)record;
    // The hook stays armed, so that a pcall in a loop cannot swallow the interrupt; host_signals_stop disarms it.
    luaL_error(L, "interrupted");
}

static void leave(int code) {
    if (signal_terminal_saved) tcsetattr(STDIN_FILENO, TCSANOW, &signal_terminal);
    _exit(code);
}

static void arm_hook(void) {
    lua_sethook(signal_state, raise_interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

static void on_interrupt(int number) {
    static const char hint[] = "\nstill running; Ctrl-C once more leaves fa4\n";
    if (!pthread_equal(pthread_self(), signal_thread)) { // a worker got it; Lua is the main thread's
        pthread_kill(signal_thread, number);
        return;
    }
    signal_count++;
    if (!signal_running) return; // a read of a line comes back with EINTR; a chunk about to start sees the count
    if (!signal_prompt && signal_count > 1) leave(HOST_INTERRUPTED);
    if (signal_prompt && signal_count > 3) leave(HOST_INTERRUPTED);
    if (signal_prompt && signal_count == 3) {
        ssize_t ignored = write(STDERR_FILENO, hint, sizeof hint - 1);
        (void)ignored;
    }
    if (signal_flag) *signal_flag = 1;
    arm_hook();
}

static void on_terminate(int number) {
    (void)number;
    leave(HOST_TERMINATED);
}

static void install(int number, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler; // no SA_RESTART: a read of a line must come back
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void host_signals_install(lua_State *L) {
    signal_state = L;
    signal_thread = pthread_self();
    signal_running = 1;
    install(SIGINT, on_interrupt);
    install(SIGTERM, on_terminate);
    // A reader that went away ends us quietly, whatever the parent had set.
    install(SIGPIPE, SIG_DFL);
    // A file that may not grow is an error of the write, which names it.
    install(SIGXFSZ, SIG_IGN);
}

void host_signals_prompt(bool on) {
    signal_prompt = on;
    signal_running = !on;
}

/* Blocked meanwhile: an interrupt in between would leave a hook without a count. */
static sigset_t block_interrupt(void) {
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    return before;
}

void host_signals_start(void) {
    sigset_t before = block_interrupt();
    signal_running = 1;
    if (signal_count > 0) { // Ctrl-C came right after the line was entered
        if (signal_flag) *signal_flag = 1;
        arm_hook();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void host_signals_stop(void) {
    sigset_t before = block_interrupt();
    signal_running = 0;
    lua_sethook(signal_state, NULL, 0, 0);
    if (signal_flag) *signal_flag = 0;
    signal_count = 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void host_signals_watch(volatile int32_t *flag) {
    signal_flag = flag;
    if (flag && signal_count > 0) *flag = 1;
}

bool host_signals_interrupted(void) { return signal_count > 0; }

void host_signals_remove(void) {
    install(SIGINT, SIG_DFL);
    install(SIGTERM, SIG_DFL);
    signal_flag = NULL;
    signal_state = NULL;
}

void host_signals_save_terminal(void) {
    signal_terminal_saved = tcgetattr(STDIN_FILENO, &signal_terminal) == 0;
}
