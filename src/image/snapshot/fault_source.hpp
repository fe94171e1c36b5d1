#pragma once  // image/snapshot/fault_source.hpp: pages that are not there, by userfaultfd.

#include <array>
#include <csignal>
#include <span>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/snapshot/dropped_pages.hpp"
#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

/// Tells who touches pages of a snapshot's memory that are not mapped, and maps them. Whoever
/// touched one sleeps until then. What the program drops of its own memory (MADV_DONTNEED) is zero
/// from then on, and is not made any more. Any thread may call every member but those for the one
/// that takes.
class FaultSource {
 public:
  /// `own_accesses_only`: good enough are faults of the program itself, not those of the kernel for
  /// it. Errors: `unsupported`, `permission_denied`, with how to mend that.
  [[nodiscard]] static Result<FaultSource> open(bool own_accesses_only);
  /// Begins; pages that are mapped already raise no faults. Errors: `system`.
  [[nodiscard]] Result<void> watch(const Memory& memory);
  /// Ends. Whoever sleeps touches again; what is not there is zero from then on.
  void ignore() noexcept;

  [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }

  // ---- for the thread that takes, without which nobody who drops pages goes on
  /// Takes addresses that were touched, in their order, from the first byte of the memory on, and
  /// notes what was dropped. Waits only for pages that are being made, and takes no memory.
  static constexpr std::size_t kMostTaken = 64;
  [[nodiscard]] std::span<const Bytes> take(std::array<Bytes, kMostTaken>& into) noexcept;
  [[nodiscard]] bool was_dropped(std::uint64_t page) const noexcept { return dropped_->has(page); }
  /// As map() below, of a page; while somebody drops pages whoever sleeps on it touches it again
  /// instead.
  [[nodiscard]] Result<void> answer_map(std::uint64_t page);

  // ---- for all
  // In whole pages, whose offsets count from the first byte on. A page that is mapped already stays
  // as it is. All wake whoever sleeps there. Errors: `out_of_memory`, `system`.
  [[nodiscard]] Result<void> copy(Bytes to, ConstByteSpan from);  ///< New pages with these bytes.
  [[nodiscard]] Result<void> map(Bytes at,
                                 Bytes bytes);  ///< What shared memory has there; else zeros.
  /// Touching them is SIGBUS from now on (SIGSEGV before Linux 6.6).
  void poison(Bytes at, Bytes bytes) noexcept;
  [[nodiscard]] int poison_signal() const noexcept { return has_poison_ ? SIGBUS : SIGSEGV; }

 private:
  /// While somebody drops pages the kernel makes none.
  enum class WhileDropping : std::uint8_t { wait, wake };
  enum class Dropped : std::uint8_t { as_others, left_out };
  template <class Call>
  [[nodiscard]] int each(Bytes at, Bytes bytes, WhileDropping what, Dropped dropped,
                         Call call) noexcept;
  template <class Call>
  [[nodiscard]] std::pair<std::int64_t, int> try_once(Bytes at, Bytes bytes, Dropped dropped,
                                                      Call call) noexcept;
  void let_go(Bytes at, Bytes bytes) noexcept;
  [[nodiscard]] Result<void> make_zero(Bytes at, Bytes bytes, WhileDropping what);
  [[nodiscard]] Result<void> map(Bytes at, Bytes bytes, WhileDropping what);
  void wake(Bytes at, Bytes bytes) noexcept;

  Fd fd_;
  std::unique_ptr<DroppedPages> dropped_;  // of shared memory none: it has them still
  ByteSpan memory_;
  bool is_shared_ = false;
  bool has_poison_ = false;
};

}  // namespace gantry::snapshot
