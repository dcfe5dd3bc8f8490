/* A script that needs memory, as people's applications do: it takes so many megabytes, writes to all of them, says OK.
 *
 * With /lock behind its name it waits until no other one has memory. Compiled with GROWING it takes more in every run;
 * with CHILD another process that it starts has the memory; with HOLD_MS it keeps its memory for so many milliseconds. */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef GROWING
/* From 10 to 400 in forty runs, which are counted in a file. */
static size_t megabytes(void) {
    FILE *state = fopen("runs", "r+");
    int runs = 0;
    if (state == NULL || flock(fileno(state), LOCK_EX) != 0 || fscanf(state, "%d", &runs) != 1) {
        exit(2);
    }
    rewind(state);
    fprintf(state, "%d\n", runs + 1);
    fclose(state);
    return runs < 40 ? 10 + (size_t) runs * 10 : 400;
}
#else
static size_t megabytes(void) {
    return MEGABYTES;
}
#endif

static void take(void) {
    size_t bytes = megabytes() << 20;
    char *memory = malloc(bytes);
    if (memory == NULL) {
        exit(3);
    }
    memset(memory, 1, bytes);
    /* Somebody may look at it, says this, so the compiler cannot leave it out. */
    __asm__ volatile("" : : "r"(memory) : "memory");
#ifdef HOLD_MS
    poll(NULL, 0, HOLD_MS);
#endif
}

int main(void) {
    const char *path = getenv("PATH_INFO");
    if (path != NULL && strcmp(path, "/lock") == 0 && flock(open(".", O_RDONLY), LOCK_EX) != 0) {
        return 4;
    }
#ifdef CHILD
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        take();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        return 5;
    }
#else
    take();
#endif
    puts("Content-Type: text/html\n\nOK");
    return 0;
}
