#pragma once  // bench/pipeline/settings.hpp: what a run of this benchmark was asked for.

#include <array>
#include <gantry/pipeline.hpp>
#include <string>
#include <vector>

#include "../support/program/options.hpp"

namespace gantry::bench {

/// The modes that are compared, the order of the report.
inline constexpr std::array kModes = {
    PipelineMode::sequential,          PipelineMode::sequential_pinned,
    PipelineMode::overlapped_pageable, PipelineMode::overlapped_pinned,
    PipelineMode::unbatched,           PipelineMode::automatic};
/// The ways to files that are compared: by functions of the caller's, which block the run's
/// threads, and as make_file_io() knows them.
inline constexpr std::string_view kBlocking = "blocking";
inline constexpr std::array<std::string_view, 3> kFileWays = {kBlocking, "pread", "io_uring"};
inline constexpr std::array<std::string_view, 3> kDevices = {"cpu", "opencl", "cuda"};

struct Settings {
  Options common;
  std::vector<std::string> cases;
  std::vector<std::string> modes;
  std::vector<std::string> devices;
  Bytes device_bytes = 0;  ///< Most device memory for chunks; 0: what the library takes.
  bool sweeps = false;
  bool copies = false;  ///< `automatic` computes nowhere but in the device's memory.
  std::string trace;    ///< The file; empty: none.

  [[nodiscard]] bool has_mode(PipelineMode mode) const noexcept;
  [[nodiscard]] bool has_subject(std::string_view name) const noexcept;
};

/// What this benchmark says of itself, and its options, which put what they are told into
/// `settings`.
[[nodiscard]] Manual manual(Settings& settings);

}  // namespace gantry::bench
