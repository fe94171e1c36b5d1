#pragma once  // tests/support/dsa/model_faults.hpp: what is to go wrong in a device model, and
              // when.

#include <cstdint>
#include <deque>
#include <optional>
#include <random>

#include "support/dsa/model_operations.hpp"

namespace gantry::dsa {

/// A page fault in the first operation on memory after `skip` others. From the front; from the tail
/// where the device must work that way, in a copy to a higher address that overlaps its source.
struct PageFault {
  enum class Side { source, destination };
  Bytes after = 0;           ///< Bytes done before it.
  Side side = Side::source;  ///< The nearest that the operation has.
  unsigned skip = 0;
};

/// Each is the probability per occasion, from 0 to 1.
struct RandomFaults {
  std::uint64_t seed = 1;
  double page_fault = 0;   ///< Per operation on memory, at any byte and on any side.
  double batch_fault = 0;  ///< Per batch, at any of its descriptors.
  double refusal = 0;      ///< Per submission: the queue is full.
};

/// A plain value; its model guards it.
class FaultScript {
 public:
  void add(const PageFault& fault) { page_faults_.push_back(fault); }
  void fault_next_batch(std::uint32_t completed) { batch_faults_.push_back(completed); }
  void refuse_next(unsigned submissions, unsigned after);
  void randomly(const RandomFaults& faults);

  /// Each is asked once per occasion, and moves on.
  [[nodiscard]] bool refuses();
  [[nodiscard]] std::optional<Stop> stop_for(const Descriptor& descriptor);
  /// How many descriptors of the list can be read before the fault.
  [[nodiscard]] std::optional<std::uint32_t> batch_fault(std::uint32_t descriptors);

 private:
  bool happens(double probability);
  Bytes below(Bytes limit);

  std::deque<PageFault> page_faults_;
  std::deque<std::uint32_t> batch_faults_;
  unsigned accept_first_ = 0;
  unsigned refuse_ = 0;
  RandomFaults random_;
  std::mt19937_64 dice_{1};
};

}  // namespace gantry::dsa
