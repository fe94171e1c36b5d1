#pragma once  // gantry/channel/message.hpp: messages, as the two ends of a channel hold them.

#include <array>
#include <cstring>
#include <gantry/memory.hpp>
#include <gantry/shape.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gantry {

// ---- what is said of a payload -------------------------------------------------------------

/// What a message says of itself.
struct MessageInfo {
  std::uint64_t sequence = 0;     ///< Number in its channel, from 1; gaps were passed over.
  std::uint64_t user = 0;         ///< The sender's own word.
  std::uint32_t type = 0;         ///< The sender's own tag.
  std::uint64_t sent_ticks = 0;   ///< When published, Meter::ticks(). 0: not timed; every eighth
                                  ///< small message is.
  std::uint64_t correlation = 0;  ///< Tells which reply belongs to which request; 0: neither.
  std::uint64_t deadline_ns = 0;  ///< A request's deadline, monotonic; 0: none.
};

/// A part of a received message: its bytes, and its tensor if the sender gave one.
struct Segment {
  ConstByteSpan bytes;           ///< Read-only memory, valid as long as the message.
  std::optional<Tensor> tensor;  ///< Empty: plain bytes.
};
/// The most segments that a message may have.
inline constexpr std::size_t kMaxSegments = 64;

namespace detail {
struct Inheritance;
/// Where bytes lie in memory that another process can map, and what must go along with them.
struct RegionSlice {
  std::shared_ptr<const Region> region;
  Bytes offset = 0;
  std::shared_ptr<const Inheritance> inherited;
};
/// Takes a loan or a message back. Implemented by each transport.
class GANTRY_API SlotOwner {
 public:
  virtual ~SlotOwner() = default;
  virtual void give_back(std::uint64_t token) noexcept = 0;
  /// Where `bytes` of what `token` stands for lie; nothing when they are private to this process.
  [[nodiscard]] virtual std::optional<RegionSlice> where(std::uint64_t token,
                                                         ConstByteSpan bytes) const {
    static_cast<void>(token), static_cast<void>(bytes);
    return std::nullopt;
  }
  /// True if nobody can change these bytes any more.
  [[nodiscard]] virtual bool is_immutable(std::uint64_t token, ConstByteSpan bytes) const {
    static_cast<void>(token), static_cast<void>(bytes);
    return false;
  }
  /// See Message::key_for().
  [[nodiscard]] virtual Result<std::optional<DeviceKey>> key_for(std::uint64_t token,
                                                                 ConstByteSpan bytes,
                                                                 const Registrar& registrar) const {
    static_cast<void>(token), static_cast<void>(bytes), static_cast<void>(registrar);
    return std::nullopt;
  }
};
}  // namespace detail

// ---- to be sent ----------------------------------------------------------------------------

/// Empty memory to write a message in, already where the reader will see it. Move-only; if it is
/// dropped unpublished the memory goes back and nothing is sent. After it was published clang's
/// -Wconsumed refuses to write or publish it again, and bytes() is empty.
class GANTRY_API GANTRY_CONSUMABLE(unconsumed) Loan {
 public:
  GANTRY_RETURNS(consumed) Loan() noexcept = default;
  GANTRY_RETURNS(unconsumed)
  Loan(std::shared_ptr<detail::SlotOwner> owner, std::uint64_t token, ByteSpan bytes) noexcept
      : owner_(std::move(owner)), token_(token), bytes_(bytes) {}
  Loan(Loan&& other) noexcept;
  Loan& operator=(Loan&& other) noexcept;
  ~Loan() { reset(); }

  GANTRY_ONLY_WHEN(unconsumed) [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }
  /// Publish only the first `size` bytes. Ignores a `size` above bytes().size().
  GANTRY_ONLY_WHEN(unconsumed) void shrink(Bytes size) noexcept {
    if (size < bytes_.size()) bytes_ = bytes_.first(size);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return owner_ != nullptr; }

  // For transports:
  [[nodiscard]] const detail::SlotOwner* owner() const noexcept { return owner_.get(); }
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  void forget() noexcept;  ///< Gives nothing back: the transport took it over.

 private:
  void reset() noexcept;
  std::shared_ptr<detail::SlotOwner> owner_;
  std::uint64_t token_ = 0;
  ByteSpan bytes_;
};

class Message;

/// A message put together from parts; each is copied, moved or forwarded. At most kMaxSegments.
/// Spans must not change until the send that takes them has ended. Move-only. Its functions can be
/// chained: out.send(Draft().move(std::move(block)).copy(bytes)).
class GANTRY_API Draft {
 public:
  Draft() noexcept = default;
  Draft(Draft&&) noexcept = default;
  Draft& operator=(Draft&&) noexcept = default;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() = default;

  /// One segment of the message to be: copied bytes, a block, or a message that travels on.
  struct Part {
    ConstByteSpan copied;                // only if neither of the two below is set
    Block block;                         // set if it lies in one
    std::shared_ptr<Message> forwarded;  // shared by the parts that are its segments
    ConstByteSpan bytes;                 // the part's bytes, whichever it is
    std::optional<Tensor> tensor;        // how to read it; empty: plain bytes
    bool moved = false;                  // it was made of a block
    bool needs_size = false;             // a container has that block, too
    std::optional<Bytes> size;           // the first so many bytes of that block; empty: all of it
    std::optional<As> as{};              // what it becomes; empty: as the send or the channel says
  };

  /// Adds bytes that are copied when sent.
  Draft& copy(ConstByteSpan bytes, std::optional<Tensor> tensor = {}) &;
  /// Adds a block of the channel's pool, which goes into the message without a copy. Refused when
  /// sent: a block of a container (Block::is_of_container()), since it is as large as the
  /// container's capacity; give `bytes` then.
  Draft& move(GANTRY_TAKES(unconsumed) Block block, std::optional<Tensor> tensor = {}) &;
  /// The same with the first `bytes` of the block alone. What lies behind them is not sent.
  Draft& move(GANTRY_TAKES(unconsumed) Block block, Bytes bytes,
              std::optional<Tensor> tensor = {}) &;
  /// Adds all segments of a received message without a copy. The message is released to its own
  /// sender when the last reader of this one has released it.
  Draft& forward(Message message) &;
  /// Converts the part that was added last while it is copied: the message's tensor is the
  /// destination's. A block or a message that travels on is not copied, so one that is of another
  /// type is refused when sent.
  Draft& as(As what) &;

  // The same in a chain that begins with Draft().
  [[nodiscard]] Draft copy(ConstByteSpan bytes, std::optional<Tensor> tensor = {}) && {
    return std::move(copy(bytes, tensor));
  }
  /// As above.
  [[nodiscard]] Draft move(GANTRY_TAKES(unconsumed) Block block,
                           std::optional<Tensor> tensor = {}) && {
    return std::move(move(std::move(block), tensor));
  }
  /// As above.
  [[nodiscard]] Draft move(GANTRY_TAKES(unconsumed) Block block, Bytes bytes,
                           std::optional<Tensor> tensor = {}) && {
    return std::move(move(std::move(block), bytes, tensor));
  }
  /// As above.
  [[nodiscard]] Draft forward(Message message) &&;
  /// As above.
  [[nodiscard]] Draft as(As what) && { return std::move(as(std::move(what))); }

  /// What was gathered so far, for the end that sends it.
  [[nodiscard]] std::vector<Part>& parts() noexcept { return parts_; }
  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }

 private:
  std::vector<Part> parts_;
};

// ---- received ------------------------------------------------------------------------------

/// A received message, whole: a read-only view that holds its slot until dropped or released.
/// Move-only.
class GANTRY_API Message {
 public:
  static constexpr Bytes kInlineBytes = 64;  ///< Payloads up to this travel in the ring itself.

  Message() noexcept = default;
  Message(std::shared_ptr<detail::SlotOwner> owner, std::uint64_t token, ConstByteSpan bytes,
          const MessageInfo& info) noexcept
      : owner_(std::move(owner)), token_(token), info_(info), view_(bytes) {}
  /// A private copy of at most kInlineBytes (the rest is cut off); it holds no slot.
  Message(ConstByteSpan small, const MessageInfo& info) noexcept : info_(info), is_small_(true) {
    view_ = ConstByteSpan(small_.data(), small.size() < kInlineBytes ? small.size() : kInlineBytes);
    if (!small.empty()) std::memcpy(small_.data(), small.data(), view_.size());
  }
  /// The same of a payload at the front of kInlineBytes, of which those up to `near` are copied if
  /// it is no longer: copies of a known size take a few instructions. `bytes`: at most
  /// kInlineBytes.
  template <std::size_t near>
  Message(std::integral_constant<std::size_t, near>, const std::byte* small, Bytes bytes,
          const MessageInfo& info) noexcept
      : info_(info), is_small_(true) {
    view_ = ConstByteSpan(small_.data(), bytes);
    std::memcpy(small_.data(), small, near);
    if (bytes > near) std::memcpy(small_.data() + near, small + near, kInlineBytes - near);
  }
  Message(Message&& other) noexcept { *this = std::move(other); }
  Message& operator=(Message&& other) noexcept;
  ~Message() { release(); }

  /// The payload, or its first segment. Valid until release(). The bytes lie in memory of the
  /// sender, which a hostile sender can change at any time: unless is_immutable(), copy what you
  /// check. Refused of a temporary, whose bytes would be gone at the
  /// end of the line; no compiler sees that of receive()->bytes(), so give the result a name.
  [[nodiscard]] ConstByteSpan bytes() const& noexcept {
    return is_small_ ? ConstByteSpan(small_.data(), view_.size()) : view_;
  }
  ConstByteSpan bytes() const&& = delete;  // name the message first: it must outlive its bytes
  /// How many segments the payload has.
  [[nodiscard]] std::size_t segments() const noexcept {
    return segments_ == nullptr ? 1 : segments_->size();
  }
  /// `index` must be below segments().
  [[nodiscard]] Segment segment(std::size_t index) const& {
    return segments_ == nullptr ? Segment{bytes(), {}} : (*segments_)[index];
  }
  Segment segment(std::size_t index) const&& = delete;  // as bytes()
  /// True if nobody can change the bytes any more: they are a private copy, or were sent with
  /// SendMode::immutable. Asks the kernel, not the sender.
  [[nodiscard]] bool is_immutable() const;
  /// The key by which an operation of `registrar`'s device names segment(`index`): its slab is
  /// registered whole, so this looks nothing up. Nothing: the bytes are a private copy that no
  /// registrar knows (streamed, or up to PayloadOptions::cell_bytes), or there are none; use their
  /// address. Such bytes know no registrars, so the answer is the same for one that was not named.
  /// The device must be done before the message is released. `index` must be below segments(). Any
  /// thread. Errors, of bytes in a slab: why the registrar refused it, and then the address serves,
  /// too; `invalid_argument` for one that ConsumerOptions::registrars does not name, and in a
  /// fork()ed child.
  [[nodiscard]] Result<std::optional<DeviceKey>> key_for(const Registrar& registrar,
                                                         std::size_t index = 0) const;
  /// What its sender said of it, and its number.
  [[nodiscard]] const MessageInfo& info() const noexcept { return info_; }
  /// Its number in its channel, from 1; gaps were passed over.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return info_.sequence; }
  void release() noexcept;  ///< Gives the slot back to the sender now.

  // For transports:
  void set_segments(std::unique_ptr<std::vector<Segment>> segments) noexcept {
    segments_ = std::move(segments);
    view_ = segments_->empty() ? ConstByteSpan() : segments_->front().bytes;
  }
  /// To whom the slot goes back; null for a private copy.
  [[nodiscard]] detail::SlotOwner* owner() const noexcept { return owner_.get(); }
  /// By what the owner knows the slot.
  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  /// The slot is never given back, since another process may still read it. The bytes stay valid
  /// until release() for all that share this message.
  void abandon() noexcept { gives_back_ = false; }

 private:
  std::shared_ptr<detail::SlotOwner> owner_;
  std::uint64_t token_ = 0;
  MessageInfo info_;
  ConstByteSpan view_;
  std::unique_ptr<std::vector<Segment>> segments_;  // null: one segment, without a tensor
  bool is_small_ = false;
  bool gives_back_ = true;                     // false: abandoned
  std::array<std::byte, kInlineBytes> small_;  // NOLINT: filled when is_small_
};

}  // namespace gantry
