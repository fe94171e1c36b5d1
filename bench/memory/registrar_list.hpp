#pragma once  // bench/memory/registrar_list.hpp: the devices that blocks are registered with.

#include <gantry/memory.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry::bench {

/// Those this benchmark knows, usable here or not: "page-lock", "uring", "fabric-tcp", ...
[[nodiscard]] std::vector<std::string> registrar_names();

/// Made in the process that uses it: some start threads, and none outlives a fork.
[[nodiscard]] Result<std::shared_ptr<Registrar>> registrar_of(const std::string& name);

}  // namespace gantry::bench
