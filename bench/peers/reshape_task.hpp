#pragma once  // bench/peers/reshape_task.hpp: a conversion, for systems that have names of their
              // own for it. Each is a library that is opened when the benchmark wants it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace gantry::bench {

/// What is made of what. Either floats to numbers of fewer bits, one after another, or pictures
/// (u8, interleaved, blue first) to planes (red first), each value times its channel's scale, plus
/// its offset.
struct ReshapeTask {
  enum class To : std::uint8_t {
    bf16,
    f16,
    i8,  ///< Floats only: times scale[0], to nearest even, saturating.
    f32  ///< Pictures only.
  } to = To::bf16;
  bool pictures = false;
  std::int64_t count = 0;                  ///< Floats, or pictures.
  std::int64_t height = 0, width = 0;      ///< Of a picture.
  std::array<float, 3> scale{}, offset{};  ///< Red, green, blue.
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;

  [[nodiscard]] std::int64_t pixels() const noexcept { return height * width; }
};

/// Does it once; may throw. The task's memory outlives it.
using Reshaping = std::function<void()>;

}  // namespace gantry::bench

extern "C" {
/// Of each such library: makes what does the task, in one thread. False: it cannot, and `why` says
/// so.
using GantryReshapePeer = bool (*)(const gantry::bench::ReshapeTask& task,
                                   const std::string& variant, gantry::bench::Reshaping& made,
                                   std::string& why);
}
inline constexpr const char* kReshapePeer = "gantry_reshape_peer";
