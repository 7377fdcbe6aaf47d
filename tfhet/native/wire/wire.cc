// The wire of tf.data service: credentials by which TensorFlow's gRPC neither listens nor dials beyond this host, and a
// transfer protocol for batches.

#include <dlfcn.h>

#include <functional>
#include <iostream>

#include "google/protobuf/message_lite.h"
#include "batches.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"

// What TensorFlow's library exports of tf.data service and the wheel has no headers of: names and the order of virtual
// functions as in 2.15.1 and 2.21. The two have different generations of gRPC, of which a library has one.
namespace grpc_impl {
class ServerCredentials;
class ChannelCredentials;
}  // namespace grpc_impl
namespace grpc {
class ServerCredentials;
class ChannelCredentials;
}  // namespace grpc

#define WEAK __attribute__((weak))

namespace tensorflow {
namespace data {

class GetElementRequest;

struct GetElementResult {
  std::vector<Tensor> components;
  int64_t element_index = 0;
  bool end_of_sequence = false;
  bool skip = false;
};

class DataTransferClient {
 public:
  struct Config {
    absl::string_view protocol;
    std::string address;
  };
  using ClientFactoryT = std::function<Status(Config, std::unique_ptr<DataTransferClient>*)>;
  virtual ~DataTransferClient() = default;
  virtual Status GetElement(const GetElementRequest& request, GetElementResult& result) = 0;
  virtual void TryCancel() = 0;
  virtual StatusOr<std::string> GetCompatibilityInfo() const { return std::string(); }
  virtual Status CheckCompatibility(const std::string&) const { return Status(); }
  static void Register(std::string name, ClientFactoryT factory);

 protected:
  Env* const env_ = Env::Default();
};

class DataTransferServer {
 public:
  using GetElementT = std::function<Status(const GetElementRequest*, GetElementResult*)>;
  using ServerFactoryT = std::function<Status(GetElementT, std::shared_ptr<DataTransferServer>*)>;
  virtual ~DataTransferServer() = default;
  virtual Status Start(const void* config) = 0;
  virtual int Port() const = 0;
  virtual StatusOr<std::string> GetCompatibilityInfo() const { return std::string(); }
  // 2.21 asks whether to go on by gRPC where no client can be made, and where an element fails; 2.15.1 always does.
  virtual bool FallBackToGrpcAtClientCreationTime() const { return false; }
  virtual bool FallBackToGrpcAtGetElementTime() const { return false; }
  static void Register(std::string name, ServerFactoryT factory);
};

class CredentialsFactory {
 public:
  virtual ~CredentialsFactory() = default;
  virtual std::string Protocol() = 0;
  virtual Status ForServers(std::shared_ptr<void>* out) = 0;
  virtual Status ForClients(std::shared_ptr<void>* out) = 0;
  static void Register(CredentialsFactory* factory);
  WEAK static Status CreateServerCredentials(absl::string_view, std::shared_ptr<::grpc_impl::ServerCredentials>*);
  WEAK static Status CreateServerCredentials(absl::string_view, std::shared_ptr<::grpc::ServerCredentials>*);
  WEAK static Status CreateClientCredentials(absl::string_view, std::shared_ptr<::grpc_impl::ChannelCredentials>*);
  WEAK static Status CreateClientCredentials(absl::string_view, std::shared_ptr<::grpc::ChannelCredentials>*);
};

}  // namespace data
}  // namespace tensorflow

namespace tfhet {
namespace {

namespace data = tensorflow::data;
namespace errors = tensorflow::errors;

constexpr char kPlain[] = "grpc";

// Calls a virtual function by its place among them, of a class that only TensorFlow's library knows. (A class of the same
// order declared here would not do: the compiler may take an object for one of the class that it knows.)
template <class Result, class... Arguments>
Result call(void* object, int place, Arguments... arguments) {
  auto function = (*reinterpret_cast<Result (***)(void*, Arguments...)>(object))[place];
  return function(object, arguments...);
}

// TensorFlow's own credentials, made by the function of either generation.
template <class Old, class New>
Status own_credentials(Status (*old)(absl::string_view, std::shared_ptr<Old>*),
                       Status (*renewed)(absl::string_view, std::shared_ptr<New>*), std::shared_ptr<void>* out) {
  if (old != nullptr) {
    std::shared_ptr<Old> found;
    Status status = old(kPlain, &found);
    *out = std::shared_ptr<void>(found, const_cast<void*>(static_cast<const void*>(found.get())));
    return status;
  }
  if (renewed != nullptr) {
    std::shared_ptr<New> found;
    Status status = renewed(kPlain, &found);
    *out = std::shared_ptr<void>(found, const_cast<void*>(static_cast<const void*>(found.get())));
    return status;
  }
  return errors::Unimplemented("this TensorFlow has no credentials for tf.data service");
}

bool is_old() {
  Status (*old)(absl::string_view, std::shared_ptr<::grpc_impl::ServerCredentials>*) =
      &data::CredentialsFactory::CreateServerCredentials;
  return old != nullptr;
}

// A process's part in one job.
struct Member : Job {
  using Job::Job;
  Tunnels tunnels{*this};
  std::mutex mutex;
  std::map<int, std::unique_ptr<Listener>> listeners;  // by port
  std::set<class Client*> clients;
  std::atomic<bool> has_left{false};
  std::atomic<uint64_t> beats{0};
};

// The listener of the gRPC server that this thread has just started: a worker builds its transfer server right after.
thread_local Listener* started_listener = nullptr;
thread_local int started_port = 0;

// In the order of grpc::ServerCredentials' virtual functions, in both generations.
class ServerCredentials {
 public:
  ServerCredentials(Member& member, std::shared_ptr<void> inner) : member_(member), inner_(std::move(inner)) {}
  virtual ~ServerCredentials() = default;
  virtual void SetAuthMetadataProcessor(const std::shared_ptr<void>&) {}
  virtual int AddPortToServer(const std::string& address, void* server) {
    const int port = std::atoi(address.c_str() + address.rfind(':') + 1);
    const std::string file = member_.folder + "/" + std::to_string(port);
    const std::string inner = "unix:" + file;
    if (call<int, const std::string&, void*>(inner_.get(), 3, inner, server) == 0) return 0;
    try {
      std::lock_guard<std::mutex> lock(member_.mutex);
      member_.listeners.erase(port);  // of a server that has stopped
      auto listener = std::make_unique<Listener>(member_, port, file);
      started_listener = listener.get();
      started_port = port;
      member_.listeners[port] = std::move(listener);
    } catch (const Broken& broken) {
      std::cerr << "tfhet: " << broken.what() << std::endl;
      return 0;
    }
    return port;
  }
  virtual bool IsInsecure() const { return true; }
  virtual void* AsSecureServerCredentials() { return nullptr; }

 private:
  char grpc_[64] = {};  // fields of the class whose place this one takes
  Member& member_;
  std::shared_ptr<void> inner_;
};

// Makes the channels of TensorFlow's own credentials, to the near end of a tunnel.
class Channels {
 public:
  using Made = std::shared_ptr<void>;
  Channels(Member& member, std::shared_ptr<void> inner) : member_(member), inner_(std::move(inner)) {}

  // place: of the function that is called among the virtual ones.
  template <class... Arguments>
  Made make(int place, const std::string& target, Arguments... arguments) {
    std::string near = "127.0.0.1:1";  // where nothing listens
    try {
      near = member_.tunnels.to(target);
    } catch (const Broken& broken) {
      std::cerr << "tfhet: no tunnel to " << target << ": " << broken.what() << std::endl;
    }
    return call<Made, const std::string&, Arguments...>(inner_.get(), place, near, arguments...);
  }

 private:
  Member& member_;
  std::shared_ptr<void> inner_;
};

// In the order of grpc_impl::ChannelCredentials' virtual functions.
class OldChannelCredentials {
 public:
  explicit OldChannelCredentials(Channels channels) : channels_(std::move(channels)) {}
  virtual ~OldChannelCredentials() = default;
  virtual void* AsSecureCredentials() { return nullptr; }
  virtual Channels::Made CreateChannel(const std::string& target, const void* arguments) {
    return channels_.make(3, target, arguments);
  }
  virtual Channels::Made CreateChannelWithInterceptors(const std::string& target, const void* arguments, void* creators) {
    return channels_.make(4, target, arguments, creators);
  }

 private:
  char grpc_[64] = {};  // fields of the class whose place this one takes
  Channels channels_;
};

// In the order of grpc::ChannelCredentials' virtual functions.
class NewChannelCredentials {
 public:
  explicit NewChannelCredentials(Channels channels) : channels_(std::move(channels)) {}
  virtual ~NewChannelCredentials() = default;
  virtual Channels::Made CreateChannel(const std::string& target, const void* arguments) {
    return channels_.make(2, target, arguments);
  }
  virtual Channels::Made CreateChannelWithInterceptors(const std::string& target, const void* arguments, void* creators) {
    return channels_.make(3, target, arguments, creators);
  }

 private:
  char grpc_[64] = {};
  Channels channels_;
};

class Credentials : public data::CredentialsFactory {
 public:
  Credentials(Member& member, std::string protocol) : member_(member), protocol_(std::move(protocol)) {}
  std::string Protocol() override { return protocol_; }
  Status ForServers(std::shared_ptr<void>* out) override {
    std::shared_ptr<void> inner;
    Status status = own_credentials<::grpc_impl::ServerCredentials, ::grpc::ServerCredentials>(
        &CredentialsFactory::CreateServerCredentials, &CredentialsFactory::CreateServerCredentials, &inner);
    if (status.ok()) *out = std::make_shared<ServerCredentials>(member_, inner);
    return status;
  }
  Status ForClients(std::shared_ptr<void>* out) override {
    std::shared_ptr<void> inner;
    Status status = own_credentials<::grpc_impl::ChannelCredentials, ::grpc::ChannelCredentials>(
        &CredentialsFactory::CreateClientCredentials, &CredentialsFactory::CreateClientCredentials, &inner);
    if (!status.ok()) return status;
    if (is_old()) {
      *out = std::make_shared<OldChannelCredentials>(Channels(member_, inner));
    } else {
      *out = std::make_shared<NewChannelCredentials>(Channels(member_, inner));
    }
    return status;
  }

 private:
  Member& member_;
  const std::string protocol_;
};

// A protobuf message whose class only TensorFlow's library knows.
class Request {
 public:
  Request() {
    static Construct make = find();
    make.of_two != nullptr ? make.of_two(memory_, nullptr, false) : make.of_one(memory_, nullptr);
  }
  ~Request() { lite()->~MessageLite(); }
  google::protobuf::MessageLite* lite() { return reinterpret_cast<google::protobuf::MessageLite*>(memory_); }
  const data::GetElementRequest* get() const { return reinterpret_cast<const data::GetElementRequest*>(memory_); }

 private:
  struct Construct {
    void (*of_two)(void*, void*, bool);
    void (*of_one)(void*, void*);
  };
  static Construct find() {
    const char* two = "_ZN10tensorflow4data17GetElementRequestC1EPN6google8protobuf5ArenaEb";
    const char* one = "_ZN10tensorflow4data17GetElementRequestC1EPN6google8protobuf5ArenaE";
    void* library = ::dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
    return {reinterpret_cast<void (*)(void*, void*, bool)>(::dlsym(library, two)),
            reinterpret_cast<void (*)(void*, void*)>(::dlsym(library, one))};
  }
  alignas(16) char memory_[512];
};

// Answers the requests of one connection until it ends.
void serve_batches(Line& line, const data::DataTransferServer::GetElementT& get_element) {
  for (;;) {
    const std::string bytes = line.receive_request();
    Request request;
    data::GetElementResult result;
    Status status = request.lite()->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))
                        ? get_element(request.get(), &result)
                        : errors::InvalidArgument("a request that cannot be read");
    line.send_answer(status, result);
  }
}

class Server : public data::DataTransferServer {
 public:
  Server(Member& member, GetElementT get_element) : member_(member), port_(started_port) {
    started_listener->serve_batches([&member, get_element](Socket& socket, Mode mode, Records records) {
      Line line(socket, member, std::move(records), mode, false, after(kHandshakeSeconds));
      tfhet::serve_batches(line, get_element);
    });
  }
  // Before that, the worker has ended all that it was asked for.
  ~Server() override {
    std::lock_guard<std::mutex> lock(member_.mutex);
    member_.listeners.erase(port_);
  }
  Status Start(const void*) override { return Status(); }
  int Port() const override { return port_; }

 private:
  Member& member_;
  const int port_;
};

// Reads a worker's batches, over as many connections as there are requests at a time.
class Client : public data::DataTransferClient {
 public:
  Client(Member& member, const std::string& target) : member_(member), target_(target) {
    if (!split_target(target, &host_, &port_)) host_ = target, port_ = "0";
    std::lock_guard<std::mutex> lock(member_.mutex);
    member_.clients.insert(this);
  }
  ~Client() override {
    std::lock_guard<std::mutex> lock(member_.mutex);
    member_.clients.erase(this);
  }

  Status GetElement(const data::GetElementRequest& request, data::GetElementResult& result) override {
    const std::string bytes = reinterpret_cast<const google::protobuf::MessageLite*>(&request)->SerializeAsString();
    Ending ending;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (cancelled_ || member_.has_left) return cancelled();
      endings_.insert(&ending);
    }
    Status status;
    try {
      status = ask(bytes, &ending, &result);
      if (!status.ok()) member_.tunnels.refuse(target_, {static_cast<int>(status.code()), std::string(status.message())});
    } catch (const Distrusted& error) {
      report(target_, error.what());
      status = errors::Unavailable("the worker at ", host_, ":", port_, ": ", error.what());
    } catch (const std::exception& error) {
      status = errors::Unavailable("the worker at ", host_, ":", port_, ": ", error.what());
    }
    std::lock_guard<std::mutex> lock(mutex_);
    endings_.erase(&ending);
    return status.ok() || !(cancelled_ || member_.has_left) ? status : cancelled();
  }

  void TryCancel() override {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    for (Ending* one : endings_) one->end();
  }

  // Ends what has been waited for since before `moment`.
  void hang_up(Moment moment) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Ending* one : endings_)
      if (one->begun < moment) one->end();
  }

 private:
  struct Connection {
    explicit Connection(Socket one) : socket(std::move(one)) {}
    Socket socket;
    std::unique_ptr<Line> line;
  };

  Status cancelled() const { return errors::Cancelled("the reader of ", host_, ":", port_, " was cancelled"); }

  Status ask(const std::string& bytes, Ending* ending, data::GetElementResult* result) {
    std::unique_ptr<Connection> connection = idle();
    if (connection == nullptr) connection = connect(ending);
    Status status;
    try {
      const Ending::Use use(*ending, connection->socket);
      connection->line->send_request(bytes);
      status = connection->line->receive_answer(result);
    } catch (const Broken&) {
      std::lock_guard<std::mutex> lock(mutex_);
      idle_.clear();  // the others are of a worker that has ended, perhaps
      throw;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(connection));
    return status;
  }

  std::unique_ptr<Connection> idle() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<Connection> one = std::move(idle_.back());
    idle_.pop_back();
    return one;
  }

  std::unique_ptr<Connection> connect(Ending* ending) {
    const Moment until = after(kHandshakeSeconds);
    Mode mode = member_.encrypted ? Mode::kEncryptedBatches : Mode::kBatches;
    Socket socket;
    if (host_ == member_.name) socket = dial_shared(member_, std::atoi(port_.c_str()));
    if (socket.fd() >= 0) {
      mode = Mode::kShared;
    } else {
      socket = dial(host_, port_, until, ending);
    }
    auto connection = std::make_unique<Connection>(std::move(socket));
    const Ending::Use use(*ending, connection->socket);
    Records records = prove_as_client(connection->socket, member_.key, mode, host_, until);
    connection->line = std::make_unique<Line>(connection->socket, member_, std::move(records), mode, true, until);
    return connection;
  }

  Member& member_;
  const std::string target_;
  std::string host_, port_;
  std::mutex mutex_;
  bool cancelled_ = false;
  std::set<Ending*> endings_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

// After `seconds`, ends all that readers of this process have waited for since before now.
void hang_up(Member& member, double seconds) {
  std::thread([&member, moment = std::chrono::steady_clock::now(), seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::lock_guard<std::mutex> lock(member.mutex);
    for (Client* one : member.clients) one->hang_up(moment);
  }).detach();
}

// Lets nothing of the job hold this process up any more, once `beats` has not grown for `seconds`.
void leave(Member& member, double seconds) {
  std::thread([&member, seconds] {
    for (uint64_t known = member.beats + 1; known != member.beats;) {
      known = member.beats;
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    member.has_left = true;
    std::lock_guard<std::mutex> lock(member.mutex);
    for (Client* one : member.clients) one->hang_up(kNever);
  }).detach();
}

std::mutex members_mutex;
std::map<std::string, Member*> members;  // by protocol; never freed, as TensorFlow keeps what is registered

}  // namespace
}  // namespace tfhet

#define EXPORT extern "C" __attribute__((visibility("default")))

// Makes this process a member of the job whose data plane has this key (32 bytes), and writes the name of its protocol, at
// most 31 characters, for addresses of dispatchers, configurations of servers and readers. name: by which other hosts
// dial this one; listen: the address at which its servers listen; folder: of their socket files. Returns 0, or 1 where
// that cannot be, having said why.
EXPORT int tfhet_wire_join(const char* key, int encrypted, const char* name, const char* listen, const char* folder,
                           char* protocol) {
  using namespace tfhet;
  try {
    auto member = std::make_unique<Member>(std::string(key, 32), encrypted != 0, name, listen, folder);
    std::string found = "tfhet-";
    for (char byte : member->key.derived(std::string("protocol") + (encrypted ? "-tls" : "")).substr(0, 8)) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
      found += digits;
    }
    std::snprintf(protocol, 32, "%s", found.c_str());
    std::lock_guard<std::mutex> lock(members_mutex);
    Member*& place = members[found];
    if (place != nullptr) return 0;
    place = member.release();
    Member& one = *place;
    data::CredentialsFactory::Register(new Credentials(one, found));
    data::DataTransferServer::Register(
        found, [&one](data::DataTransferServer::GetElementT get, std::shared_ptr<data::DataTransferServer>* out) {
          *out = std::make_shared<Server>(one, std::move(get));
          return Status();
        });
    data::DataTransferClient::Register(
        found, [&one](data::DataTransferClient::Config config, std::unique_ptr<data::DataTransferClient>* out) {
          *out = std::make_unique<Client>(one, config.address);
          return Status();
        });
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "tfhet: the wire of tf.data service: " << error.what() << std::endl;
    return 1;
  }
}

namespace {
tfhet::Member* member_of(const char* protocol) {
  std::lock_guard<std::mutex> lock(tfhet::members_mutex);
  auto found = tfhet::members.find(protocol);
  return found == tfhet::members.end() ? nullptr : found->second;
}
}  // namespace

// Ends, `seconds` from now, all that readers of this process have waited for since before now: from workers that may be
// frozen, for which the destructor of a reader would wait.
EXPORT void tfhet_wire_hang_up(const char* protocol, double seconds) {
  if (auto* member = member_of(protocol)) tfhet::hang_up(*member, seconds);
}

// Ends all reading of this process once it has not called tfhet_wire_beat for `seconds`.
EXPORT void tfhet_wire_leave(const char* protocol, double seconds) {
  if (auto* member = member_of(protocol)) tfhet::leave(*member, seconds);
}
EXPORT void tfhet_wire_beat(const char* protocol) {
  if (auto* member = member_of(protocol)) ++member->beats;
}
