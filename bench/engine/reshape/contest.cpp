// Conversions within the one copy, beside a copy and a conversion of their own, and others'.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../movers.hpp"
#include "case.hpp"
#include "names.hpp"
#include "peers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kTurnBytes = Bytes{32} << 20;
constexpr Bytes kMostConversions = 64;  // of a turn: each wakes the reader

/// A case as its subjects have it.
struct Contest {
  Environment& environment;
  const ReshapeCase what;
  ReshapeMemory memory;

  Contest(Environment& there, const ReshapeCase& one)
      : environment(there), what(one), memory(one) {}
};

struct Subject {
  std::string name;
  std::function<Result<void>()> convert;
  ByteSpan made;                        // what the reader then reads; empty: nothing
  std::function<Result<void>()> check;  // of what is in `made`
};

/// Converting, and reading what was made.
struct Taken {
  Spent converting;
  double reading_ns = 0;
  std::uint64_t sum = 0;  // of what was read
  [[nodiscard]] double ns() const noexcept { return converting.wall_ns + reading_ns; }
};

Result<Taken> take(Contest& contest, const Subject& subject) {
  if (!subject.made.empty()) contest.memory.spoil(subject.made);
  Taken taken;
  const Stopwatch watch;
  if (auto converted = subject.convert(); !converted) return Unexpected(converted.error());
  taken.converting = watch.spent();
  if (subject.made.empty()) return taken;
  contest.environment.reader().start([&] { return checksum(subject.made); });
  const Reader::Reading read = contest.environment.reader().finish();
  taken.reading_ns = read.ns;
  taken.sum = read.sum;
  return taken;
}

/// One subject's turns.
class ReshapeTurns {
 public:
  ReshapeTurns(std::shared_ptr<Contest> contest, Subject subject)
      : contest_(std::move(contest)), subject_(std::move(subject)) {}

  Result<void> take_turn(Series& series) {
    if (!sum_)
      if (auto right = check_first(); !right) return right;
    std::vector<Taken> all;
    const Bytes bytes = contest_->what.source_bytes();
    for (Bytes left = std::clamp(kTurnBytes / bytes, Bytes{1}, kMostConversions); left > 0;
         --left) {
      auto taken = take(*contest_, subject_);
      if (!taken) return Unexpected(taken.error());
      if (taken->sum != *sum_)
        return Unexpected({Code::peer_misbehaved,
                           fmt::format("wrong data: the sum of what was read is {:#x}, not {:#x}",
                                       taken->sum, *sum_),
                           ""});
      all.push_back(*taken);
    }
    add_to(series, all);
    return {};
  }

 private:
  /// Byte by byte, once; the sum of what is right is that of all turns.
  Result<void> check_first() {
    const auto taken = take(*contest_, subject_);
    if (!taken) return Unexpected(taken.error());
    if (auto right = subject_.check(); !right) return right;
    sum_ = taken->sum;
    return {};
  }

  void add_to(Series& series, const std::vector<Taken>& all) const {
    const auto middle = [&](auto figure) {
      std::vector<double> figures;
      for (const Taken& one : all) figures.push_back(figure(one));
      return median(figures);
    };
    const auto bytes = static_cast<double>(contest_->what.source_bytes());
    const double both = middle([](const Taken& one) { return one.ns(); });
    const double converting = middle([](const Taken& one) { return one.converting.wall_ns; });
    series.add(kLatencyP50, "ns", both);
    series.add(kThroughput, "GB/s", bytes / both);
    series.add(kCpuPerGb, "s/GB", middle([](const Taken& one) {
                                    return one.converting.caller_ns + one.converting.helper_ns +
                                           one.reading_ns;
                                  }) / bytes);
    series.add(kConvertTime, "ns", converting);
    series.add(kReadTime, "ns", middle([](const Taken& one) { return one.reading_ns; }));
  }

  std::shared_ptr<Contest> contest_;
  Subject subject_;
  std::optional<std::uint64_t> sum_;
};

// ---- who takes part ------------------------------------------------------------------------

using Step = std::function<Result<void>()>;

Step moving(std::shared_ptr<Lane> lane, const Move& move) {
  return [lane = std::move(lane), move]() -> Result<void> {
    const auto ticket = lane->submit(move, SubmitMode::synchronous);
    if (!ticket) return Unexpected(ticket.error());
    return await(*lane, *ticket);
  };
}

Step both(Step first, Step second) {
  return [first = std::move(first), second = std::move(second)]() -> Result<void> {
    if (auto done = first(); !done) return done;
    return second();
  };
}

Step calling(std::function<void()> call) {
  return [call = std::move(call)]() -> Result<void> {
    call();
    return {};
  };
}

/// The subjects of one case.
class Field {
 public:
  explicit Field(std::shared_ptr<Contest> contest)
      : contest_(std::move(contest)),
        source_(contest_->memory.source()),
        destination_(contest_->memory.destination()) {}

  Result<std::vector<Entrant>> enter() {
    if (auto added = add_engines(); !added) return Unexpected(added.error());
    add_exact("scalar", calling([contest = contest_] { reshape_by_loop(contest->memory.task()); }));
    for (const ReshapePeer& peer : kReshapePeers) add_peer(peer);
    if (auto added = add_limits(); !added) return Unexpected(added.error());
    std::vector<Entrant> entrants;
    for (Subject& subject : subjects_) {
      const std::string name = subject.name;
      auto turns = std::make_shared<ReshapeTurns>(contest_, std::move(subject));
      entrants.push_back({name, [turns](Series& series) { return turns->take_turn(series); }});
    }
    return entrants;
  }

 private:
  Result<void> add_engines() {
    const ReshapePlan& plan = contest_->what.plan;
    const Move move = Move::reshape(destination_, source_, plan);
    for (const NamedEngine& one : contest_->environment.engines()) {
      if (one.name == kDsaEngine) continue;  // it hands conversions to the CPU
      auto lane = lane_of(*one.engine);
      if (!lane) return Unexpected(lane.error());
      if (one.name != kAutoEngine) {
        add_exact(one.subject, moving(*lane, move));
        continue;
      }
      add_exact(std::string(kReshaped), moving(*lane, move));
      const ByteSpan staging = contest_->memory.staging();
      const ByteSpan copy = staging.first(source_.size());
      const ByteSpan made = staging.first(destination_.size());
      add_exact(std::string(kCopyThenConvert),
                both(moving(*lane, Move::copy(copy, source_)),
                     moving(*lane, Move::reshape(destination_, copy, plan))));
      add_exact("convert-then-copy", both(moving(*lane, Move::reshape(made, source_, plan)),
                                          moving(*lane, Move::copy(destination_, made))));
    }
    return {};
  }

  void add_exact(std::string name, Step convert) {
    subjects_.push_back({std::move(name), std::move(convert), destination_, [contest = contest_] {
                           return contest->memory.check(contest->memory.destination(), 0);
                         }});
  }

  void add_peer(const ReshapePeer& peer) {
    const ReshapeTask& task = contest_->memory.task();
    if (peer.pictures != task.pictures) return;
    const auto reshaping = reshaping_of(peer, task);
    if (!reshaping) return skip(peer.subject, reshaping.error());
    const bool whole = task.to == ReshapeTask::To::i8;  // without groups
    const ByteSpan made = whole ? destination_.first(static_cast<Bytes>(task.count)) : destination_;
    const double tolerance =
        task.to == ReshapeTask::To::f32 ? peer.tolerance_f32 : peer.tolerance_half;
    subjects_.push_back({peer.subject, calling(*reshaping), made, [=, contest = contest_] {
                           return whole ? contest->memory.check_whole_numbers(made)
                                        : contest->memory.check(made, tolerance);
                         }});
  }

  /// What was not built is said once.
  void skip(const std::string& subject, const Error& error) {
    auto& skipped = contest_->environment.report().skipped;
    if (error.code != Code::not_found) {
      skipped.push_back({fmt::format("{} in {}", subject, contest_->what.name), to_string(error)});
    } else if (std::ranges::find(skipped, subject, &Skipped::subject) == skipped.end()) {
      skipped.push_back({subject, to_string(error)});
    }
  }

  Result<void> add_limits() {
    auto copy = quickest_copy();
    if (!copy) return Unexpected(copy.error());
    subjects_.push_back(*std::move(copy));
    const auto sum = std::make_shared<std::uint64_t>();
    subjects_.push_back({std::string(kReadSource),
                         calling([sum, source = source_] { *sum = checksum(source); }),
                         {},
                         [sum, source = source_]() -> Result<void> {
                           if (*sum == checksum(source)) return {};
                           return Unexpected({Code::peer_misbehaved, "wrong sum", ""});
                         }});
    return {};
  }

  /// Of the source, to staging.
  Result<Subject> quickest_copy() {
    const ByteSpan copy = contest_->memory.staging().first(source_.size());
    auto lane = lane_of(*contest_->environment.engines().back().engine);
    if (!lane) return Unexpected(lane.error());
    const ConstByteSpan source = source_;
    Step steps[] = {moving(*lane, Move::copy(copy, source)),
                    calling([=] { std::memcpy(copy.data(), source.data(), copy.size()); }),
                    calling([=] { Copier::stream(copy.data(), source.data(), copy.size()); })};
    Subject best;
    double best_ns = 0;
    for (Step& step : steps) {
      Subject one{std::string(kCopySource), std::move(step), copy, [=]() -> Result<void> {
                    if (std::ranges::equal(copy, source)) return {};
                    return Unexpected({Code::peer_misbehaved, "wrong bytes", ""});
                  }};
      const auto ns = sample(one);
      if (!ns) return Unexpected(ns.error());
      if (best_ns != 0 && *ns >= best_ns) continue;
      best_ns = *ns;
      best = std::move(one);
    }
    return best;
  }

  Result<double> sample(const Subject& subject) {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      const auto taken = take(*contest_, subject);
      if (!taken) return Unexpected(taken.error());
      times.push_back(taken->ns());
    }
    return median(times);
  }

  std::shared_ptr<Contest> contest_;
  ConstByteSpan source_;
  ByteSpan destination_;
  std::vector<Subject> subjects_;
};

}  // namespace

std::vector<Experiment> reshape_experiments(const Environment& environment) {
  const unsigned rounds = environment.settings().common.rounds;
  const auto cases = reshape_cases(environment.settings());
  if (!cases)
    return {{std::string(kReshape), 1, rounds, [error = cases.error()](Environment&) {
               return Result<std::vector<Entrant>>(Unexpected(error));
             }}};
  std::vector<Experiment> all;
  for (const ReshapeCase& one : *cases)
    all.push_back({one.name, one.source_bytes(), rounds, [one](Environment& there) {
                     return Field(std::make_shared<Contest>(there, one)).enter();
                   }});
  return all;
}

}  // namespace gantry::bench
