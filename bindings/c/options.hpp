#pragma once  // bindings/c/options.hpp: the options of ends, as the library takes them.

#include "handles.hpp"
#include "structs.hpp"

namespace gantry::c {

/// What every function that opens an end asks of its arguments; `*end` becomes NULL.
template <class Struct>
[[nodiscard]] Result<void> check_opening(const gantry_runtime* runtime, const char* name,
                                         Struct** end, const char* end_name) {
  GANTRY_C_TRY(clear(end, end_name));
  GANTRY_C_TRY(check_pointer(runtime, "runtime"));
  return check_pointer(name, "name");
}

[[nodiscard]] Result<ProducerOptions> producer_options_of(const gantry_producer_options* options,
                                                          const gantry_runtime& runtime);
[[nodiscard]] Result<ClientOptions> client_options_of(const gantry_producer_options* options,
                                                      const gantry_runtime& runtime);
[[nodiscard]] Result<ConsumerOptions> consumer_options_of(const gantry_consumer_options* options,
                                                          const gantry_runtime& runtime);
[[nodiscard]] Result<InboxOptions> inbox_options_of(const gantry_consumer_options* options,
                                                    const gantry_runtime& runtime);
[[nodiscard]] Result<ServerOptions> server_options_of(const gantry_consumer_options* options,
                                                      const gantry_runtime& runtime);

}  // namespace gantry::c
