#include "values.hpp"

#include <fmt/format.h>

#include <cstring>

#include "../support/system/posix.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
constexpr std::int64_t kMost = 3;  // of an element, either sign

/// `from` x `to` of a whole matrix.
std::vector<float> block_of(const std::string& matrix, std::int64_t row, std::int64_t rows,
                            std::int64_t col, std::int64_t cols) {
  std::vector<float> block(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j)
      block[static_cast<std::size_t>(i * cols + j)] = element_of(matrix, row + i, col + j);
  return block;
}

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

Result<void> add_term(const PlanTerm& term, const PlanRect& rect, GemmLibrary& gemm,
                      std::vector<float>& values) {
  if (term.right.empty()) {
    const auto whole =
        block_of(term.left, rect.row + term.row, rect.rows, rect.col + term.col, rect.cols);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += whole[i];
    return {};
  }
  const std::int64_t depth = term.last - term.first;
  const auto left = block_of(term.left, rect.row + term.row, rect.rows, term.first, depth);
  const auto right = block_of(term.right, term.first, depth, rect.col + term.col, rect.cols);
  return gemm.multiply({.type = {DataType::floating, 32, 1},
                        .m = rect.rows,
                        .n = rect.cols,
                        .k = depth,
                        .a = bytes_of(left),
                        .a_stride = depth,
                        .b = bytes_of(right),
                        .b_stride = rect.cols,
                        .c = reinterpret_cast<std::byte*>(values.data()),
                        .c_stride = rect.cols,
                        .adds = true});
}

float* row_of(const Plan& plan, const PlanBuffers& buffers, const PlanPlace& place,
              std::int64_t row) {
  return reinterpret_cast<float*>(buffers.tensors[place.tensor].data) +
         (place.rect.row + row) * plan.tensors[place.tensor].cols + place.rect.col;
}

}  // namespace

float element_of(const std::string& matrix, std::int64_t row, std::int64_t col) {
  std::uint64_t mix = static_cast<std::uint64_t>(row) * 0x1000003 + static_cast<std::uint64_t>(col);
  for (const char c : matrix) mix = (mix ^ static_cast<unsigned char>(c)) * kOdd;
  mix = (mix ^ (mix >> 29)) * kOdd;
  return static_cast<float>(static_cast<std::int64_t>((mix >> 40) % (2 * kMost + 1)) - kMost);
}

void store_given(const Plan& plan, const PlanBuffers& buffers, unsigned rank) {
  std::memset(buffers.region->data(), 0, buffers.region->size());
  for (const PlanValue& value : plan.given) {
    if (value.place.rank != rank) continue;
    const PlanRect& rect = value.place.rect;
    for (const PlanTerm& term : value.sum)
      for (std::int64_t i = 0; i < rect.rows; ++i)
        for (std::int64_t j = 0; j < rect.cols; ++j)
          row_of(plan, buffers, value.place, i)[j] +=
              element_of(term.left, rect.row + i + term.row, rect.col + j + term.col);
  }
}

Result<Wanted> Wanted::of(const Plan& plan, unsigned rank, GemmLibrary& gemm) {
  Wanted wanted;
  for (const PlanValue& value : plan.wanted) {
    if (value.place.rank != rank) continue;
    Block block{value.place, std::vector<float>(static_cast<std::size_t>(value.place.rect.rows *
                                                                         value.place.rect.cols))};
    for (const PlanTerm& term : value.sum)
      if (auto added = add_term(term, value.place.rect, gemm, block.values); !added)
        return Unexpected(added.error());
    wanted.blocks_.push_back(std::move(block));
  }
  return wanted;
}

Result<void> Wanted::compare(const Plan& plan, const PlanBuffers& buffers) const {
  for (const Block& block : blocks_)
    for (std::int64_t i = 0; i < block.place.rect.rows; ++i) {
      const float* const is = row_of(plan, buffers, block.place, i);
      const float* const should = block.values.data() + i * block.place.rect.cols;
      for (std::int64_t j = 0; j < block.place.rect.cols; ++j)
        if (is[j] != should[j])
          return Unexpected(
              {Code::system,
               fmt::format("wrong result: row {}, column {} is {} and should be {}",
                           block.place.rect.row + i, block.place.rect.col + j, is[j], should[j]),
               ""});
    }
  return {};
}

}  // namespace gantry::bench
