// Gantry itself: the request over one channel, its checksum back over others.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <gantry/gantry.hpp>
#include <gantry/runtime.hpp>
#include <thread>

#include "../support/system/cpus.hpp"
#include "../support/system/posix.hpp"
#include "gantry_ends.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kRequests = "requests";
constexpr std::chrono::seconds kMeeting{30};  // all ends are being started; more is a fault
constexpr unsigned kMostInFlight = 4;
constexpr unsigned kMostReaders = 4;

enum class Way { sync, look, async, pipelined, streamed, loan, move, traced };

constexpr SendMode mode_of(Way way) {
  return way == Way::pipelined  ? SendMode::pipelined
         : way == Way::streamed ? SendMode::streamed
                                : SendMode::whole;
}

/// CPUs on which neither end is bound, for what is sent behind the requester's back; none if there
/// are no more. To be asked before this process is bound itself.
std::vector<int> spare_cpus() {
  const auto pair = pick_cpus();
  const auto allowed = allowed_cpus();
  std::vector<int> spare;
  if (!pair || !allowed) return spare;
  std::copy_if(allowed->begin(), allowed->end(), std::back_inserter(spare),
               [&](int cpu) { return cpu != pair->requester && cpu != pair->responder; });
  return spare;
}

std::string replies_of(int reader) {
  return fmt::format("replies-{}", reader);
}

Result<std::uint64_t> receive_sum(Consumer& replies, Deadline deadline = Deadline::never()) {
  const auto reply = replies.receive(deadline);
  if (!reply) return Unexpected(reply.error());
  std::uint64_t sum = 0;
  if (reply->bytes().size() != sizeof sum) {
    return Unexpected({Code::peer_misbehaved,
                       fmt::format("reply: {} bytes instead of a checksum", reply->bytes().size()),
                       ""});
  }
  std::memcpy(&sum, reply->bytes().data(), sizeof sum);
  return sum;
}

/// Has everything in the directory recorded for as long as it lives.
class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> start(const std::string& directory) {
    auto recording = trace::Recording::start({directory});
    if (!recording) return Unexpected(recording.error());
    return std::make_unique<Recorder>(std::move(*recording));
  }
  explicit Recorder(trace::Recording recording) : recording_(std::move(recording)) {}

 private:
  void keep_up(const std::stop_token& stop) {
    while (!stop.stop_requested() && recording_.keep_up())
      std::this_thread::sleep_for(trace::Recording::kPatience / 20);
  }

  trace::Recording recording_;
  std::jthread thread_{[this](const std::stop_token& stop) { keep_up(stop); }};
};

/// The asking end: it sends over one channel, and each reader answers over one of its own.
class GantryRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(const std::string& directory, const Case& what,
                                                 Way way, const std::vector<int>& spare) {
    std::unique_ptr<Recorder> recorder;
    if (way == Way::traced) {
      auto started = Recorder::start(directory);
      if (!started) return Unexpected(started.error());
      recorder = std::move(*started);
    }
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    ProducerOptions options{end_options(), {}};
    options.consumers = what.readers;
    options.progress_cpus = spare;
    auto out = runtime->producer(kRequests, options);
    if (!out) return Unexpected(out.error());
    std::vector<Consumer> replies;
    for (unsigned reader = 0; reader < what.readers; ++reader) {
      auto in = runtime->consumer(replies_of(static_cast<int>(reader)), {end_options()},
                                  Deadline::after(kMeeting));
      if (!in) return Unexpected(in.error());
      replies.push_back(std::move(*in));
    }
    auto met = out->wait_for_consumer(Deadline::after(kMeeting), what.readers);
    if (!met) return Unexpected(met.error());
    auto made = std::unique_ptr<GantryRequester>(
        new GantryRequester(std::move(*runtime), std::move(*out), std::move(replies), what, way));
    made->recorder_ = std::move(recorder);
    return std::unique_ptr<Requester>(std::move(made));
  }

  Result<void> prepare(const Payload& payload) override {
    const ConstByteSpan bytes = payload.bytes();
    if (way_ == Way::loan) {
      auto loan = out_.loan(bytes.size());
      if (!loan) return Unexpected(loan.error());
      loan_ = std::move(*loan);
      if (what_.reads) std::memcpy(loan_.bytes().data(), bytes.data(), bytes.size());
    } else if (way_ == Way::move) {
      auto block = out_.pool().allocate(bytes.size());
      if (!block) return Unexpected(block.error());
      block_ = std::move(*block);
      if (what_.reads) std::memcpy(block_.bytes().data(), bytes.data(), bytes.size());
    }
    return {};
  }

  Result<void> send(const Payload& payload) override {
    if (way_ == Way::loan) return out_.publish(std::move(loan_));
    if (way_ == Way::move) return out_.send(std::move(block_));
    const SendOptions options{.mode = mode_of(way_)};
    if (way_ == Way::async) return send_behind(payload, options);
    if (what_.segments.size() == 1) return out_.send(payload.bytes(), options);
    return out_.send(draft_of(payload), options);
  }

  Result<std::uint64_t> receive() override {
    auto sum = receive_sum(replies_[reader_]);
    reader_ = (reader_ + 1) % what_.readers;
    return sum && reader_ == 0 ? take_ticket(*sum) : sum;
  }

  Result<std::optional<std::uint64_t>> look() override {
    auto sum = receive_sum(replies_.front(), Deadline::now());
    if (!sum && sum.error().code == Code::timed_out) return std::nullopt;
    if (!sum) return Unexpected(sum.error());
    return take_ticket(*sum);
  }

 private:
  /// The sum has come: its buffer may be changed from now on.
  Result<std::uint64_t> take_ticket(std::uint64_t sum) {
    if (tickets_.empty()) return sum;
    auto sent = out_.wait(tickets_.front());
    tickets_.pop_front();
    if (!sent) return Unexpected(sent.error());
    return sum;
  }

  GantryRequester(Runtime runtime, Producer out, std::vector<Consumer> replies, const Case& what,
                  Way way)
      : runtime_(std::move(runtime)),
        out_(std::move(out)),
        replies_(std::move(replies)),
        what_(what),
        way_(way) {}

  [[nodiscard]] Draft draft_of(const Payload& payload) const {
    Draft draft;
    for (const ConstByteSpan part : parts_of(what_, payload.bytes())) draft.copy(part);
    return draft;
  }

  Result<void> send_behind(const Payload& payload, const SendOptions& options) {
    auto ticket = what_.segments.size() == 1 ? out_.send_async(payload.bytes(), options)
                                             : out_.send_async(draft_of(payload), options);
    if (!ticket) return Unexpected(ticket.error());
    tickets_.push_back(*ticket);
    return {};
  }

  std::unique_ptr<Recorder> recorder_;  // null: nobody records
  Runtime runtime_;
  Producer out_;
  std::vector<Consumer> replies_;
  Case what_;
  Way way_;
  Loan loan_;
  Block block_;
  std::deque<Ticket> tickets_;
  unsigned reader_ = 0;  // whose answer is next
};

/// The answering end. What is pipelined is read as it lands, everything else in place.
class GantryResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(const std::string& directory, int reader, Way way,
                                                 bool reads) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    auto out = runtime->producer(replies_of(reader), {end_options(), {}});
    if (!out) return Unexpected(out.error());
    auto in = runtime->consumer(kRequests, {end_options()}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    return std::unique_ptr<Responder>(
        new GantryResponder(std::move(*runtime), std::move(*out), std::move(*in), way, reads));
  }

  Result<std::uint64_t> receive() override {
    return way_ == Way::pipelined || way_ == Way::streamed ? sum_as_it_lands(in_) : receive_whole();
  }

  Result<void> reply(std::uint64_t sum) override {
    return out_.send(std::as_bytes(std::span(&sum, 1)));
  }

 private:
  GantryResponder(Runtime runtime, Producer out, Consumer in, Way way, bool reads)
      : runtime_(std::move(runtime)),
        out_(std::move(out)),
        in_(std::move(in)),
        way_(way),
        reads_(reads) {}

  // Segments are of whole words, so that their sums add up.
  Result<std::uint64_t> receive_whole() {
    std::uint64_t sum = 0;
    if (way_ == Way::look) {
      auto looked = in_.look([&](const Message& request) { sum = sum_of(request); });
      if (!looked) return Unexpected(looked.error());
      return sum;
    }
    const auto request = in_.receive();
    if (!request) return Unexpected(request.error());
    return sum_of(*request);
  }

  [[nodiscard]] std::uint64_t sum_of(const Message& request) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < request.segments(); ++i)
      sum += reads_ ? checksum(request.segment(i).bytes) : request.segment(i).bytes.size();
    return sum;
  }

  Runtime runtime_;
  Producer out_;
  Consumer in_;
  Way way_;
  bool reads_;
};

class GantrySubject final : public Subject {
 public:
  GantrySubject(std::string directory, Case what, Way way)
      : directory_(std::move(directory)), what_(std::move(what)), way_(way), spare_(spare_cpus()) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return GantryRequester::open(directory_, what_, way_, spare_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int reader) override {
    return GantryResponder::open(directory_, reader, way_, what_.reads);
  }

 private:
  std::string directory_;
  Case what_;
  Way way_;
  std::vector<int> spare_;
};

/// A subject with a folder of its own for its channels. Each process builds a runtime of its own.
SubjectKind kind(std::string name, Way way, unsigned most_in_flight = kMostInFlight) {
  const auto make = [way](const Case& what) -> Result<std::unique_ptr<Subject>> {
    std::string directory = what.directory + "/XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr) return Unexpected(system_error(directory));
    return std::make_unique<GantrySubject>(std::move(directory), what, way);
  };
  SubjectKind made;
  made.name = std::move(name);
  made.make = make;
  made.most_in_flight = most_in_flight;
  made.most_readers = kMostReaders;
  made.hands_over = way == Way::loan || way == Way::move;
  made.sends_behind = way == Way::async;
  return made;
}

}  // namespace

std::vector<SubjectKind> gantry_subjects() {
  return {kind(kSyncName, Way::sync),
          kind(kLookName, Way::look),
          kind("gantry/async", Way::async),
          kind("gantry/pipelined-whole", Way::pipelined),
          kind("gantry/pipelined-streamed", Way::streamed),
          kind(kLoanName, Way::loan, 1),
          kind("gantry/move", Way::move, 1),
          kind(kTracedName, Way::traced)};
}

}  // namespace gantry::bench
