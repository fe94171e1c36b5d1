#pragma once  // channel/wire/notice.hpp: what EndOptions::notices asks for.

#include <chrono>
#include <cstdio>
#include <string>

namespace gantry {

/// The time after which an end says what name it waits for: a misspelt one would not show
/// otherwise.
inline constexpr std::chrono::seconds kNoticeAfter{2};

inline void say_notice(const std::string& line) {
  std::fputs(("gantry: " + line + "\n").c_str(), stderr);
}

}  // namespace gantry
