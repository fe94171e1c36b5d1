// Registering for every use: of new memory, and of a buffer that is resident already.

#include "registrar_list.hpp"
#include "resident.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

/// Has `held.bytes` registered and its key asked for.
template <class Held>
Result<void> register_memory(Registrar& registrar, Held& held) {
  held.bytes.front() = std::byte{1};
  auto registration = registrar.register_memory(held.bytes);
  if (!registration) return Unexpected(registration.error());
  const auto key = registration->key();
  if (!key) return Unexpected(key.error());
  keep(key->key + key->offset);
  held.registration = std::move(*registration);
  return {};
}

class TouchingHand {
 public:
  struct Held {
    Mapping memory;
    ByteSpan bytes;
    Registration registration;  // ends before its memory does
    explicit operator bool() const noexcept { return !bytes.empty(); }
  };
  explicit TouchingHand(std::shared_ptr<Registrar> registrar) : registrar_(std::move(registrar)) {}

  bool acquire(Bytes size, Held& held) {
    auto memory = Mapping::resident(size);
    if (!memory) {
      error_ = memory.error();
      return false;
    }
    held.memory = std::move(*memory);
    held.bytes = held.memory.bytes();
    const auto known = register_memory(*registrar_, held);
    if (known) return true;
    error_ = known.error();
    return false;
  }
  static void release(Held& held) {
    held.registration = Registration();
    held = Held();
  }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  std::shared_ptr<Registrar> registrar_;
  Error error_;
};

class RegisteringHand {
 public:
  struct Held {
    ByteSpan bytes;
    Registration registration;
    explicit operator bool() const noexcept { return !bytes.empty(); }
  };
  explicit RegisteringHand(std::shared_ptr<Registrar> registrar)
      : registrar_(std::move(registrar)) {}

  bool acquire(Bytes size, Held& held) {
    std::byte* const buffer = buffers_.take(size);
    if (buffer == nullptr) {
      error_ = {Code::out_of_memory, "no memory for another buffer", ""};
      return false;
    }
    held.bytes = {buffer, size};
    const auto known = register_memory(*registrar_, held);
    if (known) return true;
    error_ = known.error();
    return false;
  }
  void release(Held& held) {
    held.registration = Registration();
    buffers_.give(held.bytes.data(), held.bytes.size());
    held.bytes = {};
  }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  std::shared_ptr<Registrar> registrar_;
  ResidentBuffers buffers_;
  Error error_;
};

template <class Hand>
Result<std::unique_ptr<Runner>> open(const Setup& setup) {
  const auto registrar = registrar_of(setup.registrar);
  if (!registrar) return Unexpected(registrar.error());
  return std::make_unique<PatternRunner<Hand>>(setup.pattern, setup.threads, setup.cpus,
                                               [&](unsigned) { return Hand(*registrar); });
}

}  // namespace

Result<std::unique_ptr<Runner>> open_touch_and_register(const Setup& setup) {
  return open<TouchingHand>(setup);
}

Result<std::unique_ptr<Runner>> open_register(const Setup& setup) {
  return open<RegisteringHand>(setup);
}

}  // namespace gantry::bench
