#pragma once  // bench/pipeline/workload.hpp: a case's data, what is computed of it, and what is
              // right.

#include <deque>
#include <gantry/pipeline.hpp>
#include <memory>
#include <vector>

#include "../support/system/buffer.hpp"
#include "../support/system/posix.hpp"
#include "kernel_text.hpp"

namespace gantry::bench {

/// One array on the host, on pages of its own, all of them there.
class Array {
 public:
  explicit Array(Bytes bytes);

  template <class T>
  [[nodiscard]] std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(pages_.bytes().data()), bytes_ / sizeof(T)};
  }
  [[nodiscard]] ByteSpan bytes() const noexcept { return pages_.bytes().first(bytes_); }
  [[nodiscard]] ByteSpan pages() const noexcept { return pages_.bytes(); }

 private:
  Bytes bytes_;
  Buffer pages_;
};

/// One who takes the job's arrays from where they are.
struct Terms {
  Cut cut;
  bool is_registered = false;  ///< The arrays are, with the device.
  bool is_blocking = false;    ///< Files are read and written by functions of the caller's.
};

/// The data of one case at one size; all subjects work on the same.
class Workload {
 public:
  explicit Workload(std::uint64_t steps) noexcept : steps_(steps) {}
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] const std::deque<Array>& arrays() const noexcept { return arrays_; }

  [[nodiscard]] virtual PipelineJob job(const Kernel& kernel, const Terms& terms) = 0;
  /// Before each run: what is read is there, what is written holds nothing that is right.
  virtual void prepare() = 0;
  /// After it, with the chunks that there were: a plain loop's results against those in memory.
  /// Of very many steps some, both ends of every chunk among them. Errors: `peer_misbehaved`.
  [[nodiscard]] virtual Result<void> check(std::span<const ChunkTimes> chunks) const = 0;

 protected:
  Array& add_array(Bytes bytes) { return arrays_.emplace_back(bytes); }
  [[nodiscard]] static PipelineSource source(const Array& array, const Terms& terms);
  [[nodiscard]] static PipelineSink sink(const Array& array, const Terms& terms);
  /// Asks `is_right` of all steps, or of about `most` of them.
  [[nodiscard]] Result<void> check_steps(
      std::span<const ChunkTimes> chunks, std::uint64_t most,
      const std::function<bool(std::uint64_t step)>& is_right) const;

 private:
  std::uint64_t steps_;
  std::deque<Array> arrays_;
};

/// A workload all of whose results are numbers that chunks add to.
class Reduction : public Workload {
 public:
  using Workload::Workload;

  void prepare() override { std::fill(totals_.begin(), totals_.end(), 0); }
  [[nodiscard]] Result<void> check(std::span<const ChunkTimes> chunks) const override;

 protected:
  /// What a plain loop finds; from it on there are so many totals.
  void expect(std::vector<std::uint64_t> totals);
  /// Adds the words of each part to the totals: one by one, or where there is one, all to that.
  template <class Word>
  [[nodiscard]] PipelineJob::Fold fold() {
    return [this](ConstByteSpan part, const Chunk&) -> Result<void> {
      const auto* const words = reinterpret_cast<const Word*>(part.data());
      for (std::size_t i = 0; i < part.size() / sizeof(Word); ++i)
        totals_[i % totals_.size()] += words[i];
      return {};
    };
  }

 private:
  std::vector<std::uint64_t> totals_;
  std::vector<std::uint64_t> expected_;
};

/// Numbers that look like chance: the same for the same `i` and `salt`.
[[nodiscard]] constexpr std::uint64_t noise(std::uint64_t i, std::uint64_t salt = 0) noexcept {
  std::uint64_t x = i * 0x9e3779b97f4a7c15 + salt * 0xd1b54a32d192ed03 + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

/// Calls `part` with `count` shared out among all CPUs, from a thread for each.
void share_out(std::uint64_t count,
               const std::function<void(std::uint64_t first, std::uint64_t last)>& part);
/// Fills `values` with what `of` says of each index.
template <class T, class Of>
void fill(std::span<T> values, const Of& of) {
  share_out(values.size(), [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) values[i] = of(i);
  });
}
/// Bytes that stand for no result.
void spoil(const Array& array);

}  // namespace gantry::bench
