#include <algorithm>

#include "base/result.hpp"
#include "decision/decide.hpp"

namespace gantry {
namespace {

class Landing final : public decision::PlaneSource {
 public:
  Landing(Incoming& incoming, Deadline deadline) noexcept
      : incoming_(incoming), deadline_(deadline) {}

  Result<ConstByteSpan> through(Bytes end) override {
    return incoming_.wait_for(std::max(end, incoming_.landed()), deadline_);
  }

 private:
  Incoming& incoming_;
  Deadline deadline_;
};

}  // namespace

Result<Decided> decide(Incoming& incoming, const PlanedElements& elements, const Decision& question,
                       const DecideOptions& options) {
  return guarded([&]() -> Result<Decided> {
    GANTRY_ASSIGN(const shape::PlaneLayout layout, decision::layout_of(elements));
    GANTRY_TRY(decision::check(question.parts(), layout.count()));
    if (incoming.size() != layout.bytes())
      return fail(
          Code::invalid_argument,
          fmt::format("planes: a message of {} bytes, and {} elements of {} have {}",
                      incoming.size(), layout.count(), to_string(elements.type), layout.bytes()),
          "give PlanedElements as the planes were made");
    Landing landing(incoming, options.deadline);
    return decision::decide_from(landing, layout, question.parts(), options);
  });
}

}  // namespace gantry
