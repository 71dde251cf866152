/*
 * rss_peak PROGRAM ARGUMENTS...
 *
 * Runs a program and samples its RssAnon + RssShmem every 5 ms. The last line on standard output:
 * "start A peak B" in KiB, where the start is the program's own, just after exec. Exits as the
 * program did.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* KiB; -1 where the process is gone or has no memory of its own yet. */
static long resident(const char *path)
{
    FILE *f = fopen(path, "re");
    char line[256];
    long anonymous = -1, shared = 0;

    if (f == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        (void)!sscanf(line, "RssAnon: %ld", &anonymous);
        (void)!sscanf(line, "RssShmem: %ld", &shared);
    }
    fclose(f);
    return anonymous < 0 ? -1 : anonymous + shared;
}

/* The program in a process of its own, once exec has put it there: the pipe's end, which only exec
 * closes there, is gone then. */
static pid_t begin(char **words)
{
    int ends[2];
    char none;
    pid_t child;

    fflush(stdout);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    child = fork();
    if (child == 0) {
        execvp(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    close(ends[1]);
    (void)!read(ends[0], &none, 1);
    close(ends[0]);
    return child;
}

int main(int count, char **words)
{
    const struct timespec pause = { 0, 5000000 };
    char path[64];
    long start, peak = 0;
    int state = 0;
    pid_t child;

    if (count < 2) {
        fprintf(stderr, "usage: rss_peak PROGRAM ARGUMENTS...\n");
        return 2;
    }
    child = begin(words + 1);
    if (child < 0) {
        perror("rss_peak");
        return 2;
    }
    snprintf(path, sizeof path, "/proc/%ld/status", (long)child);
    start = resident(path);
    while (waitpid(child, &state, WNOHANG) == 0) {
        long now = resident(path);

        peak = now > peak ? now : peak;
        nanosleep(&pause, NULL);
    }
    printf("start %ld peak %ld\n", start, peak);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}
