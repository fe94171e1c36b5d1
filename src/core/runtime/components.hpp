#pragma once  // runtime/components.hpp: what the linked components add to the core.

#include <gantry/runtime.hpp>
#include <map>

#include "core/runtime/engine_makers.hpp"

namespace gantry {

/// Opens ends whose channel is on another host: NAME@HOST. Errors of all four: those of the same
/// call for a channel of this host, and `not_found` (no such host, no bridge there),
/// `permission_denied` (another token), `unsupported` (a build without libsodium).
struct RemoteOpeners {
  Result<Producer> (*producer)(std::string_view name, ProducerOptions options,
                               std::shared_ptr<Engine> engine);
  Result<Consumer> (*consumer)(std::string_view name, ConsumerOptions options,
                               std::shared_ptr<Engine> engine, Deadline deadline);
  Result<Producer> (*connect)(std::string_view inbox, ProducerOptions options,
                              std::shared_ptr<Engine> engine, Deadline deadline);
  Result<Client> (*client)(std::string_view server, ClientOptions options,
                           std::shared_ptr<Engine> engine, Deadline deadline);
};

/// The methods of Runtime about devices; `engine` copies for the processor as a device.
struct DeviceOpeners {
  Result<std::shared_ptr<Device>> (*open)(std::string_view name,
                                          const std::shared_ptr<Engine>& engine);
  std::vector<EngineStatus> (*list)();
};

using MakeRegistrar = Result<std::shared_ptr<Registrar>> (*)(const RegistrarSetup& setup);

/// What one component adds. A null or absent member belongs to another component.
struct Component {
  /// From shape: a plan that stands for its class, with about so many bytes of destination.
  Result<ReshapePlan> (*sample_reshape)(ReshapeClass kind, Bytes destination_bytes) = nullptr;
  std::optional<RemoteOpeners> remote{};                ///< From net.
  std::vector<EngineMaker> engines{};                   ///< From device.
  std::map<RegistrarKind, MakeRegistrar> registrars{};  ///< From net and device.
  std::optional<DeviceOpeners> devices{};               ///< From device.
  const Component* next = nullptr;                      ///< The one added before.
};

/// Called while the library of a component is loaded: before main(), or later within dlopen() while
/// other threads read. `one` lives to the end of the process.
void add_component(Component& one) noexcept;
[[nodiscard]] const Component* newest_component() noexcept;

/// The first of `member(component)` that is not null; null without one.
template <class Member>
[[nodiscard]] auto find_in_components(Member member) {
  for (const Component* one = newest_component(); one != nullptr; one = one->next)
    if (auto found = member(*one)) return found;
  return decltype(member(*newest_component())){};
}

}  // namespace gantry

/// Once in a component: what is done while a program starts that is linked with it, before all of
/// the program's own constructors. The linker is told to look for the name, so that the file is
/// linked though nothing calls it.
#define GANTRY_COMPONENT(name, ...)                                                          \
  extern "C"                                                                                 \
      [[gnu::visibility("default"), gnu::constructor(101)]] void gantry_component_##name() { \
    __VA_ARGS__;                                                                             \
  }
