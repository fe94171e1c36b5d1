#include "collective_ranks.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <gantry/runtime.hpp>

#include "../support/report/series.hpp"
#include "rank_start.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kCollectivePatience{60};
constexpr Bytes kFloatBytes = sizeof(float);

/// The memory of one size, kept, in one region.
struct SharedMemory {
  std::size_t size = 0;
  std::optional<Region> region;

  [[nodiscard]] std::span<float> tensor() const {
    return {reinterpret_cast<float*>(region->data()), size};
  }
  [[nodiscard]] std::span<float> result() const {
    return {reinterpret_cast<float*>(region->data()) + size, size};
  }
  [[nodiscard]] CollectiveTensor told(std::span<float> elements) const {
    return {reinterpret_cast<std::byte*>(elements.data()),
            static_cast<std::int64_t>(elements.size()),
            {DataType::floating, 32, 1},
            &*region};
  }
};

/// A rank, from the inside.
class CollectiveBody {
 public:
  explicit CollectiveBody(Group group) : group_(std::move(group)) {}

  Result<Answer> obey(const Command& command) {
    const Commanded told = commanded(command);
    const RankView view{told.kind, group_.rank(), group_.ranks(), told.bytes / kFloatBytes};
    if (auto made = prepare(view, command.warmups, told); !made) return Unexpected(made.error());
    std::span<const float> result = memory_.tensor();
    if (told.kind == CollectiveKind::all_to_all) result = memory_.result();
    if (told.kind == CollectiveKind::reduce_scatter)
      result = result.subspan(view.rank * view.piece(), view.piece());
    return make_trips({view, memory_.tensor(), result, [this] { return trip(); }}, command.trips);
  }

 private:
  Result<double> trip() {
    if (auto met = meeting_.wait(group_); !met) return Unexpected(met.error());
    const Stopwatch watch;
    const auto run = collective_->run(Deadline::after(kCollectivePatience));
    if (!run) return Unexpected(run.error());
    const double ns = watch.spent().wall_ns;
    if (auto met = meeting_.wait(group_); !met) return Unexpected(met.error());
    return ns;
  }

  Result<void> prepare(const RankView& view, std::uint64_t number, const Commanded& told) {
    if (collective_ && number_ == number) return {};
    collective_.reset();
    if (memory_.size != view.size) {
      memory_.region.reset();
      auto region = Region::create(2 * view.size * sizeof(float), "gantry-bench");
      if (!region) return Unexpected(region.error());
      memory_ = {view.size, std::move(*region)};
    }
    const auto ways = ways_of(told.kind);
    if (!ways) return Unexpected(ways.error());
    CollectiveCall call{told.kind, memory_.told(memory_.tensor())};
    if (told.kind == CollectiveKind::all_to_all) call.result = memory_.told(memory_.result());
    const CollectiveWay& way = (*ways)[told.way];
    auto made = Collective::prepare(group_, call, {way.program, way.variant, chunks_of(way, view)},
                                    Deadline::after(kCollectivePatience));
    if (!made) return Unexpected(made.error());
    collective_.emplace(std::move(*made));
    number_ = number;
    return {};
  }

  /// As many as would be picked for a ring.
  static std::int64_t chunks_of(const CollectiveWay& way, const RankView& view) {
    if (!way.program.ends_with("ring") && !way.program.ends_with("chain")) return 0;
    const auto picked = pick_collective(to_string(view.kind), view.ranks, view.size * kFloatBytes,
                                        {.direct = 0, .at_once = 0, .moved_at_once = 0});
    return picked ? picked->chunks : 0;
  }

  Group group_;
  SharedMemory memory_;
  std::uint64_t number_ = 0;
  std::optional<Collective> collective_;
  RankMeeting meeting_;
};

Result<ObeyRank> open_body(const GroupOptions& options, const RankNetwork* network) {
  if (network != nullptr)
    if (auto entered = network->enter(options.rank); !entered) return Unexpected(entered.error());
  const auto runtime = Runtime::create({.directory = options.directory, .engine = "inline"});
  if (!runtime) return Unexpected(runtime.error());
  auto group = Group::join(options, runtime->default_engine());
  if (!group) return Unexpected(group.error());
  const auto body = std::make_shared<CollectiveBody>(std::move(*group));
  return ObeyRank([body](const Command& command) { return body->obey(command); });
}

/// Ports of 127.0.0.1 that are free now.
Result<std::vector<std::string>> free_endpoints(unsigned count) {
  std::vector<Descriptor> sockets;
  std::vector<std::string> endpoints;
  for (unsigned i = 0; i < count; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    if (::bind(sockets.back().get(), name, size) != 0 ||
        ::getsockname(sockets.back().get(), name, &size) != 0)
      return Unexpected(system_error("a port of 127.0.0.1"));
    endpoints.push_back(fmt::format("127.0.0.1:{}", ::ntohs(address.sin_port)));
  }
  return endpoints;
}

Result<GroupOptions> options_for(unsigned ranks, RankPath path, const std::string& directory,
                                 const RankNetwork* network) {
  GroupOptions options;
  options.ranks = ranks;
  options.name = "bench-collectives";
  options.directory = directory;
  options.token = "of a benchmark, known to nobody";
  options.join_timeout = kCollectivePatience;
  if (path == RankPath::loopback) {
    auto endpoints = free_endpoints(ranks);
    if (!endpoints) return Unexpected(endpoints.error());
    options.addresses = std::move(*endpoints);
  }
  for (unsigned rank = 0; network != nullptr && rank < ranks; ++rank)
    options.addresses.push_back(network->endpoint(rank));
  return options;
}

}  // namespace

std::string_view name_of(RankPath path) noexcept {
  constexpr std::string_view kNames[] = {"shared", "loopback", "veth"};
  return kNames[static_cast<std::size_t>(path)];
}

Result<std::vector<CollectiveWay>> ways_of(CollectiveKind kind) {
  const auto programs = list_collectives();
  if (!programs) return Unexpected(programs.error());
  std::vector<CollectiveWay> ways = {{}};
  for (const CollectiveProgram& program : *programs)
    if (program.name().starts_with(to_string(kind)) && !program.name().ends_with("counts"))
      for (const std::string& variant : program.variants())
        ways.push_back({program.name(), variant});
  return ways;
}

Result<CollectiveRanks> CollectiveRanks::start(unsigned ranks, RankPath path,
                                               const std::string& directory,
                                               const RankNetwork* network) {
  const auto common = options_for(ranks, path, directory, network);
  if (!common) return Unexpected(common.error());
  auto children = start_ranks(ranks, RankCpus::own, [&](unsigned rank) {
    GroupOptions options = *common;
    options.rank = rank;
    return open_body(options, network);
  });
  if (!children) return Unexpected(children.error());
  CollectiveRanks made;
  made.children_ = std::move(*children);
  if (auto ready = await_ready(made.children_); !ready) return Unexpected(ready.error());
  return made;
}

}  // namespace gantry::bench
