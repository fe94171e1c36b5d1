#include <gantry/gemm.hpp>

#include <array>
#include <map>
#include <mutex>

#include "base/result.hpp"
#include "gemm/builtin.hpp"
#include "gemm/onednn.hpp"
#include "gemm/openblas.hpp"
#include "gemm/quickest.hpp"

namespace gantry {
namespace {

constexpr unsigned kMostThreads = 1024;

struct GemmMaker {
  std::string_view name;
  Result<std::shared_ptr<GemmLibrary>> (*make)(unsigned threads);
};

// In the order of preference. The last one takes every type and is there everywhere.
constexpr std::array kGemmMakers = {
    GemmMaker{"openblas", make_openblas_gemm},
    GemmMaker{"onednn", make_onednn_gemm},
    GemmMaker{"builtin", [](unsigned) { return make_builtin_gemm(); }},
};

Result<std::shared_ptr<GemmLibrary>> open_named(const GemmOptions& options) {
  std::string names;
  for (const GemmMaker& maker : kGemmMakers) {
    if (maker.name == options.library) return maker.make(options.threads);
    names += (names.empty() ? "" : ", ") + std::string(maker.name);
  }
  return fail(Code::not_found, fmt::format("gemm: library '{}': there is none", options.library),
              "the libraries are " + names);
}

/// What was measured in this process.
struct Measured {
  struct Key {
    std::string library;
    unsigned threads;
    Element element;
    auto operator<=>(const Key&) const = default;
  };
  std::mutex mutex;
  std::map<Key, double> seconds;
};

std::shared_ptr<GemmLibrary> open_quickest(Measured& measured, unsigned threads) {
  const std::lock_guard lock(measured.mutex);
  std::vector<std::shared_ptr<GemmLibrary>> usable;
  for (const GemmMaker& maker : kGemmMakers)
    if (auto made = maker.make(threads)) usable.push_back(std::move(*made));
  return quickest_gemm(usable, [&](GemmLibrary& library, Element element) {
    const auto [at, is_new] =
        measured.seconds.try_emplace({library.facts().library, threads, element});
    if (is_new) at->second = measure_gemm(library, element);
    return at->second;
  });
}

std::string about(const GemmFacts& facts) {
  return fmt::format("{}{}kernels: {}", facts.version, facts.version.empty() ? "" : ", ",
                     facts.core);
}

}  // namespace

GemmLibrary::~GemmLibrary() = default;

Result<std::shared_ptr<GemmLibrary>> open_gemm(const GemmOptions& options) {
  if (options.threads == 0 || options.threads > kMostThreads)
    return fail(Code::invalid_argument, fmt::format("gemm: {} threads", options.threads),
                fmt::format("ask for 1 to {}", kMostThreads));
  if (!options.library.empty()) return open_named(options);
  static Measured measured;
  return open_quickest(measured, options.threads);
}

std::vector<EngineStatus> list_gemm_libraries() {
  std::vector<EngineStatus> all;
  for (const GemmMaker& maker : kGemmMakers) {
    const auto made = maker.make(kAnyThreads);
    if (made)
      all.push_back({std::string(maker.name), true, about((*made)->facts()), {}});
    else
      all.push_back({std::string(maker.name), false, made.error().message, made.error().hint});
  }
  return all;
}

}  // namespace gantry
