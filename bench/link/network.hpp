#pragma once  // bench/link/network.hpp: two hosts and the wire between them, made on this machine.

#include <array>
#include <string>
#include <vector>

#include "../support/system/posix.hpp"

namespace gantry::bench {

/// Which of the two hosts: the one that sends payload, or the one that reads it.
enum class Host : std::uint8_t { asking, answering };

/// What the wire lets pass.
struct Rate {
  static constexpr std::uint64_t kUnlimited = 0;
  std::string name;  ///< "10G".
  std::uint64_t bits_per_second = kUnlimited;
  [[nodiscard]] bool is_limited() const noexcept { return bits_per_second != kUnlimited; }
};
/// "unlimited", "10G", "500M": bits a second, by powers of 1000. Errors: `invalid_argument`.
[[nodiscard]] Result<Rate> parse_rate(const std::string& text);

/// A connection between both hosts.
struct TcpPair {
  Descriptor asking;
  Descriptor answering;
};

/// Two network namespaces that a pair of veth interfaces joins; or loopback, which stands in for
/// them. The namespaces have no names: they and what is in them end with the processes that are in
/// them, however those end. All calls but enter() leave the calling thread where it was.
class Network {
 public:
  /// Errors: `permission_denied` without the right to make namespaces, `not_found` without `ip`.
  [[nodiscard]] static Result<Network> make_namespaces();
  [[nodiscard]] static Network over_loopback();

  [[nodiscard]] bool is_loopback() const noexcept { return !home_.is_open(); }
  [[nodiscard]] std::string text() const;
  [[nodiscard]] const char* address(Host host) const noexcept;
  [[nodiscard]] const char* interface() const noexcept;  ///< Its name, on either host.
  /// What stands before a program's words so that it runs there; this process outlives its start.
  [[nodiscard]] std::vector<std::string> words_at(Host host) const;

  /// Takes the calling thread, and whom it starts later, to that host for good. Its mounts are its
  /// own then.
  [[nodiscard]] Result<void> enter(Host host) const;
  /// Connects both hosts, with TCP_NODELAY at both ends.
  [[nodiscard]] Result<TcpPair> connect() const;
  /// "192.0.2.1:40000": of that host, with a port that nobody listens on.
  [[nodiscard]] Result<std::string> free_endpoint(Host host) const;
  /// Bytes that the answering host's interface has received since it was made.
  [[nodiscard]] Result<std::uint64_t> received_bytes() const;
  /// Both directions carry no more than that from now on. Errors: `unsupported` over loopback;
  /// those of `tc`.
  [[nodiscard]] Result<void> limit(const Rate& rate) const;

 private:
  Network() = default;
  [[nodiscard]] const Descriptor& space_of(Host host) const noexcept {
    return spaces_[static_cast<std::size_t>(host)];
  }
  [[nodiscard]] std::string path_of(Host host) const;
  [[nodiscard]] Result<void> join_hosts() const;
  [[nodiscard]] Result<void> limit_host(Host host, const Rate& rate) const;

  Descriptor home_;  // the namespace of the benchmark itself; closed: loopback
  std::array<Descriptor, 2> spaces_;
};

}  // namespace gantry::bench
