// Preloaded into the processes of one simulated host. While the file TFHET_SLOW_DISK_SWITCH exists, every read of a file
// below one of the folders TFHET_SLOW_DISK_FOLDERS (real paths, ':' between them) takes TFHET_SLOW_DISK_MS milliseconds
// longer. Without these variables it does nothing.

#include <dlfcn.h>
#include <limits.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Setting {
  std::string lever;
  std::vector<std::string> folders;
  long ms = 0;

  Setting() {
    const char* file = getenv("TFHET_SLOW_DISK_SWITCH");
    const char* below = getenv("TFHET_SLOW_DISK_FOLDERS");
    const char* delay = getenv("TFHET_SLOW_DISK_MS");
    if (file == nullptr || below == nullptr || delay == nullptr) return;
    lever = file;
    ms = atol(delay);
    std::istringstream words(below);
    for (std::string folder; std::getline(words, folder, ':');) {
      if (!folder.empty()) folders.push_back(folder + "/");
    }
  }
};

bool is_slow(const Setting& setting, int file) {
  if (setting.lever.empty() || access(setting.lever.c_str(), F_OK) != 0) return false;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof path);
  if (size <= 0) return false;
  const std::string name(path, static_cast<size_t>(size));
  for (const std::string& folder : setting.folders) {
    if (name.compare(0, folder.size(), folder) == 0) return true;
  }
  return false;
}

void wait_for_disk(int file) {
  static const Setting* const setting = new Setting;  // never freed: there are reads until the process is gone
  const int before = errno;
  if (is_slow(*setting, file)) {
    timespec left{setting->ms / 1000, setting->ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
  }
  errno = before;
}

template <typename Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Read = ssize_t (*)(int, void*, size_t);
using ReadAt = ssize_t (*)(int, void*, size_t, off_t);

}  // namespace

extern "C" {

ssize_t read(int file, void* into, size_t size) {
  static const Read next = original<Read>("read");
  wait_for_disk(file);
  return next(file, into, size);
}

ssize_t pread(int file, void* into, size_t size, off_t at) {
  static const ReadAt next = original<ReadAt>("pread");
  wait_for_disk(file);
  return next(file, into, size, at);
}

ssize_t pread64(int file, void* into, size_t size, off64_t at) {
  static const ReadAt next = original<ReadAt>("pread64");
  wait_for_disk(file);
  return next(file, into, size, at);
}

}  // extern "C"
