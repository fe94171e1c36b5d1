#pragma once  // tests/support/dsa/model_operations.hpp: what each operation of the device does to
              // memory.

#include <array>
#include <optional>
#include <vector>

#include "device/dsa/descriptor.hpp"
#include "support/dsa/model_memory.hpp"

namespace gantry::dsa {

/// One of the ranges that an operation reads or writes.
struct Operand {
  Address address = 0;
  bool written = false;
};
/// In the order source, destination; `count` of them are there.
struct Operands {
  std::array<Operand, 2> all{};
  std::size_t count = 0;
};
[[nodiscard]] Operands operands_of(const Descriptor& descriptor) noexcept;

/// Where an operation is made to stop as if a page were missing.
struct Stop {
  Bytes after = 0;  ///< Bytes done before; an operation shorter than that stops before its last.
  Operand at;
};

struct Executed {
  Bytes bytes = 0;                 ///< Done.
  std::uint8_t result = 0;         ///< As in the record.
  std::optional<Operand> fault{};  ///< With the address that faulted.
};

/// Executes checked descriptors one at a time, in the calling thread. Owns its working memory.
class Operations {
 public:
  Operations();
  [[nodiscard]] Executed execute(const Descriptor& descriptor, const std::optional<Stop>& stop);

 private:
  Executed run(const Descriptor& descriptor, Bytes bytes);
  Executed move(Address destination, Address source, Bytes bytes);
  Executed move_forward(Address destination, Address source, Bytes bytes);
  Executed move_backward(Address destination, Address source, Bytes bytes);
  Executed fill(Address destination, std::uint64_t pattern, Bytes bytes);

  std::vector<std::byte> piece_;
};

}  // namespace gantry::dsa
