#include <gantry/channel.hpp>

namespace gantry {

std::string_view to_string(SendMode mode) noexcept {
  switch (mode) {
    case SendMode::automatic:
      return "automatic";
    case SendMode::whole:
      return "whole";
    case SendMode::pipelined:
      return "pipelined";
    case SendMode::streamed:
      return "streamed";
    case SendMode::immutable:
      return "immutable";
  }
  return "?";
}

std::string_view to_string(RemotePath path) noexcept {
  switch (path) {
    case RemotePath::automatic:
      return "automatic";
    case RemotePath::stream:
      return "stream";
    case RemotePath::fabric:
      return "fabric";
    case RemotePath::shared:
      return "shared";
  }
  return "?";
}

std::string_view to_string(SlowConsumer policy) noexcept {
  switch (policy) {
    case SlowConsumer::block:
      return "block";
    case SlowConsumer::drop_newest:
      return "drop_newest";
    case SlowConsumer::disconnect:
      return "disconnect";
    case SlowConsumer::drop_oldest:
      return "drop_oldest";
  }
  return "?";
}

}  // namespace gantry
