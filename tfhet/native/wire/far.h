// Encrypted connections to a server, one of which is ready before it is needed: TensorFlow opens some ten of them, one
// after the other, before a reader has its first batch.

#pragma once

#include <condition_variable>
#include <memory>
#include <thread>

#include "secure.h"

namespace tfhet {

constexpr double kSpareSeconds = 5.0;  // that a connection waits for its use

struct Job {
  Job(std::string key, bool encrypted, std::string name, std::string listen, std::string folder)
      : key(std::move(key)), encrypted(encrypted), name(std::move(name)), listen(std::move(listen)),
        folder(std::move(folder)) {}
  const Key key;
  const bool encrypted;      // whether batches are, too
  const std::string name;    // by which others dial this host
  const std::string listen;  // the address at which this host listens
  const std::string folder;  // of socket files
};

// The near end of a control connection to a server. Raises Broken.
struct Far {
  Far(const Job& job, const std::string& host, const std::string& port, Ending* ending) {
    const Moment until = after(kHandshakeSeconds);
    socket = dial(host, port, until, ending);
    std::unique_ptr<Ending::Use> use;
    if (ending != nullptr) use = std::make_unique<Ending::Use>(*ending, socket);
    try {
      prove_as_client(socket, job.key, Mode::kControl, host, until);
    } catch (const Distrusted& error) {
      report(host + ":" + port, error.what());
      throw;
    }
    tls = std::make_unique<Tls>(socket, job.key, true, until);
  }
  // Whether the server has not ended it.
  bool lives() const {
    pollfd one{socket.fd(), POLLRDHUP, 0};
    return ::poll(&one, 1, 0) == 0;
  }
  Socket socket;
  std::unique_ptr<Tls> tls;
};

// Connections to one server. While they are used, the next one is dialled as soon as one is taken.
class Spare {
 public:
  Spare(const Job& job, std::string host, std::string port)
      : job_(job), host_(std::move(host)), port_(std::move(port)), thread_([this] { keep(); }) {}
  ~Spare() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    ending_.end();
    changed_.notify_all();
    thread_.join();
  }

  // A connection, which waits for nothing where one is ready. Raises Broken.
  std::unique_ptr<Far> take() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (state_ == State::kDialling && !is_awaited_) {  // others do not wait for the same one
      is_awaited_ = true;
      changed_.wait(lock, [this] { return state_ != State::kDialling || ended_; });
      is_awaited_ = false;
      if (state_ == State::kNone) throw Broken(failure_);
    }
    if (std::unique_ptr<Far> one = std::move(ready_)) {
      dial_next();
      if (one->lives()) return one;
    }
    lock.unlock();
    auto one = std::make_unique<Far>(job_, host_, port_, nullptr);
    lock.lock();
    if (state_ == State::kNone) dial_next();
    return one;
  }

 private:
  enum class State { kNone, kDialling, kReady };

  void dial_next() {
    state_ = State::kDialling;
    changed_.notify_all();
  }

  void keep() {
    for (std::unique_lock<std::mutex> lock(mutex_);;) {
      changed_.wait(lock, [this] { return state_ == State::kDialling || ended_; });
      if (ended_) return;
      lock.unlock();
      std::unique_ptr<Far> one;
      std::string failure;
      try {
        one = std::make_unique<Far>(job_, host_, port_, &ending_);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      lock.lock();
      failure_ = failure;
      ready_ = std::move(one);
      state_ = ready_ ? State::kReady : State::kNone;
      changed_.notify_all();
      const auto while_unused = std::chrono::duration<double>(kSpareSeconds);
      changed_.wait_for(lock, while_unused, [this] { return state_ != State::kReady || ended_; });
      if (state_ == State::kReady) ready_.reset(), state_ = State::kNone;
    }
  }

  const Job& job_;
  const std::string host_, port_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kDialling;
  bool is_awaited_ = false, ended_ = false;
  std::unique_ptr<Far> ready_;
  std::string failure_;
  Ending ending_;
  std::thread thread_;
};

}  // namespace tfhet
