#pragma once  // fabric/library.hpp: libfabric, opened when it is first used.

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

struct fi_info;
struct fi_fabric_attr;
struct fid_fabric;

namespace gantry {

/// Functions that are called by name; all else goes through the objects they return. They come in
/// several versions, of which dlsym() returns the newest: later ones only append to the structures,
/// and the library makes all structures here.
struct FabricLibrary {
  int (*getinfo)(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
                 const fi_info* hints, fi_info** info) = nullptr;
  void (*freeinfo)(fi_info* info) = nullptr;
  fi_info* (*dupinfo)(const fi_info* info) = nullptr;
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) = nullptr;
  const char* (*strerror)(int error) = nullptr;
  std::string missing;  ///< Why the library cannot be used; empty when it can.
};

/// Not linked but opened at the first call, since loading it with all that it brings along takes a
/// fifth of a second. A library's code stays loaded, so this is a constant, not state.
[[nodiscard]] const FabricLibrary& libfabric();

/// The libraries behind libfabric install handlers for SIGINT, SIGSEGV and others when they are
/// loaded. Handlers are the program's business, so this puts its own back.
class KeptHandlers {
 public:
  KeptHandlers() noexcept {
    for (int number = 1; number < kSignals; ++number)
      ::sigaction(number, nullptr, &before_[static_cast<std::size_t>(number)]);
  }
  ~KeptHandlers() {
    for (int number = 1; number < kSignals; ++number)
      ::sigaction(number, &before_[static_cast<std::size_t>(number)], nullptr);
  }
  KeptHandlers(const KeptHandlers&) = delete;
  KeptHandlers& operator=(const KeptHandlers&) = delete;

 private:
  static constexpr int kSignals = 32;  // the classic ones
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace gantry
