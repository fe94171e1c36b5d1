#pragma once  // device/cuda/symbols.hpp: functions of a library that was opened.

#include <dlfcn.h>

#include <optional>

namespace gantry::cuda {

template <class Function>
bool find(void* library, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// What `load` makes of the file at `path`, or of the first of `names` with which it can; null ends
/// those. Files stay loaded.
template <class Library>
std::optional<Library> load_first(const char* path, const char* const* names,
                                  std::optional<Library> (*load)(const char* file)) {
  if (path != nullptr) return load(path);
  for (; *names != nullptr; ++names)
    if (auto loaded = load(*names)) return loaded;
  return std::nullopt;
}

}  // namespace gantry::cuda
