#pragma once  // tools/gantry/run/file/images.hpp: the [images] of a pipeline file.

#include "run/file/fields.hpp"
#include "run/file/pipeline.hpp"

namespace gantry::run {

[[nodiscard]] std::vector<ImageFile> read_images(const Source& source, const Fields& file,
                                                 const std::vector<Setting>& settings,
                                                 Mistakes& mistakes);

/// Errors: an image has the name of a link: both are found in the run's directory.
[[nodiscard]] Result<void> check_images(const Pipeline& pipeline);

}  // namespace gantry::run
