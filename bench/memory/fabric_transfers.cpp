// Writing into another process's memory over libfabric: from blocks of a pool, whose registration
// is reused, and from memory that is registered for every write; from one's own blocks, and from
// received messages.

#include "transfer_source.hpp"
#include "transfers.hpp"

#ifdef GANTRY_HAVE_LIBFABRIC
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>
#include <new>

#include "../support/system/mapping.hpp"
#include "fabric_endpoint.hpp"
#endif

namespace gantry::bench {
namespace {

#ifdef GANTRY_HAVE_LIBFABRIC

using Flag = std::atomic<std::uint32_t>;
static_assert(Flag::is_always_lock_free);  // two processes share it

Result<std::shared_ptr<Registrar>> registrar_on(const Endpoint& endpoint) {
  RegistrarSetup setup;
  setup.fabric_domain = endpoint.domain();
  return make_registrar(RegistrarKind::fabric, setup);
}

/// The bytes of a plain value.
template <class Value>
ByteSpan bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// First and last word of what was written.
using Marks = std::array<std::uint64_t, 2>;

/// The process whose memory is written to. Sleeps until a byte comes, then keeps libfabric going
/// as long as `at_work`, then says what it finds.
class Target {
 public:
  Target(int socket, const Flag& at_work) : socket_(socket), at_work_(at_work) {}

  Result<void> serve(Link& link, Bytes bytes) {
    if (const auto opened = open(bytes); !opened) return opened;
    link.send(Answer{});
    if (const auto told = write_all(socket_, bytes_of(offered_)); !told) return told;
    std::byte turn{};
    while (read_all(socket_, {&turn, 1})) {
      while (at_work_.load(std::memory_order_acquire) != 0) {  // [W]
        if (const auto worked = endpoint_.progress(); !worked) return Unexpected(worked.error());
        if (++idle_ % kYieldEvery == 0) ::sched_yield();  // where both share a CPU
      }
      Marks found{};
      std::memcpy(&found[0], memory_.bytes().data(), sizeof found[0]);
      std::memcpy(&found[1], memory_.bytes().last(sizeof found[1]).data(), sizeof found[1]);
      if (const auto told = write_all(socket_, bytes_of(found)); !told) return told;
    }
    return {};
  }

 private:
  static constexpr unsigned kYieldEvery = 256;

  Result<void> open(Bytes bytes) {
    if (const auto opened = endpoint_.open(); !opened) return opened;
    auto memory = Mapping::resident(bytes);
    if (!memory) return Unexpected(memory.error());
    memory_ = std::move(*memory);
    const auto registrar = registrar_on(endpoint_);
    if (!registrar) return Unexpected(registrar.error());
    auto registration = (*registrar)->register_memory(memory_.bytes());
    if (!registration) return Unexpected(registration.error());
    registration_ = std::move(*registration);
    const auto key = registration_.key();
    if (!key) return Unexpected(key.error());
    const auto offered = endpoint_.offer(memory_.bytes(), key->remote_key);
    if (!offered) return Unexpected(offered.error());
    offered_ = *offered;
    return {};
  }

  int socket_;
  const Flag& at_work_;
  unsigned idle_ = 0;
  Mapping memory_;
  Endpoint endpoint_;
  Registration registration_;  // ends before the domain it is of
  RemoteMemory offered_;
};

/// The writing process.
class Writing final : public Runner {
 public:
  Writing() = default;
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() override = default;

  /// The other process is forked first, before libfabric makes threads in this one.
  Result<void> open(std::string_view subject, Bytes bytes, int target_cpu,
                    const std::string& directory) {
    bytes_ = bytes;
    if (const auto started = start_target(target_cpu); !started) return started;
    if (const auto opened = endpoint_.open(); !opened) return opened;
    const auto ready = target_->link().receive<Answer>();
    if (!ready || ready->kind == Answer::Kind::failed)
      return Unexpected({Code::system,
                         fmt::format("the target: {}", ready ? ready->text.data() : "it died"),
                         ""});
    RemoteMemory remote;
    if (const auto told = read_all(socket_.get(), bytes_of(remote)); !told) return told;
    if (const auto connected = endpoint_.connect(remote); !connected) return connected;
    auto registrar = registrar_on(endpoint_);
    if (!registrar) return Unexpected(registrar.error());
    if (subject == kOwnBlock || subject == kReceivedMessage)
      return source_.open(subject, bytes, std::move(*registrar), directory);
    return memory_.open(subject, bytes, std::move(*registrar));
  }

  Result<double> run(std::uint64_t trips) override {
    at_work_->store(1, std::memory_order_release);  // [W]
    std::byte turn{};
    if (const auto woken = write_all(socket_.get(), {&turn, 1}); !woken)
      return Unexpected(woken.error());
    auto trip_ns =
        source_.is_open()
            ? source_.time(trips, [this](ConstByteSpan from,
                                         const DeviceKey* key) { return pass_on(from, *key); })
            : memory_.time(
                  trips, [this](ByteSpan from, const DeviceKey* key) { return write(from, *key); });
    if (!trip_ns) return Unexpected(trip_ns.error());
    at_work_->store(0, std::memory_order_release);  // [W]
    Marks found{};
    if (const auto told = read_all(socket_.get(), bytes_of(found)); !told)
      return Unexpected(told.error());
    if (found != Marks{mark_, mark_})
      return Unexpected({Code::system, "what was written did not arrive", ""});
    return trip_ns;
  }

 private:
  /// First and last word change, so that an old message is noticed.
  Result<void> write(ByteSpan bytes, const DeviceKey& key) {
    ++mark_;
    std::memcpy(bytes.data(), &mark_, sizeof mark_);
    std::memcpy(bytes.last(sizeof mark_).data(), &mark_, sizeof mark_);
    return endpoint_.write(bytes, key.key);
  }
  /// What lies there has its marks, which change from place to place.
  Result<void> pass_on(ConstByteSpan bytes, const DeviceKey& key) {
    std::memcpy(&mark_, bytes.data(), sizeof mark_);
    return endpoint_.write(bytes, key.key);
  }
  Result<void> start_target(int cpu) {
    auto shared = Mapping::shared(sizeof(Flag));
    if (!shared) return Unexpected(shared.error());
    shared_ = std::move(*shared);
    at_work_ = new (shared_.bytes().data()) Flag(0);
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return Unexpected(system_error("socketpair"));
    socket_ = Descriptor(ends[0]);
    Descriptor theirs(ends[1]);
    auto child = Child::start("the target", cpu, [&](Link& link) {
      socket_.reset();  // or its end would not be noticed
      const auto served = Target(theirs.get(), *at_work_).serve(link, bytes_);
      if (!served) link.send(Answer::failure(to_string(served.error())));
    });
    if (!child) return Unexpected(child.error());
    target_.emplace(std::move(*child));
    return {};
  }

  Bytes bytes_ = 0;
  std::uint64_t mark_ = 0;
  Mapping shared_;
  Flag* at_work_ = nullptr;  // in there
  Descriptor socket_;
  std::optional<Child> target_;
  Endpoint endpoint_;
  TransferMemory memory_;  // this and the next end before the domain that knows them
  TransferSource source_;
};

OpenTransfer opener(const std::vector<int>& cpus, const std::string& directory) {
  const int target_cpu = cpus[1 % cpus.size()];
  return [=](std::string_view subject, Bytes bytes) -> Result<std::unique_ptr<Runner>> {
    auto writing = std::make_unique<Writing>();
    const auto opened = writing->open(subject, bytes, target_cpu, directory);
    if (!opened) return Unexpected(opened.error());
    return writing;
  };
}

#else

OpenTransfer opener(const std::vector<int>&, const std::string&) {
  return no_transfer("libfabric was not there when this was built");
}

#endif

}  // namespace

std::vector<Contest> fabric_contests(const Settings& settings) {
  return transfer_contests(settings, "fabric-tcp-write",
                           {kPoolReuse, kRegisterEachTransfer, kOwnBlock, kReceivedMessage},
                           opener(settings.cpus, settings.directory));
}

}  // namespace gantry::bench
