#pragma once  // pipeline/file_ends.hpp: a run's transfers between its files and its ring.

#include <gantry/pipeline.hpp>

namespace gantry {

/// Reads the source's bytes from `at` on.
[[nodiscard]] FileTransfer read_of(const PipelineSource& source, std::uint64_t at, ByteSpan to,
                                   std::shared_ptr<const void> keep);
/// Writes the sink's bytes from `at` on.
[[nodiscard]] FileTransfer write_of(const PipelineSink& sink, std::uint64_t at, ByteSpan from,
                                    std::shared_ptr<const void> keep);

/// Opens a lane of `by_hand`; if that is null, of the device's way; or of the plain one if the
/// device has none or cannot open a lane. `how` receives its description. Errors: those of
/// open_lane().
[[nodiscard]] Result<std::unique_ptr<FileLane>> open_file_lane(
    const Device& device, const std::shared_ptr<FileIo>& by_hand, FileTransfer::Kind serving,
    std::string& how);

/// Transfers and waits. Errors: as FileLane::wait().
[[nodiscard]] Result<void> transfer_now(FileLane& lane, const FileTransfer& transfer,
                                        Deadline limit);

/// The lanes of a run; null if no argument of the job is such a file. One for each thread, so that
/// each can be cancelled alone.
struct FileLanes {
  std::unique_ptr<FileLane> in;
  std::unique_ptr<FileLane> out;
  [[nodiscard]] static Result<FileLanes> open(const Device& device, const PipelineJob& job,
                                              const PipelineOptions& options, PipelinePlan& plan);
  void cancel() noexcept;
  /// What is not given back by then is left to the kernel: FileTransfer::keep.
  void drain(Deadline limit) noexcept;
};

}  // namespace gantry
