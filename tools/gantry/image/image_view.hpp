#pragma once  // tools/gantry/image/image_view.hpp: what is said of an image.

#include <gantry/image.hpp>
#include <nlohmann/json_fwd.hpp>

namespace gantry::cli {

/// "a.gimg: 3 tensors, 12 MiB in 8 MiB; 2 chunks by zstd, 1 as it is; digest 0123...\n"
[[nodiscard]] std::string image_facts(const Image& image);
/// What Image::verify() has compared.
[[nodiscard]] std::string image_verified(const Image& image);
[[nodiscard]] std::string image_table(const Image& image);  ///< Its tensors, a line each.
[[nodiscard]] nlohmann::json image_json(const Image& image, bool with_tensors);

}  // namespace gantry::cli
