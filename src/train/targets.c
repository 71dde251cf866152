/* Where a run writes: tried before the first step, and kept from other runs while it lasts. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "train/trainer.h"

static bool saves(const struct train_spec *s)
{
    return s->save_every > 0 || s->save_last || s->save_on_stop;
}

static status try_checkpoints(struct trainer *t)
{
    const struct train_spec *s = t->spec;
    const char *sharded = path_join(&t->run, s->checkpoint_dir, "sharded");
    uint64_t needed = 3 * (uint64_t)spec_parameters(&s->model) * dtype_bytes(kernels_sum(s->real)),
             space;
    char need[32], have[32];

    if (!saves(s)) {
        return OK;
    }
    if (file_is_there(sharded) && !file_is_folder(sharded)) {
        return fail(ERR_IO, "%s: is a file; checkpoints need a folder of this name", sharded);
    }
    TRY(folder_check_writable(file_is_there(sharded) ? sharded : s->checkpoint_dir));
    TRY(file_space(s->checkpoint_dir, &space));
    if (space < needed) {
        return fail(ERR_IO,
                    "%s: no space: a checkpoint needs %s, free are %s; make room or set "
                    "exp_manager.checkpoint_dir",
                    s->checkpoint_dir, text_bytes(need, needed), text_bytes(have, space));
    }
    return OK;
}

static status try_exports(struct trainer *t)
{
    const struct train_spec *s = t->spec;
    const struct weights *w = t->programs.model.weights;

    if (s->export_last && s->final_export_dir != NULL) {
        TRY(weights_export_check(w, s->final_export_dir, DT_F32, 0));
    }
    return OK;
}

/* A file system without locks keeps nobody out, and that is no reason not to train. */
static status take_lock(const char *folder, const char *key, int *fd)
{
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return fail(ERR_IO,
                    "%s: another run is writing here; wait for its end, or give this one "
                    "another exp_manager.%s",
                    folder, key);
    }
    return OK;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

status targets_open(struct trainer *t)
{
    const char *log = t->log_dir, *checkpoints = t->spec->checkpoint_dir;

    if (t->world->rank != 0) {
        return OK;
    }
    TRY(take_lock(log, "explicit_log_dir", &t->locks[0]));
    if (!same_folder(log, checkpoints)) {
        TRY(take_lock(checkpoints, "checkpoint_dir", &t->locks[1]));
    }
    if (t->at.step >= t->spec->max_steps) {
        return OK;
    }
    TRY(try_checkpoints(t));
    return try_exports(t);
}

void targets_close(struct trainer *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->locks[i] >= 0) {
            close(t->locks[i]);
            t->locks[i] = -1;
        }
    }
}
