#pragma once  // link/puller.hpp: payload that takes another way than the socket.

#include <gantry/link.hpp>
#include <vector>

#include "core/base/os/close_elsewhere.hpp"
#include "core/base/os/fd.hpp"
#include "net/link/record.hpp"

namespace gantry {

/// Reads strided ranges of the far end's exported memory into memory of this end. A put is pulled
/// by the end that it goes to, a get by the end that asked: each process writes its own memory
/// only, no key lets anybody write another's, and so un-exporting needs nobody's help. Used under
/// its link's lock.
class Puller {
 public:
  struct Job {
    bool is_put = false;    // of the far end; else a get of this end
    Ticket ticket{};        // of whoever began it
    std::uint64_t key = 0;  // of a put: the export that it writes
    std::optional<std::uint64_t> signal;
    Bytes bytes = 0;
    LinkStatus status = LinkStatus::ok;                // how it ended
    std::chrono::steady_clock::time_point begun = {};  // of a put
  };
  /// Rows within a region that the far end has shared.
  struct Source {
    std::uint64_t key = 0;
    Bytes offset = 0;
    Bytes rows = 0;
    Bytes row_bytes = 0;
    Bytes stride = 0;
  };
  enum class Begun : std::uint8_t {
    yes,
    no,      // not this way: take the socket
    beyond,  // these rows are not within that region
  };

  virtual ~Puller() = default;

  [[nodiscard]] virtual LinkKind kind() const noexcept = 0;
  [[nodiscard]] virtual bool takes_descriptors() const noexcept = 0;
  /// For explain(): "engine thread copies".
  [[nodiscard]] virtual std::string about() const = 0;
  /// Readable when next_ended() has something to do. Only while needs_calls(), asked last, is
  /// false.
  [[nodiscard]] virtual std::vector<int> descriptors() const = 0;
  [[nodiscard]] virtual bool needs_calls() noexcept = 0;
  /// Nothing goes this way any more.
  [[nodiscard]] virtual bool is_lost() const noexcept { return false; }

  /// What the far end's puller must know first; empty: nothing.
  [[nodiscard]] virtual std::vector<std::byte> hello() { return {}; }
  [[nodiscard]] virtual Result<void> take_hello(ConstByteSpan hello) = 0;

  /// Makes memory of this end readable for the far end. Returns what has to be told it, and a
  /// descriptor that goes along; nothing where this memory is not for this way.
  struct Share {
    LinkRecord record;
    Fd descriptor;
  };
  [[nodiscard]] virtual std::optional<Share> share(std::uint64_t key, ByteSpan memory,
                                                   int descriptor) = 0;
  virtual void unshare(std::uint64_t key) noexcept = 0;

  /// What the far end has shared. Errors: `peer_misbehaved`; `system`.
  [[nodiscard]] virtual Result<void> import(const LinkRecord& record, ReceivedFd descriptor) = 0;
  virtual void forget(std::uint64_t key) noexcept = 0;
  [[nodiscard]] virtual bool has(std::uint64_t key) const noexcept = 0;

  /// False: such transfers take the socket, at present or always.
  [[nodiscard]] virtual bool suits(Bytes rows, Bytes row_bytes) const noexcept = 0;
  [[nodiscard]] virtual Begun begin(const Job& job, const RowCursor& to, const Source& source) = 0;
  [[nodiscard]] virtual std::size_t under_way() const noexcept = 0;
  /// Gets on with the jobs. Returns the next one that has ended, in the order of begin().
  [[nodiscard]] virtual std::optional<Job> next_ended() = 0;
  /// Ends the puts to the export `key`. When it returns nothing lands there any more.
  virtual void finish_puts_to(std::uint64_t key) = 0;
  /// When it returns nothing lands anywhere any more.
  virtual void stop() noexcept = 0;
};

}  // namespace gantry
