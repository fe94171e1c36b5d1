#pragma once  // tests/support/dsa/test_model.hpp: one descriptor at a time for the tests of the
              // model.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/dsa/device_model.hpp"

namespace gantry::dsa {

using Buffer = std::vector<std::byte>;

inline constexpr Flags kAnswered = Flags::completion_valid | Flags::request_completion;

inline constexpr Opcode kUnknown{0x07};  // the model knows it no more than the engine does

inline Buffer random_bytes(Bytes bytes, std::uint64_t seed) {
  Buffer buffer(bytes);
  std::mt19937_64 dice(seed);
  for (std::byte& byte : buffer) byte = static_cast<std::byte>(dice());
  return buffer;
}

/// A descriptor and the record it answers in; stays where it is until answered.
struct Order {
  Descriptor descriptor;
  CompletionRecord record;

  Order() { set(Opcode::noop); }
  explicit Order(Opcode opcode) { set(opcode); }
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  void set(Opcode opcode, Flags flags = kAnswered) {
    descriptor.set(opcode, flags);
    descriptor.completion = address_of(&record);
  }
  /// Adds to the flags that are set.
  void also(Flags flags) { descriptor.set(descriptor.opcode(), descriptor.flags() | flags); }
  void of(const void* source, const void* destination, Bytes bytes) {
    descriptor.source = address_of(source);
    descriptor.destination = address_of(destination);
    descriptor.size = static_cast<std::uint32_t>(bytes);
  }
  [[nodiscard]] bool answered() { return load_status(record) != 0; }
  Status await() {
    while (!answered()) std::this_thread::yield();
    return status_in(load_status(record));
  }
};

inline std::unique_ptr<DeviceModel> make_model(const ModelOptions& options = {}) {
  auto model = DeviceModel::create(options);
  if (!model) throw std::runtime_error(to_string(model.error()));
  return std::move(*model);
}

inline void submit(DeviceModel& model, const Descriptor& descriptor) {
  while (model.enqcmd(descriptor)) std::this_thread::yield();
}

/// To a shared queue, until it is answered.
inline Status run(DeviceModel& model, Order& order) {
  order.record = {};
  submit(model, order.descriptor);
  return order.await();
}

/// Goes on after page faults by the published rule. How many there were.
inline unsigned run_to_the_end(DeviceModel& model, Order& order) {
  Descriptor& rest = order.descriptor;
  for (unsigned faults = 0;; ++faults) {
    if (run(model, order) != Status::page_fault) return faults;
    const std::uint32_t done = order.record.bytes_completed;
    rest.size -= done;
    if (order.record.result == 1) continue;
    if (rest.opcode() == Opcode::memfill)  // the pattern begins anew, so it must be turned
      rest.source = std::rotr(rest.source, static_cast<int>(done % 8 * 8));
    else
      rest.source += done;
    rest.destination += done;
  }
}

/// Pages of which some can be taken away.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * page()),
        memory_(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static Bytes page() { return static_cast<Bytes>(::sysconf(_SC_PAGESIZE)); }
  [[nodiscard]] std::byte* at(Bytes offset) const {
    return static_cast<std::byte*>(memory_) + offset;
  }
  void protect(std::size_t index, int protection) const {
    ASSERT_EQ(::mprotect(at(index * page()), page(), protection), 0);
  }

 private:
  Bytes bytes_;
  void* memory_;
};

}  // namespace gantry::dsa
