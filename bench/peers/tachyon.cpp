// Tachyon: a ring of 8 MiB each way. A message is copied into the ring and read where it lies.
// Debian has no package, so libtachyon.so is opened when this program starts: from
// $LD_LIBRARY_PATH, or from
// --peers-path.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "peer.hpp"

namespace gantry::bench {
namespace {

constexpr std::size_t kRing = std::size_t{8} << 20;
constexpr std::uint32_t kType = 1;  // of messages; nobody looks at it
constexpr int kDone = 0;            // TACHYON_SUCCESS
constexpr unsigned kMostTries = 300;
constexpr std::chrono::milliseconds kBetweenTries{100};

/// The functions of its C interface (tachyon.h of 0.5) that this program uses.
struct Api {
  struct Bus;  // opaque

  int (*listen)(const char* path, std::size_t capacity, Bus** out) = nullptr;
  int (*connect)(const char* path, Bus** out) = nullptr;
  void (*destroy)(Bus* bus) = nullptr;
  void* (*acquire_tx)(Bus* bus, std::size_t size) = nullptr;
  int (*commit_tx)(Bus* bus, std::size_t size, std::uint32_t type) = nullptr;
  void (*flush)(Bus* bus) = nullptr;
  const void* (*acquire_rx)(Bus* bus, std::uint32_t* type, std::size_t* size) = nullptr;
  int (*commit_rx)(Bus* bus) = nullptr;
  void (*set_polling_mode)(const Bus* bus, int pure_spin) = nullptr;

  /// Kept until the process ends.
  static Result<const Api*> open() {
    void* const library = ::dlopen("libtachyon.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return Unexpected(
          {Code::unsupported,
           std::string(::dlerror()) + "; build Tachyon, and name its folder by --peers-path", ""});
    static Api api;
    const char* missing = nullptr;
    const auto find = [&](auto& function, const char* name) {
      void* const found = ::dlsym(library, name);
      if (found == nullptr) missing = name;
      std::memcpy(static_cast<void*>(&function), static_cast<const void*>(&found), sizeof found);
    };
    find(api.listen, "tachyon_bus_listen");
    find(api.connect, "tachyon_bus_connect");
    find(api.destroy, "tachyon_bus_destroy");
    find(api.acquire_tx, "tachyon_acquire_tx");
    find(api.commit_tx, "tachyon_commit_tx");
    find(api.flush, "tachyon_flush");
    find(api.acquire_rx, "tachyon_acquire_rx");
    find(api.commit_rx, "tachyon_commit_rx");
    find(api.set_polling_mode, "tachyon_bus_set_polling_mode");
    if (missing != nullptr)
      return Unexpected(peer_error("libtachyon.so", std::string("it has no ") + missing));
    return &api;
  }
};

/// One ring; both of its ends poll.
class Ring {
 public:
  /// Waits for the other end, which connects.
  static Result<Ring> listen(const Api& api, const std::string& path, const Poll& poll) {
    Api::Bus* bus = nullptr;
    if (api.listen(path.c_str(), kRing, &bus) != kDone)
      return Unexpected(peer_error("tachyon_bus_listen", path));
    return Ring(api, bus, poll);
  }
  /// Tries until the other end listens.
  static Result<Ring> connect(const Api& api, const std::string& path, const Poll& poll) {
    Api::Bus* bus = nullptr;
    for (unsigned i = 0; api.connect(path.c_str(), &bus) != kDone; ++i) {
      if (i == kMostTries) return Unexpected(peer_error("tachyon_bus_connect", path));
      std::this_thread::sleep_for(kBetweenTries);
    }
    return Ring(api, bus, poll);
  }
  Ring(Ring&& other) noexcept
      : api_(other.api_), bus_(std::exchange(other.bus_, nullptr)), poll_(other.poll_) {}
  Ring& operator=(Ring&&) = delete;
  ~Ring() {
    if (bus_ != nullptr) api_.destroy(bus_);
  }

  Result<void> send(ConstByteSpan bytes) {
    void* place = nullptr;
    while ((place = api_.acquire_tx(bus_, bytes.size())) == nullptr) poll_.again();
    std::memcpy(place, bytes.data(), bytes.size());
    if (api_.commit_tx(bus_, bytes.size(), kType) != kDone)
      return Unexpected(peer_error("tachyon_commit_tx", "failed"));
    api_.flush(bus_);
    return {};
  }

  /// What `read` makes of the next message, where it lies.
  template <class Read>
  Result<std::uint64_t> receive(const Read& read) {
    std::uint32_t type = 0;
    std::size_t size = 0;
    const void* message = nullptr;
    while ((message = api_.acquire_rx(bus_, &type, &size)) == nullptr) poll_.again();
    const std::uint64_t result = read(ConstByteSpan(static_cast<const std::byte*>(message), size));
    if (api_.commit_rx(bus_) != kDone) return Unexpected(peer_error("tachyon_commit_rx", "failed"));
    return result;
  }

 private:
  Ring(const Api& api, Api::Bus* bus, const Poll& poll) : api_(api), bus_(bus), poll_(poll) {
    api_.set_polling_mode(bus_, 1);
  }

  const Api& api_;
  Api::Bus* bus_;
  Poll poll_;
};

std::uint64_t number_in(ConstByteSpan bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return number;
}

class TachyonRequester final : public Requester {
 public:
  TachyonRequester(Ring requests, Ring replies)
      : requests_(std::move(requests)), replies_(std::move(replies)) {}
  Result<void> send(const Payload& payload) override { return requests_.send(payload.bytes()); }
  Result<std::uint64_t> receive() override { return replies_.receive(number_in); }

 private:
  Ring requests_;
  Ring replies_;
};

class TachyonResponder final : public Responder {
 public:
  TachyonResponder(Ring requests, Ring replies)
      : requests_(std::move(requests)), replies_(std::move(replies)) {}
  Result<std::uint64_t> receive() override {
    return requests_.receive([](ConstByteSpan bytes) { return checksum(bytes); });
  }
  Result<void> reply(std::uint64_t sum) override {
    return replies_.send(std::as_bytes(std::span(&sum, 1)));
  }

 private:
  Ring requests_;
  Ring replies_;
};

Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) {
  const auto api = Api::open();
  if (!api) return Unexpected(api.error());
  const Poll poll(told.what);
  auto requests = Ring::connect(**api, told.what.directory + "/requests", poll);
  if (!requests) return Unexpected(requests.error());
  auto replies = Ring::listen(**api, told.what.directory + "/replies", poll);
  if (!replies) return Unexpected(replies.error());
  return std::make_unique<TachyonRequester>(std::move(*requests), std::move(*replies));
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) {
  const auto api = Api::open();
  if (!api) return Unexpected(api.error());
  const Poll poll(told.what);
  auto requests = Ring::listen(**api, told.what.directory + "/requests", poll);
  if (!requests) return Unexpected(requests.error());
  auto replies = Ring::connect(**api, told.what.directory + "/replies", poll);
  if (!replies) return Unexpected(replies.error());
  return std::make_unique<TachyonResponder>(std::move(*requests), std::move(*replies));
}

/// It has no function that says it; a release's file has it in its name.
Result<std::string> version() {
  const auto api = Api::open();
  if (!api) return Unexpected(api.error());
  void* function = nullptr;
  std::memcpy(static_cast<void*>(&function), static_cast<const void*>(&(*api)->listen),
              sizeof function);
  const std::string text = version_text("Tachyon", function);
  const auto end_of_name = text.rfind(".so.");
  if (end_of_name == std::string::npos) return "Tachyon, version not told" + text.substr(7);
  return "Tachyon " + text.substr(end_of_name + 4) + text.substr(7);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
