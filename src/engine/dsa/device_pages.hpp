#pragma once  // engine/dsa/device_pages.hpp: memory that a device writes to on its own.

#include <sys/mman.h>

#include <new>
#include <type_traits>
#include <utility>

namespace gantry::dsa {

/// A T in present pages of its own, locked if the process may lock: a record that was swapped out
/// would never be answered. Throws std::bad_alloc.
template <class T>
class DevicePages {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  DevicePages() {
    void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    static_cast<void>(::mlock(at, sizeof(T)));
    value_ = new (at) T();
  }
  ~DevicePages() {
    if (value_ != nullptr) ::munmap(value_, sizeof(T));
  }
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }
  /// Never frees the pages: the device may still write.
  void leave() noexcept { value_ = nullptr; }

 private:
  T* value_;
};

}  // namespace gantry::dsa
