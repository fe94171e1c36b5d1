#include <sys/mman.h>

#include <cerrno>
#include <gantry/memory.hpp>
#include <utility>

#include "base/memfd.hpp"

namespace gantry {
namespace {

Bytes page_bytes() noexcept {
  return static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

Bytes whole_pages(Bytes size) noexcept {
  const Bytes page = page_bytes();
  return (size + page - 1) / page * page;
}

Result<std::byte*> map(int descriptor, Bytes size, int protection) {
  void* at = ::mmap(nullptr, size, protection, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return fail_errno(fmt::format("mapping {} bytes", size));
  // Huge pages on advice: one fault instead of 512 where the kernel gives them to shared memory.
  ::madvise(at, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(at);
}

}  // namespace

Result<Region> Region::create(Bytes size, std::string_view name) {
  if (size == 0) return fail(Code::invalid_argument, "a region of 0 bytes");
  if (size > static_cast<Bytes>(PTRDIFF_MAX) - page_bytes())
    return fail(Code::too_large, fmt::format("a region of {} bytes: no machine has that", size));
  const Bytes rounded = whole_pages(size);
  GANTRY_ASSIGN(Fd memory, make_memfd(name, rounded));
  GANTRY_ASSIGN(std::byte* const data, map(memory.get(), rounded, PROT_READ | PROT_WRITE));
  Region region;
  region.data_ = data;
  region.size_ = rounded;
  region.writable_ = true;
  // Sealed after our own mapping: F_SEAL_FUTURE_WRITE leaves that one writable and forbids others.
  if (::fcntl(memory.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_FUTURE_WRITE) != 0)
    return fail_errno("sealing shared memory");
  region.descriptor_ = memory.release();
  return region;
}

Result<Region> Region::import(int descriptor, Bytes size) {
  Fd memory(descriptor);
  GANTRY_TRY(check_sealed(memory.get(), kSizeSeals & ~F_SEAL_SEAL, size));
  GANTRY_ASSIGN(std::byte* const data, map(memory.get(), size, PROT_READ));
  Region region;
  region.data_ = data;
  region.size_ = size;
  region.descriptor_ = memory.release();
  return region;
}

Region::Region(Region&& other) noexcept {
  *this = std::move(other);
}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(writable_, other.writable_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> Region::touch(Bytes offset, Bytes size) {
  if (offset > size_ || size > size_ - offset)
    return fail(Code::invalid_argument, fmt::format("touching bytes {} to {} of a region of {}",
                                                    offset, offset + size, size_));
  const Bytes start = offset / page_bytes() * page_bytes();
  const int advice = writable_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (::madvise(data_ + start, size + (offset - start), advice) == 0) return {};
  // Before Linux 5.14 there is no such advice: pages then come at first use, one fault each.
  if (errno == EINVAL) return {};
  return fail(Code::out_of_memory, fmt::format("making {} bytes resident: no memory left", size),
              "free memory, or lower the budget");
}

}  // namespace gantry
