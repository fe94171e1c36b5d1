#pragma once  // tools/gantry/run/file/hosts.hpp: the [hosts] of a pipeline file.

#include "run/file/fields.hpp"
#include "run/file/pipeline.hpp"

namespace gantry::run {

[[nodiscard]] Result<std::vector<Host>> read_hosts(const Source& source, const Fields& file,
                                                   const std::vector<Setting>& settings);

/// An address and a port: "10.0.0.2:5000", "[fe80::1]:5000"; without brackets in `host`.
struct Address {
  std::string host;
  std::string port;  ///< Empty: none was given.
  /// As gantry bridge and NAME@HOST take it.
  [[nodiscard]] std::string text() const;
};

/// The error's message gives only the reason.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

}  // namespace gantry::run
