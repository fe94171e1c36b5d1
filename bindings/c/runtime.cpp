#include <cstring>
#include <gantry/runtime.hpp>
#include <string>

#include "handles.hpp"
#include "structs.hpp"
#include "tools/status/channel_json.hpp"

using gantry::Code;
using gantry::Result;
namespace c = gantry::c;

const char* gantry_version(void) {
  return gantry::version().data();  // a literal, so it ends with a NUL
}

void gantry_free(void* handle) {
  delete static_cast<c::Handle*>(handle);
}

gantry_code gantry_runtime_create(const gantry_runtime_options* options, gantry_runtime** runtime) {
  return c::guarded([&]() -> Result<void> {
    GANTRY_C_TRY(c::clear(runtime, "runtime"));
    GANTRY_C_ASSIGN(const gantry_runtime_options given,
                    c::read_struct(options, "gantry_runtime_options"));
    gantry::RuntimeOptions made;
    if (given.directory != nullptr) made.directory = given.directory;
    if (given.engine != nullptr) made.engine = given.engine;
    const std::string directory = made.directory;
    GANTRY_C_ASSIGN(gantry::Runtime created, gantry::Runtime::create(made));
    c::hand_out(runtime, std::move(created), directory,
                c::interrupt_of(given.interrupt_descriptor, -1));
    return {};
  });
}

gantry_code gantry_status_json(gantry_runtime* runtime, char* buffer, std::size_t capacity,
                               std::size_t* needed) {
  return c::guarded([&]() -> Result<void> {
    if (needed != nullptr) *needed = 0;
    GANTRY_C_TRY(c::check_pointer(runtime, "runtime"));
    GANTRY_C_ASSIGN(const std::string directory, gantry::channel_directory(runtime->directory));
    GANTRY_C_ASSIGN(const auto channels, gantry::list_channels(directory));
    const std::string text = gantry::cli::channels_json(channels);
    if (needed != nullptr) *needed = text.size() + 1;
    if (text.size() >= capacity || buffer == nullptr)
      return c::fail(Code::too_large,
                     "the status takes " + std::to_string(text.size() + 1) + " bytes of " +
                         std::to_string(capacity),
                     "ask again with a larger buffer");
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return {};
  });
}
