#pragma once  // bench/memory/fabric_endpoint.hpp: one end of a connection over libfabric.

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <array>

#include "../support/system/posix.hpp"

namespace gantry::bench {

/// What the writing end must know of the other's memory, as it goes over a socket.
struct RemoteMemory {
  std::array<char, 128> address{};  // of the endpoint
  std::uint64_t base = 0;           // what offset 0 is called
  std::uint64_t key = 0;
};

/// An endpoint of the tcp provider on the loopback interface. libfabric is opened by open(): with
/// all it brings along that takes tenths of a second, which other benchmarks need not pay.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  Result<void> open();
  [[nodiscard]] fid_domain* domain() const noexcept { return domain_; }
  /// Where `memory`, registered as `key`, is for the other end.
  [[nodiscard]] Result<RemoteMemory> offer(ByteSpan memory, std::uint64_t key) const;

  Result<void> connect(const RemoteMemory& remote);
  /// Writes to the beginning of the other end's memory; returns when it has arrived.
  Result<void> write(ConstByteSpan bytes, std::uint64_t descriptor);

  /// Lets libfabric work for a moment; how many operations of ours have ended.
  Result<unsigned> progress();

 private:
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_cq* completions_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  RemoteMemory remote_;
  fi_context2 context_{};
};

}  // namespace gantry::bench
