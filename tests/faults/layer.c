/* Watches what a process does to the files of one folder, and kills it or fails at a chosen call.

   `watch` installs a seccomp filter, by which the kernel raises SIGSYS instead of making a call that
   changes files. The handler looks at the call and makes it. So it sees all calls, also those that
   do not go through the C library. Only Linux on x86-64 and ARM64.

   Each call is appended to a log:
     KIND \t OFFSET \t SIZE \t PATH \t SECOND PATH \n DATA \n
   Kinds: O open (offset 1: truncate), W write, T truncate to the offset, S sync, R rename, L link,
   U unlink, D mkdir, X rmdir, - a call that failed.

   An error can be returned once, or from the chosen call on. Then half of a write is still made, as
   on a disk that becomes full. A full disk or quota does not prevent the removal of a file, and
   not the opening of one that exists. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define MARK 0x6661756cL /* the sixth argument of the handler's own calls, which the filter allows */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define RESULT(c) ((c)->uc_mcontext.gregs[REG_RAX])
static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8};
#define ARGUMENT(c, i) ((c)->uc_mcontext.gregs[registers[i]])
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define RESULT(c) ((c)->uc_mcontext.regs[0])
#define ARGUMENT(c, i) ((long)(c)->uc_mcontext.regs[i])
#else
#error "this processor is not supported"
#endif

static const int trapped[] = {
    SYS_openat, SYS_write, SYS_pwrite64, SYS_writev, SYS_sendfile, SYS_ftruncate, SYS_fsync,
    SYS_fdatasync, SYS_renameat, SYS_renameat2, SYS_linkat, SYS_unlinkat, SYS_mkdirat,
#ifdef SYS_open
    SYS_open, SYS_creat, SYS_rename, SYS_link, SYS_unlink, SYS_mkdir, SYS_rmdir,
#endif
};

static char folder[PATH_MAX], log_path[PATH_MAX];
static unsigned long stop_at, calls;
static int error_number, ever_after;

static long make(long number, const long *a) {
  return syscall(number, a[0], a[1], a[2], a[3], a[4], MARK);
}

/* Whether a path is in the folder; writes the absolute path to `out`. */
static int watched(int dir, const char *path, char *out) {
  out[0] = 0;
  if (path[0] != '/') {
    char link[64];
    snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir);
    ssize_t n = readlink(link, out, PATH_MAX - 2);
    if (n < 0) return 0;
    strcpy(out + n, "/");
  }
  strncat(out, path, PATH_MAX - 1 - strlen(out));
  size_t n = strlen(folder);
  return strncmp(out, folder, n) == 0 && (out[n] == '/' || out[n] == 0);
}

static int watched_file(int file, char *out) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return path[0] == '/' && watched(AT_FDCWD, path, out);
}

static void append(char kind, long offset, size_t size, const char *path, const char *second,
                   const void *data) {
  static char head[2 * PATH_MAX + 64];
  if (!log_path[0]) return;
  int n = snprintf(head, sizeof head, "%c\t%ld\t%zu\t%s\t%s\n", kind, offset, size, path, second);
  struct iovec parts[] = {{head, n}, {(void *)data, size}, {"\n", 1}};
  long name[] = {AT_FDCWD, (long)log_path, O_WRONLY | O_CREAT | O_APPEND, 0600, 0};
  int file = make(SYS_openat, name);
  long content[] = {file, (long)parts, 3, 0, 0};
  if (make(SYS_writev, content) < 0) abort();
  close(file);
}

/* Append a write of `done` bytes before the offset `end`, which are read from the file. */
static void append_written(const char *path, long end, long done) {
  char *data = malloc(done + 1);
  long name[] = {AT_FDCWD, (long)path, O_RDONLY, 0, 0};
  int file = make(SYS_openat, name);
  if (pread(file, data, done, end - done) != done) abort();
  close(file);
  append('W', end - done, done, path, "", data);
  free(data);
}

/* What a call does: its kind (0: it changes no files of the folder) and its paths. */
static char kind_of(long number, const long *a, char *one, char *two) {
  two[0] = 0;
  switch (number) {
    case SYS_openat:
      return (a[2] & (O_CREAT | O_TRUNC)) && watched(a[0], (char *)a[1], one) ? 'O' : 0;
    case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_sendfile:
      return watched_file(a[0], one) ? 'W' : 0;
    case SYS_ftruncate: return watched_file(a[0], one) ? 'T' : 0;
    case SYS_fsync: case SYS_fdatasync: return watched_file(a[0], one) ? 'S' : 0;
    case SYS_renameat: case SYS_renameat2: case SYS_linkat:
      return watched(a[0], (char *)a[1], one) & watched(a[2], (char *)a[3], two)
          ? (number == SYS_linkat ? 'L' : 'R') : 0;
    case SYS_unlinkat:
      return watched(a[0], (char *)a[1], one) ? (a[2] & AT_REMOVEDIR ? 'X' : 'U') : 0;
    case SYS_mkdirat: return watched(a[0], (char *)a[1], one) ? 'D' : 0;
  }
  return 0;
}

/* Change a call into the newer one that also takes a folder. */
static void modernise(long *number, long *a) {
#ifdef SYS_open
  long first = a[0], second = a[1], third = a[2];
  long old[] = {SYS_open, SYS_creat, SYS_unlink, SYS_mkdir, SYS_rmdir, SYS_rename, SYS_link};
  long news[] = {SYS_openat, SYS_openat, SYS_unlinkat, SYS_mkdirat, SYS_unlinkat, SYS_renameat2,
                 SYS_linkat};
  for (int i = 0; i < 7; i++) {
    if (*number != old[i]) continue;
    long one[] = {AT_FDCWD, first, second, third, 0};
    long two[] = {AT_FDCWD, first, AT_FDCWD, second, 0};
    memcpy(a, i < 5 ? one : two, sizeof one);
    if (i == 1) a[2] = O_CREAT | O_WRONLY | O_TRUNC, a[3] = second;
    if (i == 2) a[2] = 0;
    if (i == 4) a[2] = AT_REMOVEDIR;
    *number = news[i];
    return;
  }
#endif
}

/* Whether a call fails in the way that was asked for; a write that is the first may be halved. */
static int fails(char kind, long number, long *a, const char *path) {
  if (!error_number || calls < stop_at || (calls > stop_at && !ever_after)) return 0;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    if (strchr("TUX", kind) || (kind == 'O' && faccessat(AT_FDCWD, path, F_OK, 0) == 0)) return 0;
  }
  if (!ever_after || calls > stop_at || number != SYS_write || a[2] < 2) return 1;
  a[2] /= 2;
  return 0;
}

static void handle(int signal, siginfo_t *information, void *context) {
  static char one[PATH_MAX], two[PATH_MAX];
  static int busy;
  int saved = errno;
  ucontext_t *c = context;
  long number = information->si_syscall, a[5];
  for (int i = 0; i < 5; i++) a[i] = ARGUMENT(c, i);
  while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) usleep(10); /* by another thread */
  modernise(&number, a);
  char kind = kind_of(number, a, one, two);
  if (kind && ++calls == stop_at && !error_number) {
    if (number == SYS_write) a[2] /= 2, make(number, a);
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  long done = -1;
  if (kind && stop_at && fails(kind, number, a, one)) errno = error_number;
  else done = make(number, a);
  RESULT(c) = done < 0 ? -errno : done;
  if (kind && log_path[0]) {
    if (done < 0) append('-', 0, 0, one, two, "");
    else if (kind == 'W')
      append_written(one, number == SYS_pwrite64 ? a[3] + done : lseek(a[0], 0, SEEK_CUR), done);
    else if (kind == 'O') append(kind, (a[2] & O_TRUNC) != 0, 0, one, "", "");
    else if (kind != 'W') append(kind, kind == 'T' ? a[1] : 0, 0, one, two, "");
  }
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
  errno = saved;
}

/* Watch the folder from now on; SIGKILL before call `at`, counted from 1 (0: never), where a write
   is half done before; `log` may be empty. With an `error` number, the call fails instead, and if
   `after` is not 0, so do all later ones. Returns 0, or an error number. */
int watch(const char *path, unsigned long at, const char *log, int error, int after) {
  strncpy(folder, path, PATH_MAX - 1);
  strncpy(log_path, log, PATH_MAX - 1);
  stop_at = at, error_number = error, ever_after = after;
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  if (sigaction(SIGSYS, &action, NULL)) return errno;
  const int count = sizeof trapped / sizeof *trapped;
  struct sock_filter filter[2 * 32 + 8];
  int n = 0;
#define ADD(...) filter[n++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field) ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define RETURN(what) ADD(BPF_STMT(BPF_RET | BPF_K, what))
  LOAD(arch);
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
  RETURN(SECCOMP_RET_ALLOW);
  LOAD(args[5]); /* its lower half: these processors are little-endian */
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1));
  RETURN(SECCOMP_RET_ALLOW);
  LOAD(nr);
  for (int i = 0; i < count; i++) {
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, trapped[i], 0, 1));
    RETURN(SECCOMP_RET_TRAP);
  }
  RETURN(SECCOMP_RET_ALLOW);
  struct sock_fprog program = {n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return errno;
  return 0;
}
