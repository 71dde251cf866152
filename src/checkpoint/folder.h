/*
 * The life of a checkpoint's folder. Inner to this room; rank 0 alone calls these.
 *
 *   folder.writing   being filled: begin .. publish or abandon; left behind only by a process that was killed
 *   folder           published: the two names are exchanged in one step where the file system can, so that the name
 *                    always stands for a whole checkpoint, the old one or the new one
 *   folder.old       the one that was replaced, until it is removed
 */
#ifndef ROUX_CHECKPOINT_FOLDER_H
#define ROUX_CHECKPOINT_FOLDER_H

#include "checkpoint/layout.h"

/* "a/b.writing" of "a/b" or "a/b/". */
char *folder_writing(struct arena *a, const char *folder);

/*
 * Makes an empty "folder.writing" with its inner folders, after removing what an earlier save left
 * there. ERR_IO if the place is not writable, or if `folder` is there and is neither empty nor a
 * checkpoint.
 */
MUST_USE status folder_begin(struct arena *a, const char *folder, const int size[AXIS_COUNT]);

/* Flushes "folder.writing", gives it the name `folder`, and removes what had it before. */
MUST_USE status folder_publish(struct arena *a, const char *folder, const int size[AXIS_COUNT]);

/* Removes "folder.writing"; trouble is logged only. */
void folder_abandon(struct arena *a, const char *folder);

#endif
