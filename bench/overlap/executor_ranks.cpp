#include "executor_ranks.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <gantry/plan.hpp>
#include <gantry/runtime.hpp>
#include <optional>

#include "../support/report/series.hpp"
#include "../support/system/cpus.hpp"
#include "rank_start.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kExchangePatience{60};
constexpr std::chrono::microseconds kPollFor{50};  // as the executor does
constexpr DataType kFloat{DataType::floating, 32, 1};
constexpr unsigned kRunPieces = Exchange::kPieces;

/// A rank's matrices, in one region: what it has, what comes, the other factor, the product.
class ExchangeMemory {
 public:
  [[nodiscard]] static Result<ExchangeMemory> make(const Exchange& exchange) {
    ExchangeMemory made(exchange);
    auto region = Region::create(made.size() * sizeof(float), "gantry-bench");
    if (!region) return Unexpected(region.error());
    made.region_.emplace(std::move(*region));
    return made;
  }

  [[nodiscard]] const Region& region() const { return *region_; }
  [[nodiscard]] std::int64_t rows() const { return exchange_.rows * kRunPieces; }
  [[nodiscard]] float* own() const { return reinterpret_cast<float*>(region_->data()); }
  [[nodiscard]] float* incoming() const { return own() + rows() * exchange_.depth; }
  [[nodiscard]] float* factor() const { return incoming() + rows() * exchange_.depth; }
  [[nodiscard]] float* product() const { return factor() + exchange_.depth * exchange_.cols; }
  [[nodiscard]] Bytes offset_of(const float* at) const {
    return static_cast<Bytes>(at - own()) * sizeof(float);
  }

  /// Small whole numbers: every order of summing gives the same.
  void fill(unsigned rank) const {
    fill_rows(own(), rank);
    std::fill(incoming(), factor(), -1.0F);
    for (std::int64_t i = 0; i < exchange_.depth * exchange_.cols; ++i)
      factor()[i] = static_cast<float>((i * 3) % 7 - 3);
    std::fill_n(product(), rows() * exchange_.cols, -1.0F);
  }
  /// What the other rank's rows come to.
  [[nodiscard]] Result<std::vector<float>> wanted(unsigned rank, GemmLibrary& gemm) const {
    std::vector<float> a(static_cast<std::size_t>(rows() * exchange_.depth));
    std::vector<float> c(static_cast<std::size_t>(rows() * exchange_.cols));
    fill_rows(a.data(), 1 - rank);
    if (auto done = gemm.multiply(product_of(a.data(), c.data(), rows())); !done)
      return Unexpected(done.error());
    return c;
  }
  [[nodiscard]] Gemm product_of(const float* a, float* c, std::int64_t rows) const {
    Gemm product{.type = kFloat, .m = rows, .n = exchange_.cols, .k = exchange_.depth};
    product.a = reinterpret_cast<const std::byte*>(a);
    product.b = reinterpret_cast<const std::byte*>(factor());
    product.c = reinterpret_cast<std::byte*>(c);
    product.a_stride = exchange_.depth;
    product.b_stride = product.c_stride = exchange_.cols;
    return product;
  }
  [[nodiscard]] const Exchange& exchange() const { return exchange_; }

 private:
  explicit ExchangeMemory(const Exchange& exchange) : exchange_(exchange) {}
  [[nodiscard]] Bytes size() const {
    return static_cast<Bytes>(2 * rows() * exchange_.depth + exchange_.depth * exchange_.cols +
                              rows() * exchange_.cols);
  }
  void fill_rows(float* to, unsigned rank) const {
    for (std::int64_t i = 0; i < rows() * exchange_.depth; ++i)
      to[i] = static_cast<float>((i * 5 + std::int64_t{rank} * 3) % 11 - 5);
  }
  Exchange exchange_;
  std::optional<Region> region_;
};

Plan plan_of(const Exchange& exchange) {
  const std::int64_t rows = exchange.rows * kRunPieces;
  Plan plan{.ranks = 2, .lanes = 3, .about = "pieces both ways"};
  plan.tensors = {{"a", rows, exchange.depth, kFloat},
                  {"t", rows, exchange.depth, kFloat},
                  {"b", exchange.depth, exchange.cols, kFloat},
                  {"c", rows, exchange.cols, kFloat}};
  for (unsigned rank = 0; rank < 2; ++rank) {
    const std::string own = rank == 0 ? "X" : "Y";
    const std::string theirs = rank == 0 ? "Y" : "X";
    plan.given.push_back({{rank, 0, {0, 0, rows, exchange.depth}}, {{own}}});
    plan.given.push_back({{rank, 2, {0, 0, exchange.depth, exchange.cols}}, {{"B"}}});
    plan.wanted.push_back(
        {{rank, 3, {0, 0, rows, exchange.cols}}, {{theirs, "B", 0, 0, 0, exchange.depth}}});
    for (unsigned piece = 0; piece < kRunPieces; ++piece) {
      const std::int64_t first = exchange.rows * piece;
      const PlanRect moved{first, 0, exchange.rows, exchange.depth};
      const auto put = static_cast<unsigned>(plan.steps.size());
      plan.steps.push_back(
          {PlanVerb::put, rank, 1, {1 - rank, 1, moved}, {rank, 0, moved}, {}, false, {}});
      plan.steps.push_back({PlanVerb::gemm,
                            1 - rank,
                            0,
                            {1 - rank, 3, {first, 0, exchange.rows, exchange.cols}},
                            {1 - rank, 1, moved},
                            {1 - rank, 2, {0, 0, exchange.depth, exchange.cols}},
                            false,
                            {put}});
      plan.steps.push_back(
          {PlanVerb::signal, 1 - rank, 2, {rank, 0, {}}, {}, {}, false, {put + 1}});
    }
  }
  return plan;
}

/// The exchange as somebody would write it who has nothing but a link. It waits as the executor
/// does: on shared memory, with a CPU for each rank, it polls a while before it sleeps.
class ByHand {
 public:
  ByHand(const ExchangeMemory& memory, std::unique_ptr<gantry::Link> link, GemmLibrary& gemm)
      : memory_(memory),
        link_(std::move(link)),
        gemm_(gemm),
        polls_(link_->kind() == LinkKind::shared && ::sysconf(_SC_NPROCESSORS_ONLN) >= 2) {}

  Result<void> begin() {
    auto made = link_->export_region(memory_.region(), RemoteAccess::read_write);
    if (!made) return Unexpected(made.error());
    exported_ = std::move(*made);
    const Deadline deadline = Deadline::after(kExchangePatience);
    if (auto said = link_->send_control(exported_.remote().encode(), deadline); !said) return said;
    RemoteRegion::Encoded words{};
    if (auto heard = link_->receive_control(words, deadline); !heard)
      return Unexpected(heard.error());
    auto there = RemoteRegion::decode(words);
    if (!there) return Unexpected(there.error());
    there_ = *there;
    return {};
  }

  Result<void> run() {
    unsigned sent = 0;
    products_ = answers_ = 0;
    const Deadline deadline = Deadline::after(kExchangePatience);
    moved_at_ = Deadline::Clock::now();
    if (auto said = say(kReady); !said) return said;
    while (products_ < kRunPieces || answers_ < kRunPieces || sent < kRunPieces ||
           !under_way_.empty()) {
      bool has_moved = link_->poll();
      if (auto heard = hear(has_moved); !heard) return heard;
      for (; readies_ > 0 && sent < kRunPieces; ++sent, has_moved = true)
        if (auto put = send(sent); !put) return put;
      std::erase_if(under_way_,
                    [&](Ticket ticket) { return link_->outcome(ticket) != Outcome::pending; });
      if (deadline.passed()) return Unexpected({Code::timed_out, "an exchange by hand", ""});
      if (auto state = link_->state(); !state) return state;
      wait_for_news(has_moved);
    }
    --readies_;
    return {};
  }

 private:
  static constexpr std::uint64_t kReady = 2 * std::uint64_t{kRunPieces};

  void wait_for_news(bool has_moved) {
    if (has_moved) {
      if (polls_) moved_at_ = Deadline::Clock::now();
      return;
    }
    if (polls_ && Deadline::Clock::now() - moved_at_ < kPollFor) return;
    pollfd entry{link_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, 50);
  }
  Result<void> begun(Result<Ticket> ticket) {
    if (!ticket) return Unexpected(ticket.error());
    under_way_.push_back(*ticket);
    return {};
  }
  Result<void> say(std::uint64_t signal) {
    return begun(link_->put(Transfer::of({}, there_, 0, signal)));
  }
  Result<void> send(unsigned piece) {
    const Exchange& exchange = memory_.exchange();
    const std::int64_t at = exchange.rows * piece * exchange.depth;
    return begun(link_->put(Transfer::of(
        {reinterpret_cast<const std::byte*>(memory_.own() + at), exchange.piece_bytes()}, there_,
        memory_.offset_of(memory_.incoming() + at), piece)));
  }
  Result<void> hear(bool& has_moved) {
    const Exchange& exchange = memory_.exchange();
    while (const auto signal = link_->receive_signal(Deadline::now())) {
      has_moved = true;
      if (*signal == kReady) ++readies_;
      if (*signal >= kRunPieces && *signal < kReady) ++answers_;
      if (*signal >= kRunPieces) continue;
      const auto row = exchange.rows * static_cast<std::int64_t>(*signal);
      auto done = gemm_.multiply(memory_.product_of(memory_.incoming() + row * exchange.depth,
                                                    memory_.product() + row * exchange.cols,
                                                    exchange.rows));
      if (!done) return done;
      ++products_;
      if (auto said = say(kRunPieces + *signal); !said) return said;
    }
    return {};
  }

  const ExchangeMemory& memory_;
  std::unique_ptr<gantry::Link> link_;
  GemmLibrary& gemm_;
  Export exported_;
  RemoteRegion there_;
  std::vector<Ticket> under_way_;
  const bool polls_;
  Deadline::Clock::time_point moved_at_{};
  unsigned products_ = 0;
  unsigned answers_ = 0;
  unsigned readies_ = 0;
};

/// A rank, from the inside.
class ExchangeBody {
 public:
  ExchangeBody(unsigned rank, ExchangeMemory memory, std::shared_ptr<GemmLibrary> gemm)
      : rank_(rank), memory_(std::move(memory)), gemm_(std::move(gemm)) {}

  Result<void> begin(std::unique_ptr<gantry::Link> of_plan, std::unique_ptr<gantry::Link> of_hand) {
    std::vector<std::unique_ptr<gantry::Link>> links(2);
    links[1 - rank_] = std::move(of_plan);
    auto group =
        Group::over({.rank = rank_, .ranks = 2, .name = "bench-executor"}, std::move(links));
    if (!group) return Unexpected(group.error());
    group_.emplace(std::move(*group));
    const auto at = [&](float* data) {
      return PlanMemory{reinterpret_cast<std::byte*>(data), 0, &memory_.region()};
    };
    const std::vector<PlanMemory> tensors = {at(memory_.own()), at(memory_.incoming()),
                                             at(memory_.factor()), at(memory_.product())};
    auto executor = PlanExecutor::prepare(*group_, plan_of(memory_.exchange()), tensors,
                                          {.gemm = gemm_}, Deadline::after(kExchangePatience));
    if (!executor) return Unexpected(executor.error());
    executor_.emplace(std::move(*executor));
    by_hand_.emplace(memory_, std::move(of_hand), *gemm_);
    if (auto begun = by_hand_->begin(); !begun) return begun;
    memory_.fill(rank_);  // the factor, of which it is made
    auto wanted = memory_.wanted(rank_, *gemm_);
    if (!wanted) return Unexpected(wanted.error());
    wanted_ = std::move(*wanted);
    return {};
  }

  Result<Answer> obey(const Command& command) {
    std::vector<double> times;
    std::chrono::nanoseconds cpu{};
    for (std::uint64_t trip = 0; trip <= command.trips; ++trip) {
      memory_.fill(rank_);
      const auto before = process_cpu_time();
      const Stopwatch watch;
      if (auto done = run(command.warmups == 0); !done) return Unexpected(done.error());
      const double ns = watch.spent().wall_ns;
      if (trip > 0) cpu += process_cpu_time() - before;
      if (trip > 0) times.push_back(ns);
      if (std::memcmp(memory_.product(), wanted_.data(), wanted_.size() * sizeof(float)) != 0)
        return Unexpected({Code::system, "an exchange left another product", ""});
    }
    std::ranges::sort(times);
    Answer answer;
    answer.kind = Answer::Kind::measured;
    answer.p50_ns = times[times.size() / 2];
    answer.cpu_ns = Stopwatch::ns(cpu) / static_cast<double>(command.trips);
    return answer;
  }

 private:
  Result<void> run(bool by_plan) {
    if (!by_plan) return by_hand_->run();
    const auto run = executor_->run(Deadline::after(kExchangePatience));
    if (!run) return Unexpected(run.error());
    return {};
  }

  const unsigned rank_;
  ExchangeMemory memory_;
  std::shared_ptr<GemmLibrary> gemm_;
  std::optional<Group> group_;
  std::optional<PlanExecutor> executor_;
  std::optional<ByHand> by_hand_;
  std::vector<float> wanted_;
};

Result<std::unique_ptr<gantry::Link>> link_of(LinkKind kind, Descriptor& socket,
                                              const std::shared_ptr<Engine>& engine) {
  return kind == LinkKind::shared ? make_shared_link(socket.release(), engine)
                                  : make_stream_link(socket.release());
}

/// A rank's sockets: of the plan, of the loop.
using ExchangeSockets = std::array<Descriptor, 2>;

Result<ObeyRank> open_exchange(unsigned rank, LinkKind kind, const Exchange& exchange,
                               ExchangeSockets& sockets) {
  const auto runtime = Runtime::create({.directory = {}, .engine = "inline"});
  if (!runtime) return Unexpected(runtime.error());
  auto memory = ExchangeMemory::make(exchange);
  if (!memory) return Unexpected(memory.error());
  auto gemm = open_gemm();
  if (!gemm) return Unexpected(gemm.error());
  auto of_plan = link_of(kind, sockets[0], runtime->default_engine());
  auto of_hand = link_of(kind, sockets[1], runtime->default_engine());
  if (!of_plan) return Unexpected(of_plan.error());
  if (!of_hand) return Unexpected(of_hand.error());
  const auto body = std::make_shared<ExchangeBody>(rank, std::move(*memory), std::move(*gemm));
  if (auto begun = body->begin(std::move(*of_plan), std::move(*of_hand)); !begun)
    return Unexpected(begun.error());
  return ObeyRank([body](const Command& command) { return body->obey(command); });
}

}  // namespace

Result<ExecutorRanks> ExecutorRanks::start(LinkKind kind, const Exchange& exchange) {
  std::array<ExchangeSockets, 2> sockets;
  for (std::size_t subject = 0; subject < 2; ++subject) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return Unexpected(system_error("a socket pair"));
    for (std::size_t rank = 0; rank < 2; ++rank) sockets[rank][subject] = Descriptor(ends[rank]);
  }
  // The plan has a thread that computes: all may run on all.
  auto children = start_ranks(2, RankCpus::all, [&](unsigned rank) {
    for (Descriptor& other : sockets[1 - rank]) other.reset();
    return open_exchange(rank, kind, exchange, sockets[rank]);
  });
  for (auto& of_rank : sockets)
    for (Descriptor& socket : of_rank) socket.reset();
  if (!children) return Unexpected(children.error());
  ExecutorRanks made;
  made.children_ = std::move(*children);
  if (auto ready = await_ready(made.children_); !ready) return Unexpected(ready.error());
  return made;
}

}  // namespace gantry::bench
