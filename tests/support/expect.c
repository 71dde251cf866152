#include "support/expect.h"
#include <sys/wait.h>
#include <unistd.h>

void expect_broken_check(void (*call)(void), const char *part)
{
    char text[4096];
    size_t length = 0;
    ssize_t got;
    int ends[2], result = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        call();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0) {
        length += (size_t)got;
    }
    text[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &result, 0), child);
    if (!WIFEXITED(result) || WEXITSTATUS(result) != 70 || strstr(text, part) == NULL) {
        print_error("the process ended with %#x and \"%s\"; expected were code 70 and \"%s\"\n",
                    (unsigned)result, text, part);
        _fail(__FILE__, __LINE__);
    }
}
