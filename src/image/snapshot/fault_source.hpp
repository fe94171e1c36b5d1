#pragma once  // image/snapshot/fault_source.hpp: pages that are not there, by userfaultfd.

#include <array>
#include <span>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/snapshot/memory.hpp"

namespace gantry::snapshot {

/// Tells who touches pages of a snapshot's memory that are not mapped, and maps them. Whoever
/// touched one sleeps until then. Any thread may call every member.
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
  /// Takes addresses that were touched, in their order, from the first byte of the memory on. Does
  /// not wait, and takes no memory.
  static constexpr std::size_t kMostTaken = 64;
  [[nodiscard]] std::span<const Bytes> take(std::array<Bytes, kMostTaken>& into) noexcept;

  // In whole pages, whose offsets count from the first byte on. A page that is mapped already stays
  // as it is. All wake whoever sleeps there. Errors: `out_of_memory`, `system`.
  [[nodiscard]] Result<void> copy(Bytes to, ConstByteSpan from);  ///< New pages with these bytes.
  [[nodiscard]] Result<void> map(Bytes at,
                                 Bytes bytes);  ///< What shared memory has there; else zeros.
  /// Touching them is SIGBUS from now on (SIGSEGV before Linux 6.6).
  void poison(Bytes at, Bytes bytes) noexcept;

 private:
  template <class Call>
  [[nodiscard]] int each(Bytes at, Bytes bytes, Call call) noexcept;
  [[nodiscard]] Result<void> make_zero(Bytes at, Bytes bytes);
  void wake(Bytes at, Bytes bytes) noexcept;

  Fd fd_;
  ByteSpan memory_;
  bool is_shared_ = false;
  bool has_poison_ = false;
};

}  // namespace gantry::snapshot
