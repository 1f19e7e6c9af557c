/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over every file of a directory (or the files named), once as it is and once
 * in an exactly sized heap copy so that a read past the end shows under ASan. Fails when there is
 * nothing to replay: an empty corpus proves nothing.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t replayed;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    struct stat st;
    size_t n;

    if (!f || fstat(fileno(f), &st) != 0) {
        (void)fprintf(stderr, "replay: cannot read '%s'\n", path);
        return 1;
    }
    data = malloc((size_t)st.st_size + 1);
    if (!data)
        return 1;
    n = fread(data, 1, (size_t)st.st_size, f);
    (void)fclose(f);
    data = realloc(data, n ? n : 1);
    (void)LLVMFuzzerTestOneInput(data, n);
    free(data);
    replayed++;
    return 0;
}

static int replay_path(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int rc = 0;

    if (!d)
        return replay_file(path);
    while ((e = readdir(d)) != NULL) {
        char name[4096];

        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        rc |= replay_file(name);
    }
    (void)closedir(d);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = 0;

    for (int i = 1; i < argc; i++)
        rc |= replay_path(argv[i]);
    if (replayed == 0) {
        (void)fprintf(stderr, "replay: nothing to replay\n");
        return 1;
    }
    (void)printf("%zu inputs replayed\n", replayed);
    return rc;
}
