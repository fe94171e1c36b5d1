#pragma once  // link/fabric/endpoint.hpp: one connection of libfabric, from nothing to its end.

#include <gantry/types.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct fi_info;
struct fid;
struct fid_cq;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_fabric;
struct fid_pep;

namespace gantry {

/// Opens, listens, connects or accepts, reads. Never waits. Not in a fork's copy.
class FabricEndpoint {
 public:
  enum class Phase : std::uint8_t { listening, connecting, connected, lost };
  /// Where the far end's memory lies, as its provider counts.
  struct RemoteMemory {
    std::uint64_t key = 0;
    std::uint64_t base = 0;
    Bytes bytes = 0;
  };
  enum class Posted : std::uint8_t { yes, full, lost };
  struct Ended {
    void* context = nullptr;
    bool is_well = false;
  };

  FabricEndpoint();
  ~FabricEndpoint();
  FabricEndpoint(const FabricEndpoint&) = delete;
  FabricEndpoint& operator=(const FabricEndpoint&) = delete;

  /// Errors: `unsupported`, `system`.
  [[nodiscard]] Result<void> open(const std::string& provider, const std::string& local_address);
  /// What the far end needs to connect: an address and a secret.
  [[nodiscard]] std::vector<std::byte> invitation() const;
  /// The far end's invitation. Errors: `peer_misbehaved`, `system`.
  [[nodiscard]] Result<void> meet(ConstByteSpan invitation);

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] std::vector<int> descriptors() const;
  /// True: the descriptors say when there is work.
  [[nodiscard]] bool may_sleep() const noexcept;
  [[nodiscard]] fid_domain* domain() const noexcept { return domain_; }
  [[nodiscard]] bool has_virtual_addresses() const noexcept;

  /// `context` comes back by poll(). The memory must stay until then, or until close().
  [[nodiscard]] Posted read(ByteSpan into, const RemoteMemory& from, Bytes offset, void* context);
  /// Gets on with connecting and with reads. Returns how many of `ended` it filled.
  [[nodiscard]] std::size_t poll(std::span<Ended> ended);
  /// When it returns no read writes memory any more.
  void close() noexcept;

 private:
  [[nodiscard]] Result<void> find_provider(const std::string& provider, const std::string& address);
  [[nodiscard]] Result<void> make_endpoint(fi_info* info);
  void take_events();
  void take_request(fi_info* info, ConstByteSpan secret);
  void lose() noexcept { phase_ = Phase::lost; }

  Phase phase_ = Phase::listening;
  std::uint64_t secret_ = 0;
  std::uint64_t its_secret_ = 0;  // 0: not met
  std::vector<std::byte> address_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_eq* events_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* completions_ = nullptr;
  fid_pep* listener_ = nullptr;
  fid_ep* endpoint_ = nullptr;
};

}  // namespace gantry
