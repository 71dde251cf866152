/*
 * rss_peak PROGRAM ARGUMENTS...
 *
 * Runs a program and samples its RssAnon + RssShmem every 5 ms. The last line on standard output:
 * "start A peak B" in KiB, where the start is the first sample of the program itself. Exits as the
 * program did.
 */
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

int main(int count, char **words)
{
    const struct timespec pause = { 0, 5000000 };
    char path[64];
    long start = -1, peak = 0;
    int state = 0;
    pid_t child;

    if (count < 2) {
        fprintf(stderr, "usage: rss_peak PROGRAM ARGUMENTS...\n");
        return 2;
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execvp(words[1], words + 1);
        perror(words[1]);
        _exit(127);
    }
    snprintf(path, sizeof path, "/proc/%ld/status", (long)child);
    nanosleep(&pause, NULL); /* past exec */
    while (waitpid(child, &state, WNOHANG) == 0) {
        long now = resident(path);

        start = start < 0 ? now : start;
        peak = now > peak ? now : peak;
        nanosleep(&pause, NULL);
    }
    printf("start %ld peak %ld\n", start, peak);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}
