// Preloaded into the processes of one simulated host: slow reads, slow or failing writes, slow name look-ups, and a wrong
// wall clock, as set in the host's control file (host_faults.py writes it). The file is TFHET_HOST_FAULTS, or kControl in
// a container. It begins with the numbers of Control, followed by a line for each folder: 'r' or 'w' (its reads or its
// writes are affected) and its real path. While all numbers are 0, and without the file, nothing is changed.
//
// Limits: writes through mapped memory and of stdio's buffers by printf and similar functions are not affected; nor are
// times of files, and waits until a moment of the wall clock that began before the clock jumped.

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace {

constexpr char kControl[] = "/etc/tfhet-host-faults";
constexpr int64_t kBillion = 1000000000;

struct Control {
  volatile int64_t read_ms, write_ms, full_errno, write_errno, lookup_ms, clock_ns;
};
const Control kNothing{};
const Control* control = &kNothing;
const char* folders = "";

// A call before this runs, in the constructor of another library, is passed on as it is.
__attribute__((constructor)) void open_control() {
  const char* given = getenv("TFHET_HOST_FAULTS");
  const int file = open(given == nullptr ? kControl : given, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  struct stat found;
  if (fstat(file, &found) == 0 && found.st_size > static_cast<off_t>(sizeof(Control))) {
    const size_t size = static_cast<size_t>(found.st_size);
    const char* at = static_cast<const char*>(mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0));
    if (at != MAP_FAILED && at[size - 1] == '\0') {
      folders = at + sizeof(Control);
      control = reinterpret_cast<const Control*>(at);
    }
  }
  close(file);
}

template <typename Function>
Function* original(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define ORIGINAL(name) static const auto next = original(static_cast<decltype(name)*>(nullptr), #name)

void wait_ms(int64_t ms) {
  const int before = errno;
  timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1000000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  errno = before;
}

bool is_below(char how, const char* path) {
  for (const char* line = folders; *line != '\0'; line = strchr(line, '\n') + 1) {
    const size_t size = static_cast<size_t>(strchr(line, '\n') - line) - 1;
    if (line[0] == how && strncmp(line + 1, path, size) == 0 && (path[size] == '/' || path[size] == '\0')) return true;
  }
  return false;
}

bool is_meant(char how, int file) {
  const int before = errno;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size > 0) path[size] = '\0';
  errno = before;
  return size > 0 && is_below(how, path);
}

void before_read(int file) {
  if (control->read_ms != 0 && is_meant('r', file)) wait_ms(control->read_ms);
}

int write_error() { return static_cast<int>(control->write_errno != 0 ? control->write_errno : control->full_errno); }

// Returns whether a write to the file fails, with errno set. Waits where writes are slow.
bool fails(int file) {
  if ((control->write_ms | write_error()) == 0 || !is_meant('w', file)) return false;
  if (control->write_ms != 0) wait_ms(control->write_ms);
  const int error = write_error();
  if (error != 0) errno = error;
  return error != 0;
}

// The same for a stream, which brings nothing to the file unless its buffer is full.
bool fails(FILE* stream, size_t size) {
  if ((control->write_ms | write_error()) == 0) return false;
  const bool is_buffered = size <= static_cast<size_t>(stream->_IO_write_end - stream->_IO_write_ptr);
  if (is_buffered && write_error() == 0) return false;
  if (!fails(fileno(stream))) return false;
  stream->_flags |= _IO_ERR_SEEN;
  return true;
}

// Whether something new cannot be made at the path, with errno set.
bool is_refused(int at, const char* path) {
  if (write_error() == 0) return false;
  char parent[PATH_MAX];
  const int before = errno;
  bool is_so = false;
  if (strlen(path) < sizeof parent && faccessat(at, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
    strcpy(parent, path);
    char* slash = strrchr(parent, '/');
    if (slash == nullptr) {
      strcpy(parent, ".");
    } else {
      slash[slash == parent] = '\0';
    }
    const int folder = static_cast<int>(syscall(SYS_openat, at, parent, O_PATH | O_CLOEXEC));
    if (folder >= 0) {
      is_so = is_meant('w', folder);
      close(folder);
    }
  }
  errno = is_so ? write_error() : before;
  return is_so;
}

timespec shifted(const timespec* time, int64_t by_ns) {
  const int64_t total = time->tv_sec * kBillion + time->tv_nsec + by_ns;
  const int64_t rest = (total % kBillion + kBillion) % kBillion;
  return {static_cast<time_t>((total - rest) / kBillion), static_cast<long>(rest)};
}

// A moment of the host's wall clock on the clock of the kernel.
const timespec* to_kernel(const timespec* time, timespec* room) {
  if (time == nullptr || control->clock_ns == 0) return time;
  *room = shifted(time, -control->clock_ns);
  if (room->tv_sec < 0) *room = {0, 0};
  return room;
}

}  // namespace

extern "C" {

// A function that reads from, or writes to, `file` (a descriptor, or a stream and the size of what it writes).
#define READING(name, declared, passed)  \
  ssize_t name declared {                \
    ORIGINAL(name);                      \
    before_read(file);                   \
    return next passed;                  \
  }
#define WRITING(type, name, declared, passed, file, failure) \
  type name declared {                                       \
    ORIGINAL(name);                                          \
    return fails file ? failure : next passed;               \
  }

READING(read, (int file, void* into, size_t size), (file, into, size))
READING(pread, (int file, void* into, size_t size, off_t at), (file, into, size, at))
READING(pread64, (int file, void* into, size_t size, off64_t at), (file, into, size, at))

WRITING(ssize_t, write, (int file, const void* from, size_t size), (file, from, size), (file), -1)
WRITING(ssize_t, pwrite, (int file, const void* from, size_t size, off_t at), (file, from, size, at), (file), -1)
WRITING(ssize_t, pwrite64, (int file, const void* from, size_t size, off64_t at), (file, from, size, at), (file), -1)
WRITING(ssize_t, writev, (int file, const iovec* from, int count), (file, from, count), (file), -1)
WRITING(ssize_t, sendfile, (int to, int from, off_t* at, size_t size), (to, from, at, size), (to), -1)
WRITING(ssize_t, sendfile64, (int to, int from, off64_t* at, size_t size), (to, from, at, size), (to), -1)
WRITING(ssize_t, copy_file_range, (int from, off64_t* from_at, int to, off64_t* to_at, size_t size, unsigned flags),
        (from, from_at, to, to_at, size, flags), (to), -1)
WRITING(int, fsync, (int file), (file), (file), -1)
WRITING(int, fdatasync, (int file), (file), (file), -1)
WRITING(size_t, fwrite, (const void* from, size_t size, size_t count, FILE* stream), (from, size, count, stream),
        (stream, size * count), 0)
WRITING(size_t, fwrite_unlocked, (const void* from, size_t size, size_t count, FILE* stream),
        (from, size, count, stream), (stream, size * count), 0)
WRITING(int, fputs, (const char* text, FILE* stream), (text, stream), (stream, strlen(text)), EOF)
WRITING(int, fputc, (int one, FILE* stream), (one, stream), (stream, 1), EOF)

int fflush(FILE* stream) {
  ORIGINAL(fflush);
  return stream != nullptr && __fpending(stream) != 0 && fails(stream, SIZE_MAX) ? EOF : next(stream);
}

int fclose(FILE* stream) {
  ORIGINAL(fclose);
  if (__fpending(stream) == 0 || !fails(stream, SIZE_MAX)) return next(stream);
  const int error = errno;
  __fpurge(stream);
  next(stream);
  errno = error;
  return EOF;
}

#define OPENING(name, declared, passed, at)                           \
  int name declared {                                                 \
    ORIGINAL(name);                                                   \
    mode_t mode = 0;                                                  \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
      va_list more;                                                   \
      va_start(more, flags);                                          \
      mode = va_arg(more, mode_t);                                    \
      va_end(more);                                                   \
    }                                                                 \
    if ((flags & O_CREAT) != 0 && is_refused(at, path)) return -1;    \
    return next passed;                                               \
  }

OPENING(open, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENING(open64, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENING(openat, (int folder, const char* path, int flags, ...), (folder, path, flags, mode), folder)
OPENING(openat64, (int folder, const char* path, int flags, ...), (folder, path, flags, mode), folder)

#define MAKING(type, name, declared, passed, condition, failure)          \
  type name declared {                                                   \
    ORIGINAL(name);                                                      \
    return condition && is_refused(AT_FDCWD, path) ? failure : next passed; \
  }

MAKING(int, creat, (const char* path, mode_t mode), (path, mode), true, -1)
MAKING(int, creat64, (const char* path, mode_t mode), (path, mode), true, -1)
MAKING(int, mkdir, (const char* path, mode_t mode), (path, mode), true, -1)
MAKING(FILE*, fopen, (const char* path, const char* how), (path, how), how[0] != 'r', nullptr)
MAKING(FILE*, fopen64, (const char* path, const char* how), (path, how), how[0] != 'r', nullptr)

int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  ORIGINAL(getaddrinfo);
  if (name != nullptr && control->lookup_ms != 0) wait_ms(control->lookup_ms);
  return next(name, service, hints, found);
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  ORIGINAL(clock_gettime);
  const int result = next(clock, now);
  if (result == 0 && control->clock_ns != 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *now = shifted(now, control->clock_ns);
  }
  return result;
}

int gettimeofday(timeval* now, void* zone) noexcept {
  ORIGINAL(gettimeofday);
  const int result = next(now, zone);
  if (result == 0 && control->clock_ns != 0) {
    const timespec before{now->tv_sec, now->tv_usec * 1000}, after = shifted(&before, control->clock_ns);
    *now = {after.tv_sec, after.tv_nsec / 1000};
  }
  return result;
}

time_t time(time_t* into) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (into != nullptr) *into = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(timespec* now, int base) noexcept {
  ORIGINAL(timespec_get);
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : next(now, base);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  // By its version: an older one has another pthread_cond_t.
#if defined(__x86_64__)
  static const auto next = reinterpret_cast<decltype(pthread_cond_timedwait)*>(
      dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"));
#else
  ORIGINAL(pthread_cond_timedwait);
#endif
  const bool is_monotonic = (condition->__data.__wrefs & 2) != 0;  // glibc: __PTHREAD_COND_CLOCK_MONOTONIC_MASK
  timespec room;
  return next(condition, mutex, is_monotonic ? until : to_kernel(until, &room));
}

#define WAITING(name, type, specifier)                    \
  int name(type* object, const timespec* until) specifier { \
    ORIGINAL(name);                                         \
    timespec room;                                          \
    return next(object, to_kernel(until, &room));           \
  }

WAITING(pthread_mutex_timedlock, pthread_mutex_t, noexcept)
WAITING(sem_timedwait, sem_t, )

// Abseil and nsync, which TensorFlow waits with, call the kernel's futex so.
long syscall(long number, ...) noexcept {
  ORIGINAL(syscall);
  long words[6];
  va_list more;
  va_start(more, number);
  for (long& word : words) word = va_arg(more, long);
  va_end(more);
  timespec room;
  if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME) != 0) {
    words[3] = reinterpret_cast<long>(to_kernel(reinterpret_cast<const timespec*>(words[3]), &room));
  } else if (number == SYS_clock_gettime) {
    return clock_gettime(static_cast<clockid_t>(words[0]), reinterpret_cast<timespec*>(words[1]));
  }
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // extern "C"
