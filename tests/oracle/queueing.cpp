// Queues of work: who keeps one, who puts items, and who works on them.
#include <fmt/format.h>
#include <deque>
#include <optional>

#include "oracle/part.hpp"

namespace gantry::oracle {
namespace {

constexpr Bytes kNameBytes = 4;  // an item begins with who it is

std::vector<std::byte> item_of(const Part& part, Id id) {
  const std::uint32_t name = id.pack();
  std::vector<std::byte> bytes(kNameBytes + part.scenario.size_of(id));
  std::memcpy(bytes.data(), &name, kNameBytes);
  fill(ByteSpan(bytes).subspan(kNameBytes), id);
  return bytes;
}

// ---- who puts ------------------------------------------------------------------------------

class Putter {
 public:
  explicit Putter(Part& part) : part_(part), member_(join(part, {}).value()) {}

  /// Nothing: the queue has ended.
  static std::optional<WorkMember> join(Part& part, Acknowledge acknowledge) {
    WorkMemberOptions options;
    static_cast<EndOptions&>(options) = part.producer_options();
    static_cast<PayloadOptions&>(options) = part.producer_options();
    options.acknowledge = acknowledge;
    for (const Deadline end = Deadline::after(kPatience);;) {
      auto member = part.timed("joining a queue", kLook, [&](Deadline deadline) {
        return WorkMember::connect(kChannelNames[0], options, part.runtime.default_engine(),
                                   deadline);
      });
      if (member) return std::move(*member);
      if (part.is_over(1)) return std::nullopt;
      if (end.passed()) give_up("joining a queue", member.error());
      sleep_us(500);
    }
  }

  void run() {
    for (unsigned number = 0; number < part_.role.messages;) {
      const auto most = std::min<std::uint64_t>(4, part_.role.messages - number);
      number += put(number, static_cast<unsigned>(part_.dice.between(1, most)));
    }
    const auto seen = part_.timed("report()", kPatience,
                                  [&](Deadline deadline) { return member_.report(deadline); });
    if (!seen) give_up("report()", seen.error());
    part_.board.closed({part_.role.stream, part_.life, 0}) = true;  // the queue has them all
  }

 private:
  [[nodiscard]] Id id_of(unsigned number) const { return {part_.role.stream, part_.life, number}; }

  // So many from `first` on, or one; how many were tried.
  unsigned put(unsigned first, unsigned count) {
    const bool hurried = part_.dice.chance(part_.role.hurried);
    const std::chrono::nanoseconds time =
        hurried ? std::chrono::microseconds(part_.dice.up_to(2000)) : kPatience;
    if (part_.dice.chance(60)) count = 1;
    std::vector<std::vector<std::byte>> items;
    for (unsigned i = 0; i < count; ++i) {
      part_.board.fate(id_of(first + i)) = Fate::attempted;
      items.push_back(item_of(part_, id_of(first + i)));
    }
    const auto done = part_.timed("put()", time, [&](Deadline deadline) -> Result<std::size_t> {
      if (count > 1 || part_.dice.chance(30)) {
        const std::vector<ConstByteSpan> spans(items.begin(), items.end());
        return member_.put_many(spans, deadline);
      }
      const auto one = part_.dice.chance(30) ? member_.put(Draft().copy(items[0]), deadline)
                                             : member_.put(ConstByteSpan(items[0]), deadline);
      if (!one) return tl::unexpected(one.error());
      return 1;
    });
    if (!done && (done.error().code != Code::timed_out || !hurried)) give_up("put()", done.error());
    const std::size_t put = done ? *done : 0;
    for (unsigned i = 0; i < count; ++i)
      part_.board.fate(id_of(first + i)) = i < put ? Fate::sent : Fate::refused;
    return count;
  }

  Part& part_;
  WorkMember member_;
};

// ---- who works -----------------------------------------------------------------------------

class Worker {
 public:
  explicit Worker(Part& part) : part_(part) {}

  void run() {
    constexpr unsigned kMostSessions = 5;
    bool has_ended = false;
    for (unsigned session = 1; !has_ended; ++session) {
      member_ = Putter::join(part_, acknowledge());
      if (!member_) return;
      begin_log();
      while (!(has_ended = !work()) && (held_.empty() || session == kMostSessions ||
                                        part_.dice.up_to(999) >= part_.role.leaves)) {
      }
      log_->end = has_ended ? End::closed : End::left;
      // What it has not acknowledged goes to others, now or with the items.
      if (part_.dice.chance(50)) let_go(0);
      member_.reset();
      let_go(0);
    }
  }

 private:
  struct Held {
    WorkItem item;
    std::uint32_t entry;
  };

  [[nodiscard]] Acknowledge acknowledge() const {
    return part_.role.is_by_hand ? Acknowledge::by_hand : Acknowledge::on_get;
  }
  void begin_log() {
    const std::uint32_t index = part_.board.logs_used.fetch_add(1);
    if (index >= kMaxLogs) give_up("more sessions than the board has logs for");
    log_ = &part_.board.logs[index];
    log_->role = static_cast<std::uint8_t>(part_.index);
  }

  // False: the queue has ended.
  bool work() {
    constexpr std::size_t kMost = 4;
    std::chrono::nanoseconds time = kLook;
    if (part_.dice.chance(part_.role.hurried))
      time = std::chrono::microseconds(part_.dice.up_to(500));
    else if (part_.scenario.is_timeless && held_.empty())
      time = kPatience - kLook;
    const bool many = part_.dice.chance(40);
    log_->batch = many ? kMost : 1;
    auto got = part_.timed("get()", time,
                           [&](Deadline deadline) { return get(many ? kMost : 0, deadline); });
    if (!got && got.error().code == Code::timed_out && part_.dice.chance(20))
      got = part_.timed("withdraw()", kLook, [&](Deadline deadline) {
        return many ? member_->withdraw_many(deadline, kMost)
                    : as_many(member_->withdraw(deadline));
      });
    if (got)
      for (WorkItem& item : *got) take(std::move(item));
    log_->batch = 0;
    if (!got) {
      const Code code = got.error().code;
      // One that the queue had not let in when it ended hears that it is gone.
      const bool came_late = code == Code::peer_gone && log_->count == 0 && part_.is_over(0);
      if (code == Code::closed || came_late) return false;
      if (code != Code::timed_out && code != Code::busy) give_up("get()", got.error());
    }
    if (part_.role.lags_us != 0) sleep_us(part_.dice.up_to(part_.role.lags_us));
    let_go(got ? part_.dice.up_to(part_.role.holds) : 0);
    return true;
  }
  static Result<std::vector<WorkItem>> as_many(Result<WorkItem> one) {
    if (!one) return tl::unexpected(one.error());
    std::vector<WorkItem> items;
    items.push_back(std::move(*one));
    return items;
  }
  Result<std::vector<WorkItem>> get(std::size_t most, Deadline deadline) {
    return most == 0 ? as_many(member_->get(deadline)) : member_->get_many(most, deadline);
  }

  Id check(const WorkItem& item, const char* when) {
    std::uint32_t name = 0;
    if (item.segments() != 1 || item.bytes().size() < kNameBytes) give_up("an item without a name");
    std::memcpy(&name, item.bytes().data(), kNameBytes);
    const Id id = Id::unpack(name);
    const ConstByteSpan bytes = item.bytes().subspan(kNameBytes);
    if (bytes.size() != part_.scenario.size_of(id))
      give_up(fmt::format("{}: {} has {} bytes, not {}", when, to_string(id), bytes.size(),
                          part_.scenario.size_of(id)));
    check_bytes(bytes, id, 0, when);
    return id;
  }
  void take(WorkItem item) {
    const Id id = check(item, "get()");
    if (part_.board.fate(id) == Fate::none) give_up(fmt::format("{} was never put", to_string(id)));
    const std::uint32_t entry = log_->count.load(std::memory_order_relaxed);
    if (entry == Log::kMost) give_up("more items than the log has room for");
    log_->entries[entry] = id.pack() | Log::kWhole | (part_.role.is_by_hand ? 0 : Log::kDone) |
                           std::uint64_t{item.tries()} << Log::kTriesBit;
    log_->count.store(entry + 1, std::memory_order_release);
    held_.push_back({std::move(item), entry});
  }
  // The oldest first. Some are given back.
  void let_go(std::size_t most) {
    for (; held_.size() > most; held_.pop_front()) {
      auto& [item, entry] = held_.front();
      check(item, "an item, before it is done");
      if (!part_.role.is_by_hand || !member_ || part_.dice.chance(20)) continue;
      const auto done = item.done();
      if (!done) give_up("done()", done.error());
      log_->entries[entry].fetch_or(Log::kDone);
    }
  }

  Part& part_;
  std::optional<WorkMember> member_;
  std::deque<Held> held_;
  Log* log_ = nullptr;
};

}  // namespace

void keep_queue(Part& part) {
  WorkQueueOptions options;
  options.channel = part.consumer_options();
  options.replies = part.producer_options();
  auto queue = WorkQueue::open(kChannelNames[0], options, part.runtime.default_engine());
  if (!queue) give_up("opening a queue", queue.error());
  while (!part.is_over(0)) sleep_us(1000);
  queue->finish();
  const auto done = part.timed("WorkQueue::wait_until_done()", kPatience,
                               [&](Deadline deadline) { return queue->wait_until_done(deadline); });
  if (!done) give_up("WorkQueue::wait_until_done()", done.error());
  const WorkQueueReport report = queue->report();
  if (report.put != report.acknowledged || report.dropped != 0)
    give_up(fmt::format("{} items were put, {} acknowledged and {} dropped", report.put,
                        report.acknowledged, report.dropped));
  // Workers hear that it is over also behind its end.
  if (part.dice.chance(50)) sleep_us(part.dice.up_to(20'000));
}

void put_items(Part& part) {
  Putter(part).run();
}
void work(Part& part) {
  Worker(part).run();
}

}  // namespace gantry::oracle
