#pragma once  // gantry/link.hpp: transfers to and from memory in another address space.

#include <array>
#include <gantry/engine.hpp>
#include <gantry/memory.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

// ---- memory of the far end -----------------------------------------------------------------

/// Permitted accesses of the far end to exported memory.
enum class RemoteAccess : std::uint8_t {
  read = 1,       ///< Gets only.
  write = 2,      ///< Puts only.
  read_write = 3  ///< Gets and puts.
};

/// Exported memory as the far end of the link names it. A plain value, valid until the export ends.
struct GANTRY_API RemoteRegion {
  static constexpr std::size_t kEncodedBytes = 32;  ///< Length of the result of encode().
  /// A region's name as bytes, for sending to the other side by any means.
  using Encoded = std::array<std::byte, kEncodedBytes>;

  std::uint64_t key = 0;                           ///< Unique within a link; never reused.
  Bytes bytes = 0;                                 ///< Size of the exported memory.
  RemoteAccess access = RemoteAccess::read_write;  ///< Accesses that the owner has granted.

  /// Encodes the name; the format is independent of the machine: docs/formats/link.md.
  [[nodiscard]] Encoded encode() const noexcept;
  /// Decodes a result of encode(). Errors: `invalid_argument` for any other bytes.
  [[nodiscard]] static Result<RemoteRegion> decode(ConstByteSpan encoded);

  [[nodiscard]] bool operator==(const RemoteRegion&) const noexcept = default;
};

namespace detail {
/// Ends exports. Private.
class Exporter {
 public:
  Exporter() = default;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;
  virtual ~Exporter() = default;
  virtual void withdraw(std::uint64_t key) noexcept = 0;
};
}  // namespace detail

/// Keeps memory exported over one link for its own lifetime. Move-only. May outlive the link; the
/// memory must outlive the export.
class GANTRY_API Export {
 public:
  Export() noexcept = default;
  Export(Export&& other) noexcept;
  Export& operator=(Export&& other) noexcept;
  ~Export() { withdraw(); }

  /// The name by which the other side reaches the memory.
  [[nodiscard]] const RemoteRegion& remote() const noexcept { return remote_; }
  [[nodiscard]] explicit operator bool() const noexcept { return exporter_ != nullptr; }

  /// Ends the export. After it returns, the far end cannot write to the memory any more. Unfinished
  /// transfers fail at the far end with `not_found`. Does not wait for a peer.
  void withdraw() noexcept;

  // For implementations of Link.
  Export(std::shared_ptr<detail::Exporter> exporter, const RemoteRegion& remote) noexcept
      : exporter_(std::move(exporter)), remote_(remote) {}

 private:
  std::shared_ptr<detail::Exporter> exporter_;
  RemoteRegion remote_;
};

// ---- transfers -----------------------------------------------------------------------------

/// `rows` rows of `row_bytes` each, between local memory and exported memory of the far end. The
/// two sides may have different strides between rows. A plain value.
struct GANTRY_API Transfer {
  std::byte* local = nullptr;  ///< First row. A put only reads it.
  RemoteRegion remote = {};    ///< Exported memory, as named by the far end.
  Bytes remote_offset = 0;  ///< Offset of the first row from the beginning of the exported memory.
  Bytes rows = 1;
  Bytes row_bytes = 0;
  /// Bytes between the starts of rows; at least `row_bytes` if there are several rows.
  Bytes local_stride = 0;
  Bytes remote_stride = 0;  ///< As local_stride, in the exported memory.
  /// Raised at the far end: by a put when all bytes are visible there, by a get when all bytes were
  /// read and may be overwritten. See Link::receive_signal().
  std::optional<std::uint64_t> signal = {};

  /// A transfer of all of `local`, in one piece.
  [[nodiscard]] static Transfer of(ConstByteSpan local, const RemoteRegion& remote,
                                   Bytes remote_offset = 0,
                                   std::optional<std::uint64_t> signal = {}) noexcept;
};

/// How a link reaches the other side's memory.
enum class LinkKind : std::uint8_t {
  stream,  ///< A connected socket; payload is received straight into its place.
  shared,  ///< Both ends run on one kernel: payload in regions is copied once, by an engine.
  fabric,  ///< libfabric: remote memory access by a network card, or its substitute over TCP.
};
[[nodiscard]] GANTRY_API std::string_view to_string(LinkKind kind) noexcept;

/// Abilities and limits of a link.
struct LinkCapabilities {
  /// Transfers make progress even if the far end does not call its link.
  bool one_sided = false;
  /// Local memory must be registered with the link's registrar; for each transfer, the link itself
  /// registers memory that is not registered yet.
  bool needs_registration = false;
  /// At present, payload bypasses the socket if its memory was exported for this purpose.
  bool pulls = false;
  Bytes max_transfer_bytes = 0;   ///< Largest payload of one transfer.
  Bytes max_control_bytes = 0;    ///< Largest size of one control message.
  std::size_t max_transfers = 0;  ///< Limit of transfers in flight; one more fails with `busy`.
  /// Largest number of control messages that the far end has not taken; one more waits.
  std::size_t max_controls = 0;
  /// Largest number of signals that the far end has not taken; one more fails with `busy`.
  std::size_t max_signals = 0;
  std::size_t max_exports = 0;  ///< Limit of this end's exports; one more fails with `busy`.
};

/// How a transfer of a given size would be executed, and why.
struct GANTRY_API LinkExplanation {
  LinkKind kind = LinkKind::stream;      ///< Kind of the link, whichever path the payload takes.
  std::string peer;                      ///< Name of the far end, for people.
  std::chrono::nanoseconds predicted{};  ///< Predicted time, from earlier transfers.
  std::vector<std::string> reasons;      ///< Reasons for the choice; one line each.
  /// The explanation for people, several lines.
  [[nodiscard]] std::string text() const;
};

/// Counters of a link since it was opened.
struct LinkReport {
  std::uint64_t puts = 0;          ///< Puts of this end that succeeded.
  std::uint64_t gets = 0;          ///< Gets of this end that succeeded.
  std::uint64_t failed = 0;        ///< Puts and gets of this end that failed.
  std::uint64_t put_bytes = 0;     ///< Payload bytes of `puts`.
  std::uint64_t got_bytes = 0;     ///< Payload bytes of `gets`.
  std::uint64_t landed_bytes = 0;  ///< Bytes written here by puts of the far end.
  std::uint64_t served_bytes = 0;  ///< Bytes read here by gets of the far end.
  std::uint64_t pulled_bytes =
      0;  ///< Bytes copied without the socket; included in the counters above.
};

/// A connection between two ends, each of which exports memory to the other. Any thread may call
/// every member. A link does not have a thread: progress happens inside poll() and the calls that
/// wait. An end that does not call these functions delays the far end, and counts as dead after the
/// stall limit unless the link is one-sided.
///
/// Transfers begin in the order of their tickets and may run at the same time: wait for one to end
/// before another writes the same bytes. Control messages arrive in order and may overtake
/// transfers; signals are raised in the order of the puts.
///
/// When the far end is gone, every transfer in flight fails, and every call reports the reason.
/// Control messages and signals that had arrived are returned first. The far end is not trusted: it
/// reaches only exported memory, and if it breaks the protocol the link ends with
/// `peer_misbehaved`.
class GANTRY_API Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// As close(); also ends all exports.
  virtual ~Link() = default;

  /// How the link reaches the other side.
  [[nodiscard]] virtual LinkKind kind() const noexcept = 0;
  /// Name of the far end in errors.
  [[nodiscard]] virtual const std::string& peer() const noexcept = 0;
  /// Abilities and limits of the link.
  [[nodiscard]] virtual LinkCapabilities capabilities() const noexcept = 0;
  /// Cost learned from this link's transfers; before the first one, a typical value.
  [[nodiscard]] virtual Cost cost() const = 0;
  /// How the link would execute the transfer, and why.
  [[nodiscard]] virtual LinkExplanation explain(const Transfer& transfer) const = 0;
  /// Counters so far.
  [[nodiscard]] virtual LinkReport report() const = 0;

  // ---- exports
  /// Exports memory. Errors: `invalid_argument` for empty memory; `busy` when there are too many
  /// exports; the error that ended the link.
  [[nodiscard]] virtual Result<Export> export_memory(ByteSpan memory, RemoteAccess access) = 0;
  /// Exports a whole region. A shared link passes the region's descriptor to the far end, which
  /// maps it read-only and copies from it: the far end's gets, and this end's puts *out of* the
  /// region, become faster.
  [[nodiscard]] virtual Result<Export> export_region(const Region& region, RemoteAccess access) = 0;

  // ---- transfers
  /// Begins a transfer and returns at once. Local memory must stay valid until the ticket has
  /// ended: the source of a put must not change, the destination of a get must not be used. Errors:
  /// `invalid_argument` (null memory, strides below `row_bytes`, a range beyond the remote region,
  /// an access that its owner has not granted), `too_large`, `busy`, the error that ended the link.
  [[nodiscard]] virtual Result<Ticket> put(const Transfer& transfer) = 0;
  /// Copies remote bytes to local memory; otherwise as put().
  [[nodiscard]] virtual Result<Ticket> get(const Transfer& transfer) = 0;

  /// `done`: the bytes are visible at their destination. Only the latest 1024 failures are kept.
  [[nodiscard]] virtual Outcome outcome(Ticket ticket) const = 0;
  /// Waits for one transfer. Errors: `timed_out` (the transfer continues and may be awaited again),
  /// `not_found` (the export ended first), `system` (memory at either end cannot be accessed),
  /// `invalid_argument` for an unknown ticket, the error that ended the link.
  [[nodiscard]] virtual Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never()) = 0;

  // ---- messages
  /// Sends a control message of at least one byte. Waits until the far end has room for it. Errors:
  /// `too_large`, `invalid_argument`, `timed_out`, the error that ended the link.
  [[nodiscard]] virtual Result<void> send_control(ConstByteSpan message,
                                                  Deadline deadline = Deadline::never()) = 0;
  /// Waits for the next control message, copies it to `into` and returns its size. Errors:
  /// `too_large` (the message remains the next one), `timed_out`, the error that ended the link.
  [[nodiscard]] virtual Result<Bytes> receive_control(ByteSpan into,
                                                      Deadline deadline = Deadline::never()) = 0;
  /// Waits for the next signal that the far end has raised. Errors: `timed_out`, the error that
  /// ended the link.
  [[nodiscard]] virtual Result<std::uint64_t> receive_signal(
      Deadline deadline = Deadline::never()) = 0;

  // ---- progress
  /// Does bounded work in the calling thread. True if this call, or any other since the last
  /// poll(), made progress: a loop should then call poll() again, and check the functions above for
  /// results, before it sleeps on the descriptor.
  virtual bool poll() = 0;
  /// A descriptor for loops on poll() or epoll; readable when poll() has work. Also call poll()
  /// several times within the stall limit. Input that another thread's call takes does not wake a
  /// loop that sleeps on the descriptor: with such a loop, let only one thread call the link. The
  /// link owns the descriptor.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;

  /// Success while the link works; otherwise the error that ended it.
  [[nodiscard]] virtual Result<void> state() const = 0;
  /// Ends the link. When close() has returned, each transfer has ended: unfinished ones have
  /// failed. The far end sees `closed`. Does not wait for a peer.
  virtual void close() noexcept = 0;
};

/// Limits and names of a link.
struct LinkOptions {
  /// Name of the peer in errors: "host-b:4711". Empty: the socket's peer address.
  std::string peer = {};
  /// A peer counts as gone after this time of silence, if this end polled meanwhile. Each end sends
  /// something at least three times within its own limit, and at least every 0.3 s. 0: only the end
  /// of the connection counts.
  std::chrono::milliseconds stall_limit{10'000};
  /// False: a link whose direct path for payload is lost ends as if its connection had been cut.
  /// True: such a link uses the socket from then on.
  bool falls_back = true;
};

/// Makes a link over any connected stream socket and takes the socket over, even on failure. Both
/// ends must be stream links. Bytes are as protected from others as the socket is. Errors:
/// `invalid_argument` when `socket` is not such a socket, `system`.
[[nodiscard]] GANTRY_API Result<std::unique_ptr<Link>> make_stream_link(
    int socket, const LinkOptions& options = {});

/// Makes a link between two processes of one kernel, even in different namespaces, over a connected
/// Unix stream socket, which the link takes over. `engine` copies transfers between regions that
/// were exported whole; others use the socket. Errors: as make_stream_link().
[[nodiscard]] GANTRY_API Result<std::unique_ptr<Link>> make_shared_link(
    int socket, std::shared_ptr<Engine> engine, const LinkOptions& options = {});

/// Makes a link over a connected stream socket, which the link takes over. libfabric's `provider`
/// ("tcp", "verbs") reads the payload over a separate connection, once that is established. Needs
/// IPv4 addresses. Transfers into or out of memory that is not exported for reading, and short
/// rows, use the socket. Errors: as make_stream_link(); `unsupported` without libfabric or that
/// provider.
[[nodiscard]] GANTRY_API Result<std::unique_ptr<Link>> make_fabric_link(
    int socket, const std::string& provider = "tcp", const LinkOptions& options = {});

/// Lists the kinds of links: usable here, or the reason and remedy if not. Loads libfabric, which
/// takes some tenths of a second.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> links();

}  // namespace gantry
