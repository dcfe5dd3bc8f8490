/* The least that a script can be: what remains when it costs nothing is the server and the kernel. */

#include <stdio.h>

int main(void) {
    puts("Content-Type: text/html\n");
    puts("<html><head><title>hello</title></head><body><p>hello world</p></body></html>");
    return 0;
}
