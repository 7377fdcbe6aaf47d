// A local file that is read at byte offsets.

#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "failure.h"

namespace tfhet::records {

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {
    // Without O_NONBLOCK a FIFO would be waited for.
    descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) fail(errno == ENOENT || errno == ENOTDIR ? Code::not_found : Code::permission_denied, std::strerror(errno));
    try {
      examine();
    } catch (...) {
      close(descriptor_);
      throw;
    }
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Fewer than `size` at the end of the file.
  size_t read(uint8_t* to, size_t size, int64_t offset) const {
    size_t done = 0;
    while (done < size) {
      const int64_t at = offset + static_cast<int64_t>(done);
      const ssize_t count = pread(descriptor_, to + done, size - done, at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) broken(at, std::strerror(errno));
      if (count == 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }
  // When it was opened.
  uint64_t size() const { return size_; }

  [[noreturn]] void fail(Code code, const std::string& what, int64_t offset = -1) const {
    constexpr size_t most = 600;  // of a longer path the end, so that the text of a status has room for the rest
    const std::string path = path_.size() > most ? "..." + path_.substr(path_.size() - most) : path_;
    throw Failure{code, path + ": " + what, -1, offset};
  }
  [[noreturn]] void broken(int64_t offset, const std::string& what) const {
    fail(Code::data_loss, what + " at byte " + std::to_string(offset), offset);
  }

 private:
  void examine() {
    struct stat facts{};
    if (fstat(descriptor_, &facts) != 0) fail(Code::data_loss, std::strerror(errno));
    if (S_ISDIR(facts.st_mode)) fail(Code::data_loss, "this is a directory, not a file");
    if (!S_ISREG(facts.st_mode)) fail(Code::data_loss, "this is not a regular file");
    size_ = static_cast<uint64_t>(facts.st_size);
  }

  std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

}  // namespace tfhet::records
