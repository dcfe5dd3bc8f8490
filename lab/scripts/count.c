/* A script that must not run twice for one request: it adds its query to the file "counted", works for a moment, says OK. */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    const char *query = getenv("QUERY_STRING");
    char line[64];
    int length = snprintf(line, sizeof line, "%s\n", query == NULL ? "" : query);
    int file = open("counted", O_WRONLY | O_APPEND);
    /* One write is one line, whoever else writes. */
    if (file < 0 || length >= (int) sizeof line || write(file, line, length) != length) {
        return 2;
    }
    poll(NULL, 0, 50);
    puts("Content-Type: text/html\n\nOK");
    return 0;
}
