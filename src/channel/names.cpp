#include <gantry/channel.hpp>

namespace gantry {

std::string_view to_string(Mode mode) noexcept {
  switch (mode) {
    case Mode::automatic:
      return "automatic";
    case Mode::whole:
      return "whole";
    case Mode::pipelined:
      return "pipelined";
    case Mode::streamed:
      return "streamed";
    case Mode::immutable:
      return "immutable";
  }
  return "?";
}

std::string_view to_string(SlowReader policy) noexcept {
  switch (policy) {
    case SlowReader::block:
      return "block";
    case SlowReader::drop_newest:
      return "drop_newest";
    case SlowReader::disconnect:
      return "disconnect";
    case SlowReader::drop_oldest:
      return "drop_oldest";
  }
  return "?";
}

}  // namespace gantry
