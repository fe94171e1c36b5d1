#include "device/uring/registrar.hpp"

#include "core/base/os/uring_refusal.hpp"
#include "core/base/result.hpp"

#ifdef GANTRY_HAVE_LIBURING
#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>

#include <vector>

#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/mapped.hpp"
#include "core/base/os/memlock.hpp"

namespace gantry {
namespace {

constexpr Bytes kLargestBuffer = Bytes{1} << 30;  // the kernel's; EFAULT above it
constexpr unsigned kMostSlots = 1u << 14;         // the kernel's IORING_MAX_REG_BUFFERS

/// 0 or an errno value.
int update_slot(int ring, unsigned slot, ByteSpan memory) noexcept {
  iovec buffer{memory.data(), memory.size()};
  __u64 tag = 0;
  io_uring_rsrc_update2 update{};
  update.offset = slot;
  update.data = reinterpret_cast<std::uintptr_t>(&buffer);
  update.tags = reinterpret_cast<std::uintptr_t>(&tag);
  update.nr = 1;
  const int changed = ::io_uring_register(static_cast<unsigned>(ring),
                                          IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof update);
  return changed < 0 ? -changed : changed == 1 ? 0 : EIO;
}

// The kernel fixes buffers for reads and writes alike, so it wants to write there (FOLL_WRITE in
// its io_pin_pages(), up to Linux 6.18 at least).
tl::unexpected<Error> refused_to_read(ByteSpan memory) {
  return fail(Code::unsupported,
              fmt::format("fixing {} bytes: this kernel does not fix memory that is mapped "
                          "read-only",
                          memory.size()),
              "write from its address (IORING_OP_WRITE), which needs no fixed buffer and no copy");
}

tl::unexpected<Error> refused(ByteSpan memory, DeviceAccess access, int error) {
  if (error == EFAULT && access == DeviceAccess::read && is_mapped(memory))
    return refused_to_read(memory);
  const std::string what = fmt::format("fixing {} bytes", memory.size());
  switch (error) {
    case ENOMEM:
    case EPERM:
      return fail_memlock(what, error);
    case EFAULT:
      return fail(Code::invalid_argument, what + ": not all of it is mapped and writable");
    case EOPNOTSUPP:
      return fail(Code::unsupported, what + ": this kernel does not pin memory of a file",
                  "use anonymous memory, a memfd or hugetlb");
    case EEXIST:  // IORING_SETUP_SINGLE_ISSUER
      return fail(Code::invalid_argument, what + ": the ring obeys only the thread that submits",
                  "register from that thread");
    default:
      return fail_errno(what, error);
  }
}

class UringRegistrar final : public Registrar {
 public:
  UringRegistrar(const UringRegistrarOptions& options, Fd ring)
      : Registrar("uring", options.limits),
        ring_(std::move(ring)),
        slots_(options.slots),
        is_users_(options.ring_descriptor >= 0) {
    free_slots_.reserve(slots_);  // so that giving one back cannot fail
    for (unsigned slot = slots_; slot-- > 0;) free_slots_.push_back(slot);
  }

  // A ring of our own goes with its descriptor. The user's ring gets its empty table back, but not
  // from a fork()ed child, which shares the ring with its parent.
  ~UringRegistrar() override {
    if (is_users_ && fork_guard_.is_this())
      ::io_uring_register(static_cast<unsigned>(ring_.get()), IORING_UNREGISTER_BUFFERS, nullptr,
                          0);
  }
  UringRegistrar(const UringRegistrar&) = delete;
  UringRegistrar& operator=(const UringRegistrar&) = delete;

 protected:
  Result<Keys> do_register(ByteSpan memory, DeviceAccess access) override {
    if (memory.size() > kLargestBuffer)
      return fail(Code::too_large,
                  fmt::format("fixing {} bytes: io_uring takes at most {} in one buffer",
                              memory.size(), kLargestBuffer),
                  "register pieces of at most 1 GiB, or give the pool smaller slabs");
    if (free_slots_.empty())
      return fail(
          Code::out_of_memory,
          fmt::format("fixing {} bytes: all {} buffer slots are taken", memory.size(), slots_),
          "drop registrations that are not used, or ask for more slots");
    const unsigned slot = free_slots_.back();
    if (const int error = update_slot(ring_.get(), slot, memory); error != 0)
      return refused(memory, access, error);
    free_slots_.pop_back();
    return Keys{slot, 0};
  }

  // An operation in flight keeps its pages until it ends, whatever the slot says. A slot that could
  // not be cleared is as good as a clear one, since the next registration replaces its contents.
  int do_unregister(const Keys& keys, ByteSpan) noexcept override {
    const auto slot = static_cast<unsigned>(keys.key);
    free_slots_.push_back(slot);
    return update_slot(ring_.get(), slot, {});
  }

 private:
  const Fd ring_;
  const unsigned slots_;
  const bool is_users_;
  const ForkGuard fork_guard_;
  std::vector<unsigned> free_slots_;  // the last is the next to be taken
};

Result<Fd> open_ring() {
  io_uring_params params{};
  const int ring = ::io_uring_setup(1, &params);
  if (ring >= 0) return Fd(ring);
  return no_ring(-ring);
}

Result<Fd> share_ring(int descriptor) {
  Fd ring(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (ring) return ring;
  if (errno != EBADF) return fail_errno("uring: duplicating the ring's descriptor");
  return fail(Code::invalid_argument, fmt::format("uring: descriptor {} is not open", descriptor));
}

Result<void> make_table(const UringRegistrarOptions& options, int ring) {
  io_uring_rsrc_register table{};
  table.nr = options.slots;
  table.flags = IORING_RSRC_REGISTER_SPARSE;
  const int made = ::io_uring_register(static_cast<unsigned>(ring), IORING_REGISTER_BUFFERS2,
                                       &table, sizeof table);
  switch (-made) {
    case 0:
      return {};
    case EBUSY:
      return fail(Code::already_exists, "uring: the ring has fixed buffers already",
                  "give it to one registrar, before buffers are registered otherwise");
    case EOPNOTSUPP:
    case ENXIO:
      return fail(Code::invalid_argument,
                  fmt::format("uring: descriptor {} is no ring", options.ring_descriptor));
    case EINVAL:
      return fail(Code::unsupported, "uring: this kernel has no sparse buffer table",
                  "use a kernel of at least 5.19");
    default:
      return fail_errno("uring: making the buffer table", -made);
  }
}

}  // namespace

Result<std::shared_ptr<Registrar>> make_uring_registrar(const UringRegistrarOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Registrar>> {
    if (options.slots == 0 || options.slots > kMostSlots)
      return fail(Code::invalid_argument,
                  fmt::format("uring: a table of {} slots: there can be 1 to {}", options.slots,
                              kMostSlots));
    GANTRY_ASSIGN(Fd ring,
                  options.ring_descriptor < 0 ? open_ring() : share_ring(options.ring_descriptor));
    GANTRY_TRY(make_table(options, ring.get()));
    return std::make_shared<UringRegistrar>(options, std::move(ring));
  });
}

}  // namespace gantry

#else

namespace gantry {

Result<std::shared_ptr<Registrar>> make_uring_registrar(const UringRegistrarOptions&) {
  return not_in_this_build();
}

}  // namespace gantry

#endif
