/* Runs nvdisasm on a temporary file and reads what it prints. No shell is involved. */
#include "kernel/sass.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH_BYTES = 4096, TEXT_BYTES_MAX = 256 << 20 };

static bool try_path(const char *folder, size_t length, const char *below, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%.*s%s/nvdisasm", (int)length, folder, below);
    return n > 0 && n < PATH_BYTES && access(path, X_OK) == 0;
}

static bool find_tool(char path[PATH_BYTES]) {
    const char *forced = getenv("FA4_NVDISASM"), *at = getenv("PATH"), *home = getenv("CUDA_HOME");
    if (forced != NULL && *forced != '\0')
        return snprintf(path, PATH_BYTES, "%s", forced) < PATH_BYTES && access(path, X_OK) == 0;
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, ":");
        if (length > 0 && try_path(at, length, "", path)) return true;
        at += length + (at[length] == ':');
    }
    return (home != NULL && *home != '\0' && try_path(home, strlen(home), "/bin", path)) ||
           try_path("/usr/local/cuda", strlen("/usr/local/cuda"), "/bin", path);
}

static fa4_status write_file(char path[PATH_BYTES], const void *cubin, size_t bytes,
                             fa4_error *err) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, PATH_BYTES, "%s/fa4-XXXXXX", folder != NULL && *folder == '/' ? folder : "/tmp");
    int handle = mkstemp(path);
    if (handle < 0) return error_set(err, FA4_IO, "%s: %s", path, strerror(errno));
    FILE *file = fdopen(handle, "wb");
    bool good = file != NULL && fwrite(cubin, 1, bytes, file) == bytes;
    if (file == NULL)
        close(handle);
    else if (fclose(file) != 0)
        good = false;
    if (good) return FA4_OK;
    unlink(path);
    return error_set(err, FA4_IO, "%s: %s", path, strerror(errno));
}

static fa4_status read_all(int handle, char **text, size_t *length, fa4_error *err) {
    size_t room = 1 << 16, used = 0;
    char *all = malloc(room + 1);
    for (;;) {
        if (all != NULL && used == room) {
            char *larger = room < TEXT_BYTES_MAX ? realloc(all, room * 2 + 1) : NULL;
            if (larger == NULL) free(all);
            all = larger;
            room *= 2;
        }
        if (all == NULL) return error_set(err, FA4_NO_MEMORY, "nvdisasm: more text than memory");
        ssize_t n = read(handle, all + used, room - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += (size_t)n;
    }
    all[used] = '\0';
    *text = all;
    *length = used;
    return FA4_OK;
}

static fa4_status run_tool(char *tool, char *file, char **text, size_t *length, fa4_error *err) {
    int ends[2], status = 0;
    pid_t child;
    char *arguments[] = {tool, "-c", file, NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return error_set(err, FA4_IO, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int failure = posix_spawn(&child, tool, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failure != 0) {
        close(ends[0]);
        return error_set(err, FA4_IO, "%s: %s", tool, strerror(failure));
    }
    fa4_status result = read_all(ends[0], text, length, err);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (result != FA4_OK) return result;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return FA4_OK;
    error_set(err, FA4_DEVICE_ERROR, "%s failed: %.1500s", tool, *text);
    free(*text);
    *text = NULL;
    return FA4_DEVICE_ERROR;
}

fa4_status kernel_sass(const void *cubin, size_t bytes, char **text, size_t *length,
                       fa4_error *err) {
    char tool[PATH_BYTES], file[PATH_BYTES];
    *text = NULL;
    *length = 0;
    if (!find_tool(tool))
        return error_set(err, FA4_NO_DEVICE,
                         "nvdisasm, which prints machine code, was not found on PATH, in CUDA_HOME "
                         "or where FA4_NVDISASM says; it is part of "
                         "the CUDA toolkit and of the PyPI package nvidia-cuda-nvdisasm");
    FA4_TRY(write_file(file, cubin, bytes, err));
    fa4_status status = run_tool(tool, file, text, length, err);
    unlink(file);
    return status;
}
