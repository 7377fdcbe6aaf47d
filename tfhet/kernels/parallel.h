// Work on the items of a batch in several threads.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tfhet {

// Calls work(i) for i from 0 to before count, in `threads` threads. Raises the error of the first item that has one.
template <class Work>
void in_parallel(int64_t count, int threads, const Work& work) {
  const int64_t used = std::min<int64_t>(threads, count);
  if (used <= 1) {
    for (int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  int64_t failed = count;
  std::mutex mutex;
  const auto loop = [&] {
    int64_t i = 0;
    try {
      while ((i = next++) < count) work(i);
    } catch (...) {
      next = count;  // all items before this one have begun
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < failed) failed = i, error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (int64_t i = 1; i < used; ++i) others.emplace_back(loop);
  } catch (const std::exception&) {  // no more threads: those that there are do the work
  }
  loop();
  for (std::thread& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace tfhet
