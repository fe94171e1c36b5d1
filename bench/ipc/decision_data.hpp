#pragma once  // bench/ipc/decision_data.hpp: numbers that somebody decides about, and how that is
              // done without planes.

#include <gantry/decision.hpp>

#include "../support/trips/subject.hpp"

namespace gantry::bench {

inline constexpr std::size_t kRowElements = 64;

/// A case's numbers and what is asked of them: the largest 5 logits, or the nearest 5 rows.
class DecisionData {
 public:
  explicit DecisionData(const Case& what)
      : asked_(what.asked), count_(what.bytes / sizeof(float)) {}

  /// Makes the numbers of the words of a payload. Logits are about normal. Rows are near some of a
  /// thousand centres, and elements of a group of 8 are alike.
  void make(float* numbers, ConstByteSpan payload) const;

  [[nodiscard]] Decision question() const;
  [[nodiscard]] Tensor tensor() const;
  /// In planes of bytes; rows with bounds of every 8 elements in front.
  [[nodiscard]] PlanedElements elements() const;

  /// The same question without planes: takes the numbers as they come, reads each once in vectors.
  class Scan {
   public:
    explicit Scan(const DecisionData& data);
    /// All numbers so far, from the first on. Those of a row that has begun are looked at later.
    void look(std::span<const float> numbers);
    [[nodiscard]] std::vector<std::size_t> answer();

   private:
    struct Found {
      double score;  // the largest is first
      std::size_t index;
    };
    void put(double score, std::size_t index);
    void look_at_logits(std::span<const float> numbers);
    void look_at_rows(std::span<const float> numbers);

    static bool is_better(const Found& a, const Found& b) noexcept;

    Asked asked_;
    std::vector<float> query_;
    std::size_t done_ = 0;     // numbers
    std::vector<Found> best_;  // a heap, the worst in front
    double limit_;             // what is below is not among the best
  };

 private:
  Asked asked_;
  std::size_t count_;
};

/// What is sent back of an answer.
[[nodiscard]] std::uint64_t sum_of(const std::vector<std::size_t>& indices) noexcept;

}  // namespace gantry::bench
