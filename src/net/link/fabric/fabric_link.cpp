#include "core/base/result.hpp"
#include "net/link/socket/socket_link.hpp"

#ifdef GANTRY_HAVE_LIBFABRIC
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <map>
#include <unordered_map>

#include "core/base/os/fork.hpp"
#include "net/fabric/registrar.hpp"
#include "net/link/fabric/endpoint.hpp"
#endif

namespace gantry {

#ifdef GANTRY_HAVE_LIBFABRIC
namespace {

constexpr std::size_t kMostReads = 32;        // in flight, of one link
constexpr Bytes kReadBytes = Bytes{1} << 20;  // of one read
constexpr Bytes kShortRow = 4096;             // rows below it go quicker by the socket
constexpr std::size_t kMostShared = 4096;
constexpr std::chrono::milliseconds kGrace{100};  // for reads whose export ends

class FabricPuller final : public Puller {
 public:
  FabricPuller(std::unique_ptr<FabricEndpoint> endpoint, std::shared_ptr<Registrar> registrar,
               std::string provider)
      : endpoint_(std::move(endpoint)),
        registrar_(std::move(registrar)),
        provider_(std::move(provider)) {}
  ~FabricPuller() override {
    if (fork_guard_.is_this())
      stop();
    else
      static_cast<void>(endpoint_.release());  // NOLINT: the parent's connection goes on
  }

  [[nodiscard]] LinkKind kind() const noexcept override { return LinkKind::fabric; }
  [[nodiscard]] bool takes_descriptors() const noexcept override { return false; }
  [[nodiscard]] std::string about() const override;
  [[nodiscard]] std::vector<int> descriptors() const override { return endpoint_->descriptors(); }
  [[nodiscard]] bool needs_calls() noexcept override { return !endpoint_->may_sleep(); }
  [[nodiscard]] bool is_lost() const noexcept override {
    return endpoint_->phase() == FabricEndpoint::Phase::lost;
  }

  [[nodiscard]] std::vector<std::byte> hello() override { return endpoint_->invitation(); }
  [[nodiscard]] Result<void> take_hello(ConstByteSpan hello) override {
    return endpoint_->meet(hello);
  }

  [[nodiscard]] std::optional<Share> share(std::uint64_t key, ByteSpan memory, int) override;
  void unshare(std::uint64_t key) noexcept override { registrations_.erase(key); }
  [[nodiscard]] Result<void> import(const LinkRecord& record, ReceivedFd descriptor) override;
  void forget(std::uint64_t key) noexcept override { shared_.erase(key); }
  [[nodiscard]] bool has(std::uint64_t key) const noexcept override {
    return shared_.contains(key);
  }

  [[nodiscard]] bool suits(Bytes rows, Bytes row_bytes) const noexcept override {
    return endpoint_->phase() == FabricEndpoint::Phase::connected &&
           (rows < 2 || row_bytes >= kShortRow);
  }
  [[nodiscard]] Begun begin(const Job& job, const RowCursor& to, const Source& source) override;
  [[nodiscard]] std::size_t under_way() const noexcept override { return pulls_.size(); }
  [[nodiscard]] std::optional<Job> next_ended() override;
  void finish_puts_to(std::uint64_t key) override;
  void stop() noexcept override;

 private:
  struct Pull {
    Job job;
    RowCursor to;
    Source source;
    FabricEndpoint::RemoteMemory from;
    Bytes done = 0;         // bytes asked for
    std::size_t reads = 0;  // in flight
    [[nodiscard]] bool is_over() const noexcept { return to.left() == 0 && reads == 0; }
    void fail(LinkStatus status) noexcept {
      job.status = status;
      to = {};
    }
  };
  void reap();
  void post();
  [[nodiscard]] bool post_one(Pull& pull);
  void give_up(LinkStatus status) noexcept;

  std::unique_ptr<FabricEndpoint> endpoint_;
  std::shared_ptr<Registrar> registrar_;
  const std::string provider_;
  const ForkGuard fork_guard_;
  std::map<std::uint64_t, Registration> registrations_;  // of our exports; they end first
  std::unordered_map<std::uint64_t, FabricEndpoint::RemoteMemory> shared_;
  std::deque<Pull> pulls_;
  std::size_t reads_ = 0;
};

std::string FabricPuller::about() const {
  switch (endpoint_->phase()) {
    case FabricEndpoint::Phase::connected:
      return fmt::format("libfabric, provider {}, reads it from row lengths of {} bytes on",
                         provider_, kShortRow);
    case FabricEndpoint::Phase::lost:
      return fmt::format("the endpoint of libfabric's provider {} was lost", provider_);
    case FabricEndpoint::Phase::listening:
    case FabricEndpoint::Phase::connecting:
      break;
  }
  return fmt::format("libfabric's provider {} has not connected yet", provider_);
}

// Memory that the registrar refuses is reached by the socket.
std::optional<Puller::Share> FabricPuller::share(std::uint64_t key, ByteSpan memory, int) {
  auto registration = registrar_->register_memory(memory);
  if (!registration) return {};
  const auto names = registration->key();
  if (!names) return {};
  LinkRecord record{LinkRecord::Kind::share};
  record.key = key;
  record.row_bytes = memory.size();
  record.source_key = names->remote_key;
  record.source_offset = endpoint_->has_virtual_addresses()
                             ? reinterpret_cast<std::uintptr_t>(memory.data())
                             : names->offset;
  registrations_.emplace(key, *std::move(registration));
  return Share{record, {}};
}

Result<void> FabricPuller::import(const LinkRecord& record, ReceivedFd descriptor) {
  if (descriptor || shared_.size() >= kMostShared || has(record.key))
    return fail(Code::peer_misbehaved, "it shares more regions than there can be, or one twice");
  shared_.emplace(record.key, FabricEndpoint::RemoteMemory{record.source_key, record.source_offset,
                                                           record.row_bytes});
  return {};
}

Puller::Begun FabricPuller::begin(const Job& job, const RowCursor& to, const Source& source) {
  const auto found = shared_.find(source.key);
  if (found == shared_.end()) return Begun::no;
  const auto& from = found->second;
  if (!rows_fit(from.bytes, source.offset, source.rows, source.row_bytes, source.stride))
    return Begun::beyond;
  if (endpoint_->phase() != FabricEndpoint::Phase::connected) return Begun::no;
  pulls_.push_back({job, to, source, from});
  post();
  return Begun::yes;
}

void FabricPuller::post() {
  for (Pull& pull : pulls_)
    while (pull.to.left() > 0)
      if (!post_one(pull)) return;
}

// False: no more at present.
bool FabricPuller::post_one(Pull& pull) {
  if (reads_ >= kMostReads) return false;
  const Bytes row = pull.done / pull.source.row_bytes;
  const Bytes in_row = pull.done % pull.source.row_bytes;
  const bool has_gaps = pull.source.stride != pull.source.row_bytes && pull.source.rows > 1;
  const Bytes run = has_gaps ? pull.source.row_bytes - in_row : pull.to.left();
  const ByteSpan into = pull.to.run();
  const Bytes bytes = std::min({into.size(), run, kReadBytes});
  const Bytes offset =
      pull.source.offset + (has_gaps ? row * pull.source.stride + in_row : pull.done);
  const auto posted = endpoint_->read(into.first(bytes), pull.from, offset, &pull);
  if (posted == FabricEndpoint::Posted::full) return false;
  if (posted == FabricEndpoint::Posted::lost) {
    pull.fail(LinkStatus::lost);
    return true;
  }
  ++pull.reads;
  ++reads_;
  pull.done += bytes;
  pull.to.advance(bytes);
  return true;
}

void FabricPuller::reap() {
  std::array<FabricEndpoint::Ended, kMostReads> ended;
  const std::size_t count = endpoint_->poll(ended);
  for (const auto& one : std::span(ended).first(count)) {
    auto* const pull = static_cast<Pull*>(one.context);
    if (pull == nullptr || pull->reads == 0) continue;  // a message that nobody should send
    --pull->reads;
    --reads_;
    if (!one.is_well && pull->job.status == LinkStatus::ok) pull->fail(LinkStatus::lost);
  }
}

std::optional<Puller::Job> FabricPuller::next_ended() {
  reap();
  if (pulls_.empty()) return {};
  if (endpoint_->phase() == FabricEndpoint::Phase::lost)
    give_up(LinkStatus::lost);
  else
    post();
  if (!pulls_.front().is_over()) return {};
  const Job job = pulls_.front().job;
  pulls_.pop_front();
  return job;
}

// Closing the endpoint is what makes sure that no read lands later.
void FabricPuller::give_up(LinkStatus status) noexcept {
  endpoint_->close();
  for (Pull& pull : pulls_) {
    if (pull.is_over()) continue;
    pull.fail(pull.job.status == LinkStatus::ok ? status : pull.job.status);
    pull.reads = 0;
  }
  reads_ = 0;
}

void FabricPuller::finish_puts_to(std::uint64_t key) {
  bool is_reading = false;
  const auto look = [&] {
    is_reading = false;
    for (Pull& pull : pulls_) {
      if (!pull.job.is_put || pull.job.key != key) continue;
      if (!pull.is_over()) pull.fail(LinkStatus::withdrawn);
      is_reading |= pull.reads > 0;
    }
    return is_reading;
  };
  for (const Deadline deadline = Deadline::after(kGrace); look() && !deadline.passed();) reap();
  if (is_reading) give_up(LinkStatus::lost);  // a far end that does not answer keeps nothing open
}

void FabricPuller::stop() noexcept {
  give_up(LinkStatus::lost);
  pulls_.clear();
  registrations_.clear();
}

/// A pair of message endpoints beside the link's socket. Both ends listen and tell each other where
/// and with what secret, over the socket; the one with the smaller secret connects. Until then, and
/// after the endpoint was lost, payload takes the socket.
/// `local_address`: of the socket's network; empty: this machine's own. Errors: `unsupported` where
/// the library or the provider is missing; `system`.
Result<std::unique_ptr<Puller>> make_fabric_puller(const std::string& provider,
                                                   const std::string& local_address) {
  auto endpoint = std::make_unique<FabricEndpoint>();
  GANTRY_TRY(endpoint->open(provider, local_address));
  FabricRegistrarOptions options;
  options.domain = endpoint->domain();
  options.remote_write = false;
  GANTRY_ASSIGN(auto registrar, make_fabric_registrar(options));
  return std::make_unique<FabricPuller>(std::move(endpoint), std::move(registrar), provider);
}

// Empty: the socket is not of the Internet's.
std::string address_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  std::array<char, INET_ADDRSTRLEN> text{};
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sin_family != AF_INET ||
      ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr)
    return {};
  return text.data();
}

}  // namespace

Result<std::unique_ptr<Link>> make_fabric_link(int socket, const std::string& provider,
                                               const LinkOptions& options) {
  Fd owned(socket);
  return guarded([&]() -> Result<std::unique_ptr<Link>> {
    GANTRY_TRY(check_link_socket(owned.get()));
    GANTRY_ASSIGN(auto puller, make_fabric_puller(provider, address_of(owned.get())));
    return make_socket_link(std::move(owned), options, std::move(puller));
  });
}

#else

Result<std::unique_ptr<Link>> make_fabric_link(int socket, const std::string&, const LinkOptions&) {
  const Fd owned(socket);
  return fail(Code::unsupported, "fabric: not in this build",
              "apt install libfabric-dev and build again");
}

#endif

}  // namespace gantry
