// weak_orders: each memory order of src/core/sync is weakened by one step, in turn, and a small
// program over the library's own header must then go wrong on a machine with weak memory.
//   weak_orders [--runs N] [--verbose]
// Exit 0: every program holds as it is, and every weakened order is found or in kHarmless.
// docs: docs/decisions/any-order.md
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/os/membarrier.hpp"
#include "core/sync/biased_lock.hpp"
#include "core/sync/overwriting_ring.hpp"
#include "core/sync/spsc/release_board.hpp"
#include "core/sync/spsc/revocable_ring.hpp"
#include "core/sync/wait_flag.hpp"
#include "orders/places.hpp"
#include "orders/weak_machine.hpp"

extern "C" const char __executable_start;

namespace gantry {

// As where the kernel has membarrier(2): the light side has no fence.
std::atomic<bool> detail::has_membarrier{true};
void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  orders::weak::fence_all();
}

namespace orders::weak {
namespace {

struct Record {
  std::uint64_t number, slot, twice, rest;
};
constexpr std::uint64_t kMessages = 6;

/// What the fibers share. Each run makes it anew.
struct Shared {
  std::array<RingCell<Record>, 4> cells{};
  std::atomic<std::uint64_t> taken{0}, revoked{0}, head{0};
  WaitFlag reader, writer;
  WakeFilter to_reader, to_writer;
  ReleaseBoard<2> board;
  std::array<std::uint64_t, 2> payload{};
  std::array<StampedCell<2>, 2> stamped{};
  BiasedLock lock;
  std::uint64_t counter = 0;
};
Shared& shared() {
  return *std::launder(reinterpret_cast<Shared*>(arena()));
}

template <class Ready>
void sleep_until(WaitFlag& flag, unsigned bell, Ready ready) {
  while (!ready()) {
    flag.announce();
    if (!ready()) await_bell(bell);
    flag.withdraw();
  }
}
void wake_reader() {
  if (shared().to_reader.must_wake(shared().reader)) ring_bell(0);
}
void wake_writer() {
  if (shared().to_writer.must_wake(shared().writer)) ring_bell(1);
}
void write_record(Record& record, std::uint64_t number) {
  record.number = number;
  record.slot = number % 2;
  record.twice = 2 * number;
}

// ---- a ring of two cells; both ends sleep -----------------------------------------------------

void ring_writer() {
  Shared& it = shared();
  RingWriter<Record> ring(std::span(it.cells).first(2));
  for (std::uint64_t number = 1; number <= kMessages; ++number) {
    sleep_until(it.writer, 1, [&] {
      expect(ring.refresh(it.taken), "`taken` went back");
      return ring.unread() < 2;
    });
    ring.publish([&](Record& record) { write_record(record, number); });
    wake_reader();
  }
}
void ring_reader() {
  Shared& it = shared();
  RingReader<Record> ring(std::span<const RingCell<Record>>(it.cells).first(2));
  for (std::uint64_t number = 1; number <= kMessages; ++number) {
    // Two of the looks do not take part in the sleep handshake.
    if (number == 2)
      while (!ring.is_published(1)) give_way();
    else if (number == 3)
      while (ring.count_ready() == 0) give_way();
    else
      sleep_until(it.reader, 0, [&] { return ring.ready(); });
    const Record& record = ring.next();
    expect(record.number == number && record.twice == 2 * number, "a wrong record");
    ring.take();
    if (number % 2 == 1) {
      ring.mark(it.taken);
      continue;
    }
    ring.report(it.taken);
    wake_writer();
  }
}

// ---- memory that is lent by slot --------------------------------------------------------------

void lender() {
  Shared& it = shared();
  RingWriter<Record> ring(it.cells);
  for (std::uint64_t number = 1; number <= kMessages; ++number) {
    const std::uint64_t slot = number % 2;
    if (number > 2)
      sleep_until(it.writer, 1, [&] { return it.board.is_released(slot, number - 2); });
    it.payload[slot] = 7 * number;
    ring.publish([&](Record& record) { write_record(record, number); });
    wake_reader();
  }
}
void borrower() {
  Shared& it = shared();
  RingReader<Record> ring(it.cells);
  for (std::uint64_t number = 1; number <= kMessages; ++number) {
    sleep_until(it.reader, 0, [&] { return ring.ready(); });
    const std::uint64_t slot = ring.next().slot;
    expect(it.payload[slot] == 7 * number, "a wrong payload");
    ring.take();
    it.board.release(slot, number);
    wake_writer();
  }
}

// ---- records that are taken back --------------------------------------------------------------

void revoking_writer() {
  Shared& it = shared();
  using Revoked = RevocableWriter<Record>::Revoked;
  RevocableWriter<Record> ring(std::span(it.cells).first(2));
  std::array<bool, kMessages + 1> is_mine{};
  for (std::uint64_t number = 1; number <= kMessages; ++number) {
    expect(ring.refresh(it.taken), "`taken` went back");
    if (ring.unread() == 2) {
      const Revoked revoked = ring.revoke_oldest(it.revoked, it.taken);
      expect(revoked != Revoked::broken, "the reader's word is broken");
      is_mine[number - 2] = revoked == Revoked::certain;
    }
    const std::uint64_t slot = number % 2;
    while (number > 2 && !is_mine[number - 2] && !it.board.is_released(slot, number - 2))
      give_way();
    it.payload[slot] = 7 * number;
    Record record{};
    write_record(record, number);
    ring.publish_over(record);
    wake_reader();
  }
}
void revocable_reader() {
  Shared& it = shared();
  RevocableReader<Record> ring(std::span<const RingCell<Record>>(it.cells).first(2));
  const auto let_go = [&](const Record& record) { it.board.release(record.slot, record.number); };
  for (std::uint64_t last = 0; last < kMessages;) {
    sleep_until(it.reader, 0, [&] { return ring.can_claim(it.revoked); });
    Record copy{};
    if (!ring.claim(copy, it.taken, it.revoked, let_go)) continue;
    expect(copy.twice == 2 * copy.number && copy.slot == copy.number % 2, "a mixed record");
    expect(copy.number > last, "a record came twice");
    expect(it.payload[copy.slot] == 7 * copy.number, "a payload that was overwritten");
    last = copy.number;
    let_go(copy);
  }
}

// ---- events that are overwritten --------------------------------------------------------------

void event_writer() {
  OverwritingRing<2> ring(shared().head, shared().stamped);
  for (std::uint64_t number = 1; number <= 4; ++number) ring.write({number, ~number});
}
void event_reader() {
  OverwritingRing<2> ring(shared().head, shared().stamped);
  for (unsigned look = 0; look < 6; ++look) {
    const std::uint64_t written = ring.written();
    for (std::uint64_t number = written > 2 ? written - 2 : 0; number < written; ++number)
      if (const auto event = ring.read(number)) {
        expect((*event)[0] == number + 1, "another event");
        expect((*event)[1] == ~(number + 1), "a mixed event");
      }
    give_way();
  }
}
// ---- a lock that is biased --------------------------------------------------------------------

void owner() {
  for (unsigned i = 0; i < 4; ++i)
    if (shared().lock.enter()) {
      ++shared().counter;
      shared().lock.leave();
    } else {
      give_way();
    }
}
void thief() {
  for (unsigned i = 0; i < 2; ++i) {
    shared().lock.steal();
    ++shared().counter;
    shared().lock.hand_back();
  }
}

struct Program {
  const char* name;
  std::array<void (*)(), 2> fibers;
};
constexpr std::array kPrograms{
    Program{"ring", {&ring_writer, &ring_reader}},
    Program{"lent memory", {&lender, &borrower}},
    Program{"revocable ring", {&revoking_writer, &revocable_reader}},
    Program{"overwriting ring", {&event_writer, &event_reader}},
    Program{"biased lock", {&owner, &thief}},
};

const char* run_once(const Program& program, std::uint64_t seed) {
  std::memset(arena(), 0, kArenaBytes);
  new (arena()) Shared;
  return run(program.fibers.data(), 2, seed);
}

// ---- what is weakened -------------------------------------------------------------------------

/// An operation of the source, all its inlined copies together.
struct Place {
  std::string line;
  Op op;
  int order;
  bool operator<(const Place& other) const {
    return std::tie(line, op, order) < std::tie(other.line, other.op, other.order);
  }
};

const char* name_of(int order) {
  constexpr std::array kNames{"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return kNames[static_cast<std::size_t>(order)];
}

std::vector<int> weaker(Op op, int order) {
  if (order == __ATOMIC_SEQ_CST)
    return {op == Op::load    ? __ATOMIC_ACQUIRE
            : op == Op::store ? __ATOMIC_RELEASE
                              : __ATOMIC_ACQ_REL};
  if (order == __ATOMIC_ACQ_REL) return {__ATOMIC_ACQUIRE, __ATOMIC_RELEASE};
  if (order == __ATOMIC_RELAXED) return {};
  return {__ATOMIC_RELAXED};
}

std::string of_sync(const std::string& line) {
  const std::size_t from = line.rfind("/core/sync/");
  return from == line.npos ? "" : line.substr(from + 11);
}

std::map<Place, std::vector<Site*>> places() {
  std::map<std::uint64_t, std::vector<Site*>> by_address;
  std::vector<std::uint64_t> addresses;
  for (Site& site : std::span(sites().site, sites().count)) {
    addresses.push_back(site.place - reinterpret_cast<std::uint64_t>(&__executable_start));
    by_address[addresses.back()].push_back(&site);
  }
  std::map<Place, std::vector<Site*>> all;
  for (const auto& [at, line] : lines_of(addresses, of_sync))
    for (Site* const site : line.empty() ? std::vector<Site*>() : by_address[at])
      all[{line, site->op, site->order}].push_back(site);
  return all;
}

/// Weakened without effect. `written()`: whoever reads an event looks at its stamp, which orders
/// all that is read of it.
constexpr std::array kHarmless{"overwriting_ring.hpp:51"};

int main_of(int count, char** words) {
  std::uint64_t runs = 20'000;  // one order takes 6,192
  for (int i = 1; i < count; ++i)
    if (std::strcmp(words[i], "--runs") == 0 && i + 1 < count) runs = std::stoull(words[++i]);
  for (const Program& program : kPrograms)
    for (std::uint64_t seed = 1; seed <= runs; ++seed)
      if (const char* const trouble = run_once(program, seed)) {
        std::printf("%s, seed %lu, as it is: %s\n", program.name, static_cast<unsigned long>(seed),
                    trouble);
        return 1;
      }
  unsigned weakened = 0, missed = 0;
  for (const auto& [place, all] : places())
    for (const int order : weaker(place.op, place.order)) {
      ++weakened;
      for (Site* const site : all) site->weakened = order;
      const char* trouble = nullptr;
      const char* program_name = "";
      std::uint64_t seed = 0;
      for (seed = 1; seed <= runs && trouble == nullptr; ++seed)
        for (const Program& program : kPrograms) {
          trouble = run_once(program, seed);
          program_name = program.name;
          if (trouble != nullptr) break;
        }
      for (Site* const site : all) site->weakened = site->order;
      const bool is_harmless = std::any_of(kHarmless.begin(), kHarmless.end(),
                                           [&](const char* known) { return place.line == known; });
      std::printf("%-28s %-6s %s -> %-8s %s", place.line.c_str(),
                  kOpNames[static_cast<int>(place.op)], name_of(place.order), name_of(order),
                  trouble != nullptr ? "found"
                  : is_harmless      ? "without effect"
                                     : "NOT FOUND");
      if (trouble != nullptr)
        std::printf(" by %s, run %lu: %s", program_name, static_cast<unsigned long>(seed), trouble);
      std::printf("\n");
      missed += (trouble == nullptr) != is_harmless ? 1 : 0;
    }
  std::printf("%u orders weakened, %u not as expected\n", weakened, missed);
  constexpr unsigned kLeast = 29;  // that the programs reach: fewer are a mistake of theirs
  return missed == 0 && weakened >= kLeast ? 0 : 1;
}

}  // namespace
}  // namespace orders::weak
}  // namespace gantry

int main(int count, char** words) {
  return gantry::orders::weak::main_of(count, words);
}
