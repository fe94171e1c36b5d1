#pragma once  // tools/gantry/run/process/images.hpp: keeps a pipeline's images while it runs.

#include <gantry/image.hpp>

#include <mutex>
#include <optional>
#include <thread>

#include "run/file/pipeline.hpp"
#include "run/process/pipes.hpp"

namespace gantry::run {

/// A thread that keeps them in the run's directory, from before the first stage is started to the
/// end of the last. It keeps none if the pipeline has none.
class RunImages {
 public:
  /// Errors: those of ImageKeeper::open(), with their place in the file.
  [[nodiscard]] static Result<std::unique_ptr<RunImages>> start(const Pipeline& pipeline,
                                                                const std::string& directory);
  RunImages(const RunImages&) = delete;
  RunImages& operator=(const RunImages&) = delete;
  ~RunImages();

  /// Readable when an image could not be loaded. -1: there are none.
  [[nodiscard]] int failed_descriptor() const noexcept { return failed_.read_end.get(); }
  /// Ends the keeping. Errors: why an image could not be loaded.
  [[nodiscard]] Result<void> stop();

 private:
  RunImages() = default;
  void serve();
  void fail(std::string why);

  Pipe stop_;
  Pipe failed_;
  std::optional<ImageKeeper> keeper_;
  std::thread thread_;
  std::mutex mutex_;
  Result<void> end_;
};

}  // namespace gantry::run
