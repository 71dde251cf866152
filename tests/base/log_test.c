#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#include "base/log.h"
#include "base/text.h"
#include "support/expect.h"

static int file = -1, kept_stderr = -1;
static char content[1 << 20];

/* From here on the log's lines go to a file that nobody else sees, and stderr is one too. */
static int open_log(void **state)
{
    FILE *temporary = tmpfile();
    FILE *shown = tmpfile();

    (void)state;
    if (temporary == NULL || shown == NULL) {
        return -1;
    }
    file = dup(fileno(temporary));
    fclose(temporary);
    fcntl(file, F_SETFL, O_APPEND);
    kept_stderr = dup(STDERR_FILENO);
    dup2(fileno(shown), STDERR_FILENO);
    fclose(shown);
    fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
    log_set_file(file);
    log_set_level(LOG_INFO);
    log_set_rank(0, 1);
    return 0;
}

static int close_log(void **state)
{
    (void)state;
    log_set_file(-1);
    close(file);
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    return 0;
}

static const char *content_of(int fd)
{
    ssize_t length = pread(fd, content, sizeof content - 1, 0);

    assert_true(length >= 0);
    content[length] = '\0';
    return content;
}

static bool is_time(const char *text)
{
    return strlen(text) >= 9 && text[2] == ':' && text[5] == ':' && text[8] == ' ' &&
           strspn(text, "0123456789:") == 8;
}

static void lines_have_their_form(void **state)
{
    const char *text;

    (void)state;
    log_info("step %d", 3);
    log_warning("slow");
    log_error("%s", "bad");
    text = content_of(file);
    assert_true(is_time(text));
    assert_true(text_starts(text + 9, "step 3\n"));
    assert_true(is_time(text + 16));
    assert_true(text_starts(text + 25, "warning: slow\n"));
    assert_string_equal(text + 39 + 9, "error: bad\n");
    assert_true(
        text_starts(content_of(STDERR_FILENO) + 9, "step 3\n")); /* no colour: it is no terminal */
    assert_null(strchr(content, '\033'));
}

static void the_level_decides(void **state)
{
    (void)state;
    log_debug("not shown");
    assert_string_equal(content_of(file), "");
    log_set_level(LOG_DEBUG);
    log_debug("shown");
    assert_string_equal(content_of(file) + 9, "debug: shown\n");
    log_set_level(LOG_ERROR);
    log_warning("not shown");
    log_info("not shown");
    log_error("last");
    assert_true(text_ends(content_of(file), "error: last\n"));
    assert_null(strstr(content, "not shown"));
}

static void ranks_are_named_where_there_are_several(void **state)
{
    (void)state;
    log_set_rank(3, 8);
    log_warning("late");
    assert_string_equal(content_of(file) + 9, "[rank 3] warning: late\n");
}

static void without_a_file_only_stderr_is_written(void **state)
{
    (void)state;
    log_set_file(-1);
    log_info("here");
    assert_string_equal(content_of(file), "");
    assert_string_equal(content_of(STDERR_FILENO) + 9, "here\n");
}

static void a_long_line_is_cut_visibly(void **state)
{
    static char text[20000];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    log_info("%s", text);
    assert_true(text_ends(content_of(file), "xxx...\n"));
    assert_int_equal(strlen(content), 8191);
    log_info("after");
    assert_true(text_ends(content_of(file), "after\n"));
}

/* What a terminal behind stderr receives. */
static const char *shown_on_terminal(int control)
{
    ssize_t length;

    log_warning("slow");
    length = read(control, content, sizeof content - 1);
    assert_true(length > 0);
    content[length] = '\0';
    return content;
}

static void a_terminal_shows_colour_unless_asked_not_to(void **state)
{
    int control = posix_openpt(O_RDWR | O_NOCTTY), terminal;

    (void)state;
    if (control < 0) {
        skip();
    }
    assert_int_equal(grantpt(control) | unlockpt(control), 0);
    terminal = open(ptsname(control), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    dup2(terminal, STDERR_FILENO);
    unsetenv("NO_COLOR");
    assert_true(text_starts(shown_on_terminal(control), "\033[33m"));
    assert_true(text_ends(content, "warning: slow\033[0m\r\n"));
    assert_null(strchr(content_of(file), '\033'));
    setenv("NO_COLOR", "1", 1);
    assert_true(is_time(shown_on_terminal(control)));
    assert_true(text_ends(content, "warning: slow\r\n"));
    unsetenv("NO_COLOR");
    close(terminal);
    close(control);
}

enum { THREADS = 4, LINES = 500 };

static void *write_lines(void *letter)
{
    for (int i = 0; i < LINES; i++) {
        log_info("%.60s", (const char *)letter);
    }
    return NULL;
}

static void threads_do_not_mix(void **state)
{
    char letters[THREADS][61];
    pthread_t threads[THREADS];
    const char *text;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        memset(letters[i], 'a' + i, 60);
        letters[i][60] = '\0';
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, letters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    text = content_of(file);
    assert_int_equal(strlen(text), THREADS * LINES * 70);
    for (const char *line = text; *line != '\0'; line += 70) {
        assert_true(is_time(line));
        assert_memory_equal(line + 9, letters[line[9] - 'a'], 60);
        assert_int_equal(line[69], '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_have_their_form, open_log, close_log),
        cmocka_unit_test_setup_teardown(the_level_decides, open_log, close_log),
        cmocka_unit_test_setup_teardown(ranks_are_named_where_there_are_several, open_log,
                                        close_log),
        cmocka_unit_test_setup_teardown(without_a_file_only_stderr_is_written, open_log, close_log),
        cmocka_unit_test_setup_teardown(a_long_line_is_cut_visibly, open_log, close_log),
        cmocka_unit_test_setup_teardown(a_terminal_shows_colour_unless_asked_not_to, open_log,
                                        close_log),
        cmocka_unit_test_setup_teardown(threads_do_not_mix, open_log, close_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
