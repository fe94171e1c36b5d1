#pragma once  // bench/memory/subjects.hpp: the ways of getting memory that a device knows.

#include "pattern.hpp"

namespace gantry::bench {

inline constexpr std::string_view kTouchAndRegister = "touch-and-register-each-time";
inline constexpr std::string_view kRegister = "register-each-time";
inline constexpr std::string_view kMalloc = "malloc";
inline constexpr std::string_view kMalloc64 = "malloc-64";
inline constexpr std::string_view kLruCache = "lru-cache";
inline constexpr std::string_view kPoolEager = "gantry/pool-eager";
inline constexpr std::string_view kPoolLazy = "gantry/pool-lazy";

/// Who does what with which device.
struct Setup {
  std::string registrar;
  Pattern pattern;
  unsigned threads = 1;
  std::vector<int> cpus;
};

using OpenRunner = Result<std::unique_ptr<Runner>> (*)(const Setup&);

struct BlockSubject {
  std::string_view name;
  OpenRunner open;
  bool keeps_memory;  ///< Of the pattern's whole footprint, as long as its process lives.
};

/// All of them, the order of the report.
[[nodiscard]] const std::vector<BlockSubject>& block_subjects();

// Each opens in the process that runs it.
[[nodiscard]] Result<std::unique_ptr<Runner>> open_touch_and_register(const Setup& setup);
[[nodiscard]] Result<std::unique_ptr<Runner>> open_register(const Setup& setup);
[[nodiscard]] Result<std::unique_ptr<Runner>> open_malloc(const Setup& setup);
[[nodiscard]] Result<std::unique_ptr<Runner>> open_malloc_64(const Setup& setup);
[[nodiscard]] Result<std::unique_ptr<Runner>> open_lru_cache(const Setup& setup);
[[nodiscard]] Result<std::unique_ptr<Runner>> open_pool_eager(const Setup& setup);
[[nodiscard]] Result<std::unique_ptr<Runner>> open_pool_lazy(const Setup& setup);

}  // namespace gantry::bench
