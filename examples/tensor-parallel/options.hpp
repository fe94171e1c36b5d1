#pragma once  // options.hpp: the command line.

#include <cstdint>
#include <gantry/group.hpp>
#include <string>
#include <variant>
#include <vector>

namespace tensor_parallel {

/// X is rows x hidden, the weights of the layers are hidden x inner and inner x hidden.
struct Sides {
  std::int64_t rows = 256;
  std::int64_t hidden = 1024;
  std::int64_t inner = 4096;
};

enum class Activation : std::uint8_t { relu, gelu };

struct Options {
  gantry::GroupOptions group{};  ///< Of --rank, or of `gantry run`.
  Sides sides{};
  bool chooses = true;  ///< Otherwise the serial schedule alone.
  Activation activation = Activation::relu;
  unsigned turns = 15;  ///< Of each schedule.
};

/// Answers --help and what is wrong (one line on standard error); then it is an exit status.
[[nodiscard]] std::variant<Options, int> parse_options(int argc, const char* const* argv);

}  // namespace tensor_parallel
