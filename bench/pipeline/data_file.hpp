#pragma once  // bench/pipeline/data_file.hpp: a file of a job's, made for it and removed after.

#include "../support/system/posix.hpp"
#include "workload.hpp"

namespace gantry::bench {

/// Whether a file that is read is in the page cache.
enum class Cache : std::uint8_t { hot, cold };

/// Throws std::runtime_error with what the system says: there is no measuring without it.
class DataFile {
 public:
  DataFile();

  void write(ConstByteSpan bytes) const;
  /// `cold`: nothing of it is in the page cache any more, where the file system has one of its own.
  void prepare(Cache cache) const;
  /// Holds nothing any more.
  void empty() const;
  /// False: it is not all there.
  [[nodiscard]] bool read(std::uint64_t offset, ByteSpan to) const;

  [[nodiscard]] PipelineSource source(const Terms& terms) const;
  [[nodiscard]] PipelineSink sink(std::uint64_t size, const Terms& terms) const;

 private:
  ScratchDirectory folder_;
  std::string path_;
  std::shared_ptr<Descriptor> file_;
};

}  // namespace gantry::bench
