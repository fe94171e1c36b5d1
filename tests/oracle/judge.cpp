// What nobody can see alone: order and gaps within a session, duplicates and loss among them all.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "oracle/conductor.hpp"
#include "oracle/part.hpp"

namespace gantry::oracle {
namespace {

bool may_miss(SlowConsumer policy) {
  return policy == SlowConsumer::drop_newest || policy == SlowConsumer::drop_oldest;
}
// In the order of sending, all that one sender did in all its lives.
std::uint32_t line_of(Id id) {
  return id.epoch * kMaxMessages + id.number;
}

class Judge {
 public:
  Judge(const Scenario& scenario, Board& board) : scenario_(scenario), board_(board) {}

  void run() {
    const std::uint32_t logs = std::min<std::uint32_t>(board_.logs_used, kMaxLogs);
    for (std::uint32_t i = 0; i < logs; ++i) note_seen(board_.logs[i]);
    for (std::uint32_t i = 0; i < logs; ++i) read(board_.logs[i], i);
    if (scenario_.theme == Theme::queue) check_tries();
    if (has_one_reader() || scenario_.theme == Theme::queue) check_loss();
  }

 private:
  [[nodiscard]] const Role& role_of(const Log& log) const { return scenario_.roles[log.role]; }
  /// One receiver at a time, which gets all that its predecessors did not take.
  [[nodiscard]] bool has_one_reader() const {
    unsigned receivers = 0;
    for (const Role& role : scenario_.roles) {
      const bool receives =
          role.play == Play::consume || role.play == Play::inbox || role.play == Play::relay;
      receivers += receives && role.channel == 0 ? 1 : 0;
      if (receives && role.channel == 0 && role.policy != SlowConsumer::block) return false;
    }
    return receivers == 1 && scenario_.options.consumers >= 1 && scenario_.options.history == 0;
  }

  void note_seen(const Log& log) {
    has_left_ |= scenario_.options.history != 0 && log.end != End::closed && log.end != End::gone;
    for (std::uint32_t i = 0; i < log.count; ++i)
      seen_.insert(Id::unpack(static_cast<std::uint32_t>(log.entries[i])).pack());
  }

  // Of one who works: each try of an item is had by one. They have no order, since one who waits
  // for another number of items gives back what it was handed.
  void read_items(const Log& log, std::uint32_t index) {
    for (std::uint32_t i = 0; i < log.count; ++i) {
      const std::uint64_t entry = log.entries[i];
      const Id id = Id::unpack(static_cast<std::uint32_t>(entry));
      const std::uint64_t tries = entry >> Log::kTriesBit;
      delivered_.emplace(id.pack(), index);
      if (!tries_[id.pack()].emplace(tries, (entry & Log::kDone) != 0).second)
        give_up(fmt::format("try {} of {} was handed out twice", tries, to_string(id)));
    }
    if (log.end == End::unknown && !role_of(log).is_by_hand)
      may_be_lost_ += std::max<unsigned>(1, log.batch);
  }
  void check_tries() const {
    for (const auto& [item, tries] : tries_)
      for (auto one = tries.begin(); one != tries.end() && std::next(one) != tries.end(); ++one)
        if (one->second)
          give_up(fmt::format("{} was acknowledged in try {}, and handed out again",
                              to_string(Id::unpack(item)), one->first));
  }

  void read(const Log& log, std::uint32_t index) {
    const Role& role = role_of(log);
    if (role.play == Play::work) return read_items(log, index);
    std::map<unsigned, Id> last;
    std::map<unsigned, std::uint32_t> of_line;
    for (std::uint32_t i = 0; i < log.count; ++i) {
      const std::uint64_t entry = log.entries[i];
      const Id id = Id::unpack(static_cast<std::uint32_t>(entry));
      // Two lives are two senders to an inbox, which take turns.
      const unsigned line = role.play == Play::inbox ? id.pack() >> 22 : id.stream;
      const auto before = last.find(line);
      if (before != last.end()) check_step(role, before->second, id, is_kept(role, of_line[line]));
      last[line] = id;
      ++of_line[line];
      if (entry >= Log::kWhole && board_.fate(id) == Fate::refused)
        give_up(fmt::format("{} was delivered although its sender was told that it was not sent",
                            to_string(id)));
      if (has_one_reader() && role.channel == 0) note_once(id, index);
    }
    if (!may_end_early(log)) check_end(role, last, is_kept(role, log.count - 1));
    if (log.end == End::unknown || log.end == End::left_waiting)
      may_be_lost_ += std::max<unsigned>(1, log.batch);
  }

  /// May be of a history, which has no streamed messages, or of what a reader had left that could
  /// be passed over; or the first behind these.
  [[nodiscard]] bool is_kept(const Role& role, std::uint32_t index) const {
    const ProducerOptions& options = scenario_.options;
    return role.channel == 0 && (options.history != 0 || others_miss()) &&
           index <= options.slots + options.history;
  }
  [[nodiscard]] bool others_miss() const {
    return std::any_of(scenario_.roles.begin(), scenario_.roles.end(),
                       [](const Role& one) { return one.channel == 0 && may_miss(one.policy); });
  }
  void check_step(const Role& role, Id before, Id id, bool is_kept_one) {
    // Of several relays one may be handed what another had left, behind what it passed on before.
    const bool may_go_back = role.channel == 1 && scenario_.options.consumers > 1;
    if (line_of(id) <= line_of(before) && !may_go_back)
      give_up(fmt::format("role {}: {} came after {}", index_of(role), to_string(id),
                          to_string(before)));
    if (!may_miss(role.policy) && role.channel == 0 && !is_kept_one && !scenario_.is_starved())
      check_gap(role, before, id);
  }
  void check_gap(const Role& role, Id before, Id id) {
    for (Id between = before; ++between.number, line_of(between) < line_of(id);) {
      if (between.number >= kMaxMessages) between = {between.stream, between.epoch + 1, 0};
      if (line_of(between) >= line_of(id)) return;
      if (between.epoch != id.epoch && has_one_reader()) continue;  // a predecessor may have it
      if (between.epoch != before.epoch) continue;                  // it came in between
      if (board_.fate(between) == Fate::sent)
        give_up(fmt::format("role {}: {} is missing between {} and {}", index_of(role),
                            to_string(between), to_string(before), to_string(id)));
    }
  }
  [[nodiscard]] bool may_end_early(const Log& log) const {
    const Role& role = role_of(log);
    if (scenario_.is_starved() || role.channel != 0 || role.policy != SlowConsumer::block)
      return true;
    return log.end != End::closed && log.end != End::gone;
  }
  // Who reads to the end reads all of it. Behind a history there may be streamed messages, which
  // others had before it came, or had unread when they left; behind what a reader had left, what
  // had been dropped for that one.
  void check_end(const Role& role, const std::map<unsigned, Id>& last, bool is_kept_one) {
    for (const auto& [line, id] : last)
      for (Id next = id; ++next.number < kMaxMessages && board_.fate(next) != Fate::none;)
        if (board_.fate(next) == Fate::sent &&
            !(is_kept_one && (others_miss() || has_left_ || seen_.contains(next.pack()))))
          give_up(fmt::format("role {}: the stream ended after {}, but {} was sent", index_of(role),
                              to_string(id), to_string(next)));
  }
  void note_once(Id id, std::uint32_t log) {
    const auto [found, is_new] = delivered_.emplace(id.pack(), log);
    if (!is_new)
      give_up(fmt::format("{} was delivered in session {} and again in session {}", to_string(id),
                          found->second, log));
  }

  // What was sent has arrived, as long as somebody had it to the end; but what was in the hand of
  // one that was killed, or that left within a message.
  void check_loss() {
    if (scenario_.is_starved()) return;
    std::set<unsigned> streams;
    for (const Role& role : scenario_.roles)
      if (role.play == Play::produce || role.play == Play::deliver || role.play == Play::put)
        streams.insert(role.stream);
    unsigned lost = 0;
    std::string what;
    for (const unsigned stream : streams)
      for (unsigned epoch = 0; epoch < 8; ++epoch) lost += count_lost(stream, epoch, what);
    if (lost > may_be_lost_)
      give_up(fmt::format("{} messages were sent and never arrived, {} may be lost; the last is {}",
                          lost, may_be_lost_, what));
  }
  unsigned count_lost(unsigned stream, unsigned epoch, std::string& what) {
    unsigned lost = 0, since_last = 0;
    for (std::uint32_t number = 0; number < kMaxMessages; ++number) {
      const Id id{stream, epoch, number};
      if (board_.fate(id) == Fate::none) break;  // it sends in their order
      if (delivered_.contains(id.pack())) since_last = 0;
      if (board_.fate(id) != Fate::sent || delivered_.contains(id.pack())) continue;
      ++lost;
      ++since_last;
      what = to_string(id);
    }
    // A sender that ends otherwise while nobody is there takes with it what waits.
    return board_.closed({stream, epoch, 0}) ? lost : lost - since_last;
  }
  [[nodiscard]] std::size_t index_of(const Role& role) const {
    return static_cast<std::size_t>(&role - scenario_.roles.data());
  }

  const Scenario& scenario_;
  Board& board_;
  std::map<std::uint32_t, std::uint32_t> delivered_;              // in which session
  std::map<std::uint32_t, std::map<std::uint64_t, bool>> tries_;  // of an item: whether it was done
  bool has_left_ = false;         // somebody, by itself or killed, where a history is kept
  std::set<std::uint32_t> seen_;  // by anybody
  unsigned may_be_lost_ = 0;
};

}  // namespace

std::string describe_sessions(const Board& board) {
  constexpr std::array kEnds{"was killed", "closed", "peer_gone", "left", "left, had timed out"};
  constexpr std::uint32_t kMostTold = 12, kMostOfEach = 40;
  const std::uint32_t logs = std::min<std::uint32_t>(board.logs_used, kMaxLogs);
  std::string text;
  for (std::uint32_t i = logs - std::min(logs, kMostTold); i < logs; ++i) {
    const Log& log = board.logs[i];
    text += fmt::format("  session {} of role {}:", i, log.role.load());
    const std::uint32_t count = log.count;
    for (std::uint32_t at = count - std::min(count, kMostOfEach); at < count; ++at)
      text += fmt::format(
          " {}", to_string(Id::unpack(static_cast<std::uint32_t>(log.entries[at].load()))));
    text +=
        fmt::format("; {} {}\n", kEnds[static_cast<std::size_t>(log.end.load())], log.why.data());
  }
  return text;
}

void judge(const Scenario& scenario, Board& board) {
  Judge(scenario, board).run();
}

}  // namespace gantry::oracle
