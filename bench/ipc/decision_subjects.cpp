// fp32 about which the reader only decides: by planes, or by reading all of it.

#include <cstring>
#include <gantry/gantry.hpp>

#include "decision_data.hpp"
#include "gantry_ends.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kLookAgain = Bytes{256} << 10;  // bytes that land between two looks of a scan

struct Way {
  bool in_planes;  ///< The sender makes them in its copy; else the reader scans.
  SendMode mode;
};

class DecisionRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(const std::string& directory, const Case& what,
                                                 Way way) {
    auto ends = EndsThereAndBack::for_requester(directory);
    if (!ends) return Unexpected(ends.error());
    const DecisionData data(what);
    auto plan = ReshapePlan::to_planes(data.tensor(), data.elements().planes);
    if (!plan) return Unexpected(plan.error());
    return std::unique_ptr<Requester>(
        new DecisionRequester(std::move(*ends), std::move(*plan), what, way));
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
    if (!way_.in_planes) return ends_.out.send(numbers_.bytes(), options);
    return ends_.out.send(Draft().copy(numbers_.bytes(), data_.tensor()).as(plan_), options);
  }

  Result<std::uint64_t> receive() override { return ends_.receive_sum(); }

 private:
  DecisionRequester(EndsThereAndBack ends, ReshapePlan plan, const Case& what, Way way)
      : ends_(std::move(ends)),
        data_(what),
        plan_(std::move(plan)),
        numbers_(what.bytes),
        way_(way) {}

  EndsThereAndBack ends_;
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
    auto ends = EndsThereAndBack::for_responder(directory);
    if (!ends) return Unexpected(ends.error());
    return std::unique_ptr<Responder>(new DecisionResponder(std::move(*ends), what, way));
  }

  Result<std::uint64_t> receive() override {
    auto incoming = ends_.in.receive_early();
    if (!incoming) return Unexpected(incoming.error());
    return way_.in_planes ? decide_about(*incoming) : scan(*incoming);
  }

  Result<void> reply(std::uint64_t sum) override { return ends_.send_sum(sum); }

 private:
  DecisionResponder(EndsThereAndBack ends, const Case& what, Way way)
      : ends_(std::move(ends)), data_(what), question_(data_.question()), way_(way) {}

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

  EndsThereAndBack ends_;
  DecisionData data_;
  Decision question_;
  Way way_;
};

SubjectKind kind(std::string name, Way way) {
  SubjectKind made =
      SubjectOfWays<DecisionRequester, DecisionResponder, Way>::kind(std::move(name), way);
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
