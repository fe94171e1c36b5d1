#pragma once  // tools/gantry/run/file/settings.hpp: the [settings] of a pipeline file and --set.

#include "run/file/fields.hpp"
#include "run/file/substitute.hpp"

namespace gantry::run {

/// {here} and the settings in the order of the file. A value may use those before it; `overrides`
/// are taken as they are. A setting with a mistake is there, too, so that what uses it is none.
[[nodiscard]] std::vector<Setting> read_settings(const Source& source, const Fields& file,
                                                 const std::vector<Setting>& overrides,
                                                 Mistakes& mistakes);

/// `text` with its settings filled in; `what` is its name in errors.
[[nodiscard]] Result<std::string> fill_in(const Source& source, std::string_view what,
                                          const Text& text, const std::vector<Setting>& settings);

}  // namespace gantry::run
