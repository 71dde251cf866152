/* Rows of byte tokens into a folder of rows-NNNNN.json. Of the room data alone. */
#ifndef ROUX_DATA_ROW_WRITER_H
#define ROUX_DATA_ROW_WRITER_H

#include <stdint.h>
#include "base/status.h"
#include "base/text.h"

struct row_writer {
    char *folder;
    int64_t width;
    bool documents;        /* write document_ids */
    unsigned char *bytes;  /* [width] of the row that is being filled */
    int64_t *documents_of; /* [width] */
    int64_t filled;
    int fd; /* of the file that is being filled, if `path` is not empty */
    int number;
    struct text path, buffer;
    uint64_t written; /* bytes of this file that left the buffer */
    int64_t rows, tokens;
};

/* Makes the folder. */
MUST_USE status row_writer_open(struct row_writer *w, const char *folder, int64_t width,
                                bool documents);

/* Tokens of document `document`; a row that becomes full is written. */
MUST_USE status row_writer_bytes(struct row_writer *w, const unsigned char *bytes, size_t length,
                                 int64_t document);

/* Writes the row that is being filled, shorter as it is. Fine if there is none. */
MUST_USE status row_writer_end_row(struct row_writer *w);

/* The last row and the flush to disk of the last file and the folder. */
MUST_USE status row_writer_finish(struct row_writer *w);

void row_writer_close(struct row_writer *w); /* also of a zeroed struct */

#endif
