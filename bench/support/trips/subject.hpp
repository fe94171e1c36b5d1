#pragma once  // bench/support/trips/subject.hpp: the seam between the harness and what it compares.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "payload.hpp"

namespace gantry::bench {

/// What the reader decides about the payload, if it does not read it.
enum class Asked : std::uint8_t { nothing, top, nearest };

/// What moves 16 MiB after 16 MiB on the same two CPUs meanwhile: a channel, or plain copies.
enum class Beside : std::uint8_t { nothing, stream, copies };

/// One thing to run, and where its subjects may put files.
struct Case {
  std::string name;
  Bytes bytes = 0;
  std::string directory;
  std::vector<Bytes> segments{};  ///< What the payload is made of; together `bytes`. Never empty.
  unsigned in_flight = 1;         ///< Messages that may be unanswered at once.
  unsigned readers = 1;           ///< Responders; every message goes to each of them.
  bool times_send = false;        ///< Whether what send() takes is of interest by itself.
  bool keeps_payload = false;     ///< Three words change from trip to trip, not all.
  bool reads = true;              ///< False: readers answer with the length, not with the sum.
  bool computes = false;          ///< The requester has work to do until the sums come.
  bool is_typed = false;          ///< The sum is of what the payload becomes, not of itself.
  Asked asked = Asked::nothing;   ///< Otherwise the sum is of the answer.
  Beside beside = Beside::nothing;
  std::chrono::microseconds pause{0};  ///< Before each trip, asleep.
  bool crowded = false;  ///< More processes than CPUs: who polls lets others run, too.

  [[nodiscard]] Bytes largest_segment() const noexcept;
};

/// The parts of a message of this case that lies at `bytes`.
[[nodiscard]] std::vector<ConstByteSpan> parts_of(const Case& what, ConstByteSpan bytes);

/// The asking end of a subject, in a process of its own.
class Requester {
 public:
  virtual ~Requester() = default;
  /// What is done before each trip and is not part of it. Not called with several in flight.
  virtual Result<void> prepare(const Payload&) { return {}; }
  /// Timed: hands the payload over, to all readers. It is left alone until receive() has given
  /// all their sums. With several in flight this may return before the message has gone.
  virtual Result<void> send(const Payload& payload) = 0;
  /// Timed: the sum of the oldest message that has not got one from each reader yet.
  virtual Result<std::uint64_t> receive() = 0;
  /// What the sum has to be; asked outside of what is timed.
  [[nodiscard]] virtual std::uint64_t expected(const Payload& payload) const {
    return payload.checksum();
  }
  /// The same without waiting; nothing: it has not come. For SubjectKind::sends_behind.
  virtual Result<std::optional<std::uint64_t>> look() { return receive(); }
  /// Processes whose CPU time counts as this subject's, besides those of the two ends.
  [[nodiscard]] virtual std::vector<int> helpers() const { return {}; }
};

/// An answering end of a subject, in a process of its own.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Waits for one request, reads it whole, lets its memory go and gives its checksum.
  virtual Result<std::uint64_t> receive() = 0;
  /// Sends that sum back.
  virtual Result<void> reply(std::uint64_t sum) = 0;
};

/// Which end a process is.
struct Post {
  static constexpr int kAsks = -1;
  int reader = kAsks;  ///< Otherwise the number of a responder, from 0.
  int cpu = 0;
  [[nodiscard]] bool asks() const noexcept { return reader == kAsks; }
};

/// What the ends share before they are forked: it is made in the parent, each end is opened in
/// its child, and the parent drops it then.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Result<std::unique_ptr<Requester>> open_requester() = 0;
  virtual Result<std::unique_ptr<Responder>> open_responder(int reader) = 0;

  /// For ends that are not opened by fork alone: called first in the child, makes the process that
  /// is at the other end of `link` what it has to be, and does not come back then.
  virtual Result<void> become(const Post&, int /*link*/) { return {}; }
  /// What the parent keeps as long as the ends live: helper processes, names to remove.
  [[nodiscard]] virtual std::shared_ptr<void> company() const { return nullptr; }
};

/// A way of moving a message, as the harness lists it.
struct SubjectKind {
  std::string name;
  std::function<Result<std::unique_ptr<Subject>>(const Case&)> make;
  unsigned buffers = 2;       ///< Of the message's size, in all its processes, with one reader.
  bool has_responder = true;  ///< False: one process does it all.
  bool carries_bytes = true;  ///< False: only its latency means something.
  bool is_peer = false;       ///< Somebody else's: where it does not work, it is left out.
  bool hands_over = false;    ///< What is there already, without a copy.
  bool is_typed = false;      ///< For typed cases, and for no others.
  bool decides = false;       ///< For cases in which something is asked, and for no others.
  bool sends_behind = false;  ///< send() comes back while the message is still to be copied.
  unsigned most_in_flight = 1;
  unsigned most_readers = 1;
  Bytes most_bytes = ~Bytes{0};

  /// Whether it can be part of this case at all.
  [[nodiscard]] bool takes(const Case& what) const noexcept {
    return what.in_flight <= most_in_flight && what.readers <= most_readers &&
           what.bytes <= most_bytes && (what.reads || hands_over) &&
           (!what.computes || sends_behind) &&
           (!has_responder ||
            (what.is_typed == is_typed && (what.asked != Asked::nothing) == decides));
  }
};

}  // namespace gantry::bench
