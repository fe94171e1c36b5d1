#pragma once  // gantry/link.hpp: moves whose other end lies in another address space.

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

/// What the far end of a link may do with exported memory.
enum class RemoteAccess : std::uint8_t {
  read = 1,       ///< Gets from it.
  write = 2,      ///< Puts into it.
  read_write = 3  ///< Both.
};

/// Exported memory as the far end of the link names it. A plain value that ends with the export.
struct GANTRY_API RemoteRegion {
  static constexpr std::size_t kEncodedBytes = 32;  ///< Length of what encode() returns.
  /// A region's name as bytes that can be sent to the other side by any way.
  using Encoded = std::array<std::byte, kEncodedBytes>;

  std::uint64_t key = 0;                           ///< Never given out twice by a link.
  Bytes bytes = 0;                                 ///< Size of the exported memory.
  RemoteAccess access = RemoteAccess::read_write;  ///< What its owner has granted.

  /// The same on every machine: docs/formats/link.md.
  [[nodiscard]] Encoded encode() const noexcept;
  /// Errors: `invalid_argument` for bytes that encode() did not make, or that were changed since.
  [[nodiscard]] static Result<RemoteRegion> decode(ConstByteSpan encoded);

  [[nodiscard]] bool operator==(const RemoteRegion&) const noexcept = default;
};

namespace detail {
/// Whoever can end an export. Private.
class Exporter {
 public:
  Exporter() = default;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;
  virtual ~Exporter() = default;
  virtual void withdraw(std::uint64_t key) noexcept = 0;
};
}  // namespace detail

/// Keeps memory exported over one link for as long as this lives. Move-only. May outlive the link;
/// the memory must outlive this.
class GANTRY_API Export {
 public:
  Export() noexcept = default;
  Export(Export&& other) noexcept;
  Export& operator=(Export&& other) noexcept;
  ~Export() { withdraw(); }

  /// What the other side needs to reach the memory.
  [[nodiscard]] const RemoteRegion& remote() const noexcept { return remote_; }
  [[nodiscard]] explicit operator bool() const noexcept { return exporter_ != nullptr; }

  /// Ends the export. When it returns, no byte of the far end's lands in the memory any more.
  /// Transfers that had not ended fail at the far end with `not_found`. It waits for no peer.
  void withdraw() noexcept;

  // For implementations of Link.
  Export(std::shared_ptr<detail::Exporter> exporter, const RemoteRegion& remote) noexcept
      : exporter_(std::move(exporter)), remote_(remote) {}

 private:
  std::shared_ptr<detail::Exporter> exporter_;
  RemoteRegion remote_;
};

// ---- transfers -----------------------------------------------------------------------------

/// `rows` rows of `row_bytes` each, between memory here and exported memory there. Sides may differ
/// in the distance from the beginning of one row to that of the next. A plain value.
struct GANTRY_API Transfer {
  std::byte* local = nullptr;  ///< The first row. A put only reads it.
  RemoteRegion remote = {};    ///< The exported memory, as the far end has named it.
  Bytes remote_offset = 0;     ///< The first row, from the beginning of the exported memory.
  Bytes rows = 1;
  Bytes row_bytes = 0;
  Bytes local_stride = 0;   ///< At least `row_bytes`, unless there is one row at most.
  Bytes remote_stride = 0;  ///< The same.
  /// Raised at the far end by a put when all bytes are visible there, by a get when all were read
  /// and may be overwritten. See Link::receive_signal().
  std::optional<std::uint64_t> signal = {};

  /// All of `local`, in one piece.
  [[nodiscard]] static Transfer of(ConstByteSpan local, const RemoteRegion& remote,
                                   Bytes remote_offset = 0,
                                   std::optional<std::uint64_t> signal = {}) noexcept;
};

/// By what the other side's memory is reached.
enum class LinkKind : std::uint8_t {
  stream,  ///< A connected socket; payload is received straight into its place.
  shared,  ///< Both ends on one kernel: what lies in regions is copied once, by an engine.
  fabric,  ///< libfabric: a network card's remote memory access, or its stand-in over TCP.
};
[[nodiscard]] GANTRY_API std::string_view to_string(LinkKind kind) noexcept;

/// What a link can do.
struct LinkCapabilities {
  /// Transfers go on while nobody at the far end calls its link.
  bool one_sided = false;
  /// Local memory must be registered with the link's registrar, or the link does so each time.
  bool needs_registration = false;
  /// Payload passes by the socket now, if it lies in memory that was exported for that.
  bool pulls = false;
  Bytes max_transfer_bytes = 0;   ///< Payload of one transfer.
  Bytes max_control_bytes = 0;    ///< Of one control message.
  std::size_t max_transfers = 0;  ///< Under way at a time; one more is `busy`.
  std::size_t max_controls = 0;   ///< That the far end has not taken; one more waits.
  std::size_t max_signals = 0;    ///< The same for signals; one more is `busy`.
  std::size_t max_exports = 0;    ///< Of this end, at a time; one more is `busy`.
};

/// How a transfer of some size would go, and why. `text()` is for people.
struct GANTRY_API LinkExplanation {
  LinkKind kind = LinkKind::stream;      ///< Of the link, whichever way the payload takes.
  std::string peer;                      ///< The far end, for people.
  std::chrono::nanoseconds predicted{};  ///< By what transfers have taken so far.
  std::vector<std::string> reasons;      ///< Why it goes so; one line each.
  /// The same for people, some lines.
  [[nodiscard]] std::string text() const;
};

/// What a link has done since it was opened.
struct LinkReport {
  std::uint64_t puts = 0;          ///< Of this end, ended well.
  std::uint64_t gets = 0;          ///< The same.
  std::uint64_t failed = 0;        ///< Puts and gets of this end that did not end well.
  std::uint64_t put_bytes = 0;     ///< Payload of `puts`.
  std::uint64_t got_bytes = 0;     ///< Payload of `gets`.
  std::uint64_t landed_bytes = 0;  ///< Written here by the far end's puts.
  std::uint64_t served_bytes = 0;  ///< Read here by the far end's gets.
  std::uint64_t pulled_bytes =
      0;  ///< Of all these, those that this end read itself, past the socket.
};

/// A connection between two ends, each of which exports memory to the other. Any thread may call
/// every member. A link has no thread: its own calls make progress, poll() and those that wait. An
/// end that calls none of them lets the far end wait, and is taken for dead after the stall limit
/// unless the link is one-sided.
///
/// Transfers begin in the order of their tickets. They may be under way at the same time: let one
/// end before another one writes the same bytes. Control messages arrive in their order, and may
/// overtake transfers; signals are raised in the order of the puts.
///
/// When the far end is gone, every transfer under way fails and every call says why. Control
/// messages and signals that had arrived are handed out first. The far end is not trusted: it
/// reaches nothing but exported memory, and if it breaks the protocol the link ends with
/// `peer_misbehaved`.
class GANTRY_API Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// As close(); exports end, too.
  virtual ~Link() = default;

  /// By what it reaches the other side.
  [[nodiscard]] virtual LinkKind kind() const noexcept = 0;
  [[nodiscard]] virtual const std::string& peer() const noexcept = 0;  ///< As errors name it.
  /// What it can do.
  [[nodiscard]] virtual LinkCapabilities capabilities() const noexcept = 0;
  /// Learned from this link's transfers; before the first, a typical figure.
  [[nodiscard]] virtual Cost cost() const = 0;
  /// How it would do the transfer, and why.
  [[nodiscard]] virtual LinkExplanation explain(const Transfer& transfer) const = 0;
  /// What it has done so far.
  [[nodiscard]] virtual LinkReport report() const = 0;

  // ---- exports
  /// Errors: `invalid_argument` for no memory; `busy` when there are too many; the link's end.
  [[nodiscard]] virtual Result<Export> export_memory(ByteSpan memory, RemoteAccess access) = 0;
  /// All of a region, whose descriptor a shared link hands over: the far end maps it read-only and
  /// copies from it. Puts *out of* a region are quicker then, too, as are gets by the far end.
  [[nodiscard]] virtual Result<Export> export_region(const Region& region, RemoteAccess access) = 0;

  // ---- transfers
  /// Begins a transfer and returns at once. Local memory must stay valid until the ticket has
  /// ended; what a put reads must not change, what a get writes must not be used. Errors:
  /// `invalid_argument` (null memory, strides below the row, a range beyond the remote region, no
  /// such access to it), `too_large`, `busy`, the link's end.
  [[nodiscard]] virtual Result<Ticket> put(const Transfer& transfer) = 0;
  /// Brings remote bytes here; otherwise as put().
  [[nodiscard]] virtual Result<Ticket> get(const Transfer& transfer) = 0;

  /// `done`: the bytes are visible at their destination. Remembers the latest 1024 failures.
  [[nodiscard]] virtual Outcome outcome(Ticket ticket) const = 0;
  /// Waits for one transfer. Errors: `timed_out` (it goes on and may be waited for again),
  /// `not_found` (the export ended first), `system` (memory at either end cannot be accessed),
  /// `invalid_argument` for a ticket never given, the link's end.
  [[nodiscard]] virtual Result<void> wait(Ticket ticket, Deadline deadline = Deadline::never()) = 0;

  // ---- messages
  /// Sends a small message of at least one byte. Waits until the far end has room for it. Errors:
  /// `too_large`, `invalid_argument`, `timed_out`, the link's end.
  [[nodiscard]] virtual Result<void> send_control(ConstByteSpan message,
                                                  Deadline deadline = Deadline::never()) = 0;
  /// Waits for the next one and copies it to `into`; returns its size. Errors: `too_large` (it
  /// stays the next one), `timed_out`, the link's end.
  [[nodiscard]] virtual Result<Bytes> receive_control(ByteSpan into,
                                                      Deadline deadline = Deadline::never()) = 0;
  /// Waits for the next signal that the far end has raised. Errors: `timed_out`, the link's end.
  [[nodiscard]] virtual Result<std::uint64_t> receive_signal(
      Deadline deadline = Deadline::never()) = 0;

  // ---- progress
  /// Does bounded work in the calling thread. True if it, or any call since the last poll(), got on
  /// with something: calling again at once may be worth it, and so may a look at what any of the
  /// functions above hands out, before a loop sleeps on the descriptor.
  virtual bool poll() = 0;
  /// Readable, for loops on poll() or epoll, when poll() has something to do. It also has to be
  /// called a few times within the stall limit. A loop that sleeps on it is not woken by what
  /// another thread's call takes in: let one thread alone call the link then. Belongs to the link.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;

  /// Nothing while the link works; else why it ended.
  [[nodiscard]] virtual Result<void> state() const = 0;
  /// Ends the link. When it returns no transfer is under way: those that had not ended have
  /// failed. The far end learns of it as `closed`. Waits for no peer.
  virtual void close() noexcept = 0;
};

/// Which kind of link, and its limits.
struct LinkOptions {
  /// For errors: "host-b:4711". Empty: what the socket knows of the peer.
  std::string peer = {};
  /// A peer of which nothing was heard for this long, although this end polled, is gone. Each end
  /// says something 3 times within its own, and every 0.3 s. 0: only the connection's end counts.
  std::chrono::milliseconds stall_limit{10'000};
  /// False: a link whose own way for payload is lost ends as if its connection had been cut,
  /// instead of taking the socket from then on.
  bool falls_back = true;
};

/// A link over any connected stream socket, which it takes over, also on failure. Both ends must be
/// stream links. Bytes are as safe from others as the socket is. Errors: `invalid_argument` when it
/// is no such socket, `system`.
[[nodiscard]] GANTRY_API Result<std::unique_ptr<Link>> make_stream_link(
    int socket, const LinkOptions& options = {});

/// A link between two processes of one kernel, also in different namespaces, over a connected Unix
/// stream socket, which it takes over. Transfers between regions that were exported whole are
/// copied by `engine`; others take the socket. Errors: as above.
[[nodiscard]] GANTRY_API Result<std::unique_ptr<Link>> make_shared_link(
    int socket, std::shared_ptr<Engine> engine, const LinkOptions& options = {});

/// A link over a connected stream socket, which it takes over, with payload apart: it is read by
/// libfabric's `provider` ("tcp", "verbs") over a connection of its own, once that stands. Needs
/// addresses of IPv4. Transfers into or out of memory that is not exported for reading, and short
/// rows, take the socket. Errors: as above; `unsupported` without libfabric or that provider.
[[nodiscard]] GANTRY_API Result<std::unique_ptr<Link>> make_fabric_link(
    int socket, const std::string& provider = "tcp", const LinkOptions& options = {});

}  // namespace gantry
