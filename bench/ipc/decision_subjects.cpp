// fp32 about which the reader only decides: by planes, or by reading all of it.

#include <cstring>
#include <gantry/gantry.hpp>

#include "../support/system/posix.hpp"
#include "decision_data.hpp"
#include "gantry_ends.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kRequests = "requests";
constexpr const char* kReplies = "replies";
constexpr std::chrono::seconds kMeeting{30};    // both ends are being started; more is a fault
constexpr Bytes kLookAgain = Bytes{256} << 10;  // bytes that land between two looks of a scan

struct Way {
  bool in_planes;  ///< The sender makes them in its copy; else the reader scans.
  SendMode mode;
};

class DecisionRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(const std::string& directory, const Case& what,
                                                 Way way) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    const DecisionData data(what);
    auto plan = ReshapePlan::to_planes(data.tensor(), data.elements().planes);
    if (!plan) return Unexpected(plan.error());
    auto out = runtime->producer(kRequests, {end_options(), {}});
    if (!out) return Unexpected(out.error());
    auto in = runtime->consumer(kReplies, {end_options()}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    auto met = out->wait_for_consumer(Deadline::after(kMeeting));
    if (!met) return Unexpected(met.error());
    return std::unique_ptr<Requester>(new DecisionRequester(
        std::move(*runtime), std::move(*out), std::move(*in), std::move(*plan), what, way));
  }

  // The numbers are written anew, as any that were just computed, and a scan of its own says what
  // the answer has to be.
  Result<void> prepare(const Payload& payload) override {
    auto* const numbers = reinterpret_cast<float*>(numbers_.bytes().data());
    data_.make(numbers, payload.bytes());
    DecisionData::Scan scan(data_);
    scan.look({numbers, numbers_.bytes().size() / sizeof(float)});
    expected_ = sum_of(scan.answer());
    return {};
  }
  [[nodiscard]] std::uint64_t expected(const Payload&) const override { return expected_; }

  Result<void> send(const Payload&) override {
    const SendOptions options{.mode = way_.mode};
    if (!way_.in_planes) return out_.send(numbers_.bytes(), options);
    return out_.send(Draft().copy(numbers_.bytes(), data_.tensor()).as(plan_), options);
  }

  Result<std::uint64_t> receive() override {
    const auto reply = in_.receive();
    if (!reply) return Unexpected(reply.error());
    std::uint64_t sum = 0;
    std::memcpy(&sum, reply->bytes().data(), std::min(reply->bytes().size(), sizeof sum));
    return sum;
  }

 private:
  DecisionRequester(Runtime runtime, Producer out, Consumer in, ReshapePlan plan, const Case& what,
                    Way way)
      : runtime_(std::move(runtime)),
        out_(std::move(out)),
        in_(std::move(in)),
        data_(what),
        plan_(std::move(plan)),
        numbers_(what.bytes),
        way_(way) {}

  Runtime runtime_;
  Producer out_;
  Consumer in_;
  DecisionData data_;
  ReshapePlan plan_;
  Buffer numbers_;
  std::uint64_t expected_ = 0;
  Way way_;
};

class DecisionResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(const std::string& directory, const Case& what,
                                                 Way way) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    auto out = runtime->producer(kReplies, {end_options(), {}});
    if (!out) return Unexpected(out.error());
    auto in = runtime->consumer(kRequests, {end_options()}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    return std::unique_ptr<Responder>(
        new DecisionResponder(std::move(*runtime), std::move(*out), std::move(*in), what, way));
  }

  Result<std::uint64_t> receive() override {
    auto incoming = in_.receive_early();
    if (!incoming) return Unexpected(incoming.error());
    return way_.in_planes ? decide_about(*incoming) : scan(*incoming);
  }

  Result<void> reply(std::uint64_t sum) override {
    return out_.send(std::as_bytes(std::span(&sum, 1)));
  }

 private:
  DecisionResponder(Runtime runtime, Producer out, Consumer in, const Case& what, Way way)
      : runtime_(std::move(runtime)),
        out_(std::move(out)),
        in_(std::move(in)),
        data_(what),
        question_(data_.question()),
        way_(way) {}

  // What is left of the message is given back unread.
  Result<std::uint64_t> decide_about(Incoming& incoming) const {
    const auto decided =
        decide(incoming, data_.elements(), question_, {.bounds = BoundsUse::trusted});
    if (!decided) return Unexpected(decided.error());
    return decided->proven ? sum_of(decided->indices) : 0;
  }

  Result<std::uint64_t> scan(Incoming& incoming) const {
    DecisionData::Scan scan(data_);
    for (Bytes there = 0; there < incoming.size();) {
      const auto landed = incoming.wait_for(std::min(there + kLookAgain, incoming.size()));
      if (!landed) return Unexpected(landed.error());
      there = landed->size();
      scan.look({reinterpret_cast<const float*>(landed->data()), there / sizeof(float)});
    }
    return sum_of(scan.answer());
  }

  Runtime runtime_;
  Producer out_;
  Consumer in_;
  DecisionData data_;
  Decision question_;
  Way way_;
};

class DecisionSubject final : public Subject {
 public:
  DecisionSubject(std::string directory, Case what, Way way)
      : directory_(std::move(directory)), what_(std::move(what)), way_(way) {}
  Result<std::unique_ptr<Requester>> open_requester() override {
    return DecisionRequester::open(directory_, what_, way_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return DecisionResponder::open(directory_, what_, way_);
  }

 private:
  std::string directory_;
  Case what_;
  Way way_;
};

SubjectKind kind(std::string name, Way way) {
  const auto make = [way](const Case& what) -> Result<std::unique_ptr<Subject>> {
    std::string directory = what.directory + "/XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr) return Unexpected(system_error(directory));
    return std::make_unique<DecisionSubject>(std::move(directory), what, way);
  };
  SubjectKind made;
  made.name = std::move(name);
  made.make = make;
  made.buffers = 3;
  made.decides = true;
  return made;
}

}  // namespace

std::vector<SubjectKind> decision_subjects() {
  return {kind(kDecideWholeName, {true, SendMode::whole}),
          kind(kDecidePipelinedName, {true, SendMode::pipelined}),
          kind("send-then-scan/whole", {false, SendMode::whole}),
          kind("send-then-scan/pipelined", {false, SendMode::pipelined})};
}

}  // namespace gantry::bench
