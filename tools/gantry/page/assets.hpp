#pragma once  // tools/gantry/page/assets.hpp: the files of the page, which the program carries.

#include <array>
#include <string_view>

namespace gantry::cli {

struct Asset {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};

/// Made of page/ when the program is built (assets.cpp.in).
extern const std::array<Asset, 5> kAssets;

}  // namespace gantry::cli
