#pragma once  // tests/limits/exchange.hpp: small jobs with channels whose contents are checked.

#include <gantry/gantry.hpp>
#include <string>

namespace gantry::test {

/// A fresh folder for channels, gone with everything in it at the end.
class ChannelFolder {
 public:
  ChannelFolder();
  ~ChannelFolder();
  ChannelFolder(const ChannelFolder&) = delete;
  ChannelFolder& operator=(const ChannelFolder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// Called, where set, before a job drops its channels' ends, however it ended.
inline void (*before_drop)() = nullptr;

/// A producer and a consumer in this process exchange messages of several sizes. `system` for bytes
/// that came wrong, else the error of the call that failed.
[[nodiscard]] Result<void> exchange(Runtime& runtime);
/// The same with a client and a server.
[[nodiscard]] Result<void> call_and_reply(Runtime& runtime);
/// The same with an inbox.
[[nodiscard]] Result<void> deliver(Runtime& runtime);

}  // namespace gantry::test
