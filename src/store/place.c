#include "store/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"

/* ---- where a store may be ---- */

/* File systems whose files other machines may write, with locks and memory that are not shared. */
static const struct {
    unsigned long magic;
    const char *name;
} remote[] = {
    {NFS_SUPER_MAGIC, "NFS"},   {SMB_SUPER_MAGIC, "SMB"},     {SMB2_SUPER_MAGIC, "SMB"},
    {CIFS_SUPER_MAGIC, "SMB"},  {V9FS_MAGIC, "9p"},           {FUSE_SUPER_MAGIC, "FUSE"},
    {CEPH_SUPER_MAGIC, "Ceph"}, {AFS_FS_MAGIC, "AFS"},        {AFS_SUPER_MAGIC, "AFS"},
    {CODA_SUPER_MAGIC, "Coda"}, {OCFS2_SUPER_MAGIC, "OCFS2"}, {0x01161970, "GFS2"},
    {0x0bd00bd0, "Lustre"},     {0x786f4256, "vboxsf"},       {0x19830326, "BeeGFS"},
    {0x47504653, "GPFS"},       {0x20030528, "OrangeFS"},
};

static int check_file_system(const char *path, struct hf_error *reterr)
{
    struct statfs info;
    if (statfs(path, &info) != 0) return 0; /* opening it will say why */
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
        if ((unsigned long)info.f_type != remote[i].magic) continue;
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "%s lies on %s, where writes of other machines go unnoticed; choose a "
                             "directory on a disk of this machine, or share locks by \"holdfast "
                             "serve\" or DynamoDB",
                             path, remote[i].name);
    }
    return 0;
}

/* Whether something is mounted right on the file; what the kernel does not tell is taken as no. */
static bool is_mount_root(const char *path)
{
    struct statx info;
    if (statx(AT_FDCWD, path, 0, 0, &info) != 0) return false;
    return (info.stx_attributes_mask & info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static int check_file(const char *path, const struct stat *info, struct hf_error *reterr)
{
    if (!S_ISREG(info->st_mode))
        return hf__error_set(reterr, HF_ERR_INVALID, "%s is not a regular file", path);
    if (is_mount_root(path))
        return hf__error_set(
            reterr, HF_ERR_INVALID,
            "%s is mounted by itself, and its log lies elsewhere for others; mount "
            "the directory it is in instead",
            path);
    if (info->st_nlink > 1)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "%s has %lu hard links, and whoever opens another of them has another "
                             "log; remove the others, or use symbolic links",
                             path, (unsigned long)info->st_nlink);
    return check_file_system(path, reterr);
}

/* ---- making the file ---- */

/*
 * Where a chain of symbolic links that ends nowhere leads: open(O_EXCL) follows none, and SQLite
 * would make that file with the usual permissions.
 */
static int follow_links(struct hf_arena *arena, const char *path, const char **ret,
                        struct hf_error *reterr)
{
    enum { MOST = 40 };
    char target[PATH_MAX];
    for (int i = 0; i < MOST; i++) {
        ssize_t len = readlink(path, target, sizeof target - 1);
        if (len < 0) {
            *ret = path;
            return 0;
        }
        target[len] = '\0';
        const char *slash = strrchr(path, '/');
        int directory = target[0] != '/' && slash ? (int)(slash + 1 - path) : 0;
        path = hf__arena_printf(arena, "%.*s%s", directory, path, target).ptr;
        if (!path) return hf__error_no_memory(reterr);
    }
    return hf__error_set(reterr, HF_ERR_INVALID, "%s: too many symbolic links", path);
}

/* Of the directory in which a file is about to be made. */
static int check_directory(struct hf_arena *arena, const char *path, struct hf_error *reterr)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    const char *directory = slash ? hf__arena_str(arena, hf__slice(path, len)) : ".";
    return directory ? check_file_system(directory, reterr) : hf__error_no_memory(reterr);
}

static int make_file(const char *path, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    const char *at = path;
    int code = follow_links(&arena, path, &at, reterr);
    if (code == 0) code = check_directory(&arena, at, reterr);
    int fd = code == 0 ? open(at, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    int saved = errno;
    if (fd >= 0) close(fd);
    if (code == 0 && fd < 0 && saved != EEXIST) { /* another process may have been faster */
        bool full = saved == ENOSPC || saved == EDQUOT;
        bool may_not = saved == EROFS || saved == EACCES || saved == EPERM;
        code = hf__error_set(reterr,
                             full      ? HF_ERR_FULL
                             : may_not ? HF_ERR_READ_ONLY
                                       : HF_ERR_IO,
                             "cannot create %s: %s%s", at, strerror(saved),
                             saved == ENOENT ? "; create its directory first"
                             : full          ? "; free space on its file system"
                             : may_not ? "; make the file and its directory writable for this user"
                                       : "");
    }
    hf__arena_free(&arena);
    return code;
}

/*
 * Makes a missing file with safe permissions before SQLite would make it with the usual ones. A
 * file that exists is not opened here: closing it again would drop the locks that another
 * connection of this process has on it.
 */
int hf__place_prepare(const char *path, struct hf_error *reterr)
{
    struct stat info;
    if (stat(path, &info) == 0) return check_file(path, &info, reterr);
    if (errno != ENOENT)
        return hf__error_set(reterr, errno == EACCES ? HF_ERR_READ_ONLY : HF_ERR_IO,
                             "cannot look at %s: %s", path, strerror(errno));
    int code = make_file(path, reterr);
    if (code != 0) return code;
    return stat(path, &info) == 0 ? check_file(path, &info, reterr) : 0;
}

/* ---- whether it is still there ---- */

int hf__place_mark(struct hf_place *place, const char *path, struct hf_error *reterr)
{
    static const char *const ends[HF_PLACE_FILES] = {"", "-wal", "-shm", "-open"};
    char directory[PATH_MAX] = "", resolved[PATH_MAX], real[PATH_MAX];
    *place = (struct hf_place){0};
    if (path[0] != '/' && !getcwd(directory, sizeof directory))
        return hf__error_set(reterr, HF_ERR_IO, "cannot find the working directory: %s",
                             strerror(errno));
    int size =
        snprintf(resolved, sizeof resolved, "%s%s%s", directory, directory[0] ? "/" : "", path);
    if (size >= (int)sizeof resolved)
        return hf__error_set(reterr, HF_ERR_INVALID, "%s: the path is too long", path);
    for (int i = 0; i < HF_PLACE_FILES; i++) {
        char name[sizeof resolved + 8];
        struct stat info;
        /* Log and memory stand beside the file itself, not beside a link to it. */
        snprintf(name, sizeof name, "%s%s", resolved, ends[i]);
        if (stat(name, &info) != 0)
            return hf__error_set(reterr, HF_ERR_DAMAGED, "%s is gone: %s", name, strerror(errno));
        place->seen[i].device = info.st_dev;
        place->seen[i].inode = info.st_ino;
        place->paths[i] = hf__strdup(name);
        if (!place->paths[i]) return hf__error_no_memory(reterr);
        if (i == 0 && realpath(resolved, real)) snprintf(resolved, sizeof resolved, "%s", real);
    }
    return 0;
}

int hf__place_verify(const struct hf_place *place, struct hf_error *reterr)
{
    for (int i = 0; i < HF_PLACE_FILES && place->paths[i]; i++) {
        struct stat info;
        if (stat(place->paths[i], &info) != 0) {
            if (errno != ENOENT && errno != ENOTDIR) continue; /* not known, and not likely */
            return hf__error_set(reterr, HF_ERR_DAMAGED,
                                 "%s was deleted or moved while it was in use; its locks are lost. "
                                 "Put it back, or open the store anew",
                                 place->paths[i]);
        }
        if (info.st_dev == place->seen[i].device && info.st_ino == place->seen[i].inode) continue;
        return hf__error_set(reterr, HF_ERR_DAMAGED,
                             "%s was replaced while it was in use; its locks are lost. Open the "
                             "store anew",
                             place->paths[i]);
    }
    return 0;
}

const char *hf__place_open_file(const struct hf_place *place)
{
    return place->paths[HF_PLACE_FILES - 1];
}

void hf__place_free(struct hf_place *place)
{
    for (int i = 0; i < HF_PLACE_FILES; i++) hf__free(place->paths[i]);
    *place = (struct hf_place){0};
}
