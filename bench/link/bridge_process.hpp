#pragma once  // bench/link/bridge_process.hpp: the bridge of a host, in a process of its own.

#include "../support/process/child.hpp"
#include "network.hpp"

namespace gantry::bench {

/// A bridge on the asking host, to the channels in one folder. Ends when it is dropped.
class BridgeProcess {
 public:
  /// It runs on that CPU and listens before this returns. `scheme`: "tls:", or nothing.
  [[nodiscard]] static Result<BridgeProcess> start(const Network& network, std::string directory,
                                                   int cpu, const char* scheme);

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const std::string& token() const noexcept { return token_; }
  [[nodiscard]] int pid() const noexcept { return process_.pid(); }

 private:
  BridgeProcess(Child process, std::string address, std::string token)
      : process_(std::move(process)), address_(std::move(address)), token_(std::move(token)) {}

  Child process_;
  std::string address_;  // HOST:PORT
  std::string token_;
};

}  // namespace gantry::bench
