// cuda_stub_kernels.cpp: what the stub's device can compute: the suite's kernels, by name.

#include <algorithm>
#include <cstdlib>

#include "cuda_stub.hpp"

namespace cuda_stub {
namespace {

using Word = std::uint32_t;
using Long = std::uint64_t;

// By each thread of a launch, whatever its place: x quickest.
template <class Item>
void for_each(const Launch& launch, Item item) {
  const auto items = [&](std::size_t i) { return std::size_t{launch.grid[i]} * launch.block[i]; };
  for (std::size_t z = 0; z < items(2); ++z)
    for (std::size_t y = 0; y < items(1); ++y)
      for (std::size_t x = 0; x < items(0); ++x) item(x, y);
}

void add(const Launch& launch) {
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i < launch.value<Word>(1)) launch.pointer<Word>(0)[i] += launch.value<Word>(2);
  });
}

void axpy(const Launch& launch) {
  auto* y = launch.pointer<float>(0);
  const auto* x = launch.pointer<float>(1);
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i < launch.value<Word>(3)) y[i] = launch.value<float>(2) * x[i] + y[i];
  });
}

void place(const Launch& launch) {
  const auto width = launch.value<Word>(1);
  for_each(launch, [&](std::size_t column, std::size_t row) {
    if (column < width && row < launch.value<Word>(2))
      launch.pointer<Word>(0)[row * width + column] = static_cast<Word>(row * 1000 + column);
  });
}

void sums(const Launch& launch) {
  std::vector<Word> scratch(launch.shared_bytes / sizeof(Word));
  const std::size_t block = std::min<std::size_t>(launch.block[0], scratch.size());
  const auto count = launch.value<Word>(2);
  for (std::size_t group = 0; group < launch.grid[0]; ++group) {
    Word all = 0;
    for (std::size_t l = 0; l < block; ++l) {
      const std::size_t i = group * launch.block[0] + l;
      scratch[l] = i < count ? launch.pointer<Word>(0)[i] : 0;
    }
    for (std::size_t l = 0; l < block; ++l) all += scratch[l];
    launch.pointer<Word>(1)[group] = all;
  }
}

void hold(const Launch& launch) {
  Word v = launch.pointer<Word>(0)[0] | 1;
  for (Word i = 0; i < launch.value<Word>(1); ++i) {
    v ^= v << 13;
    v ^= v >> 17;
    v ^= v << 5;
  }
  launch.pointer<Word>(0)[0] = v;
}

void write_define(const Launch& launch) {
  const std::string value = launch.module->define("VALUE");
  launch.pointer<Word>(0)[0] = static_cast<Word>(std::strtoul(value.c_str(), nullptr, 10));
}

// ---- the pipeline's ------------------------------------------------------------------------

void weigh(const Launch& launch) {
  const auto *x = launch.pointer<Word>(0), *y = launch.pointer<Word>(1);
  auto* z = launch.pointer<Word>(2);
  const auto count = launch.value<Long>(3);
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i < count) z[i] = x[i] + 3 * y[i];
  });
}

void twice(const Launch& launch) {
  auto* x = launch.pointer<Word>(0);
  const auto count = launch.value<Long>(1), first = launch.value<Long>(2);
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i < count) x[i] = 2 * x[i] + static_cast<Word>(first + i);
  });
}

void stencil(const Launch& launch) {
  const auto* x = launch.pointer<Word>(0);
  auto* y = launch.pointer<Word>(1);
  const auto width = launch.value<Word>(3);
  const Word reach = launch.value<Word>(4) + launch.value<Word>(5);
  const auto count = launch.value<Long>(2) * width;
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i >= count) return;
    Word sum = 0;
    for (Word k = 0; k <= reach; ++k) sum += (k + 1) * x[i + std::size_t{k} * width];
    y[i] = sum;
  });
}

void rows(const Launch& launch) {
  const auto *x = launch.pointer<Word>(0), *table = launch.pointer<Word>(1);
  auto* y = launch.pointer<Word>(2);
  auto* odd = launch.pointer<std::uint8_t>(3);
  const auto count = launch.value<Long>(4);
  const auto width = launch.value<Word>(5), size = launch.value<Word>(6);
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i >= count) return;
    Word sum = 0;
    for (std::size_t k = 0; k < width; ++k) sum += x[i * width + k] * table[k % size];
    y[2 * i] = sum;
    y[2 * i + 1] = ~sum;
    odd[i] = sum & 1;
  });
}

void copy_words(const Launch& launch) {
  constexpr std::size_t kWords = 4;  // of a thread
  const auto* from = launch.pointer<Word>(0);
  auto* to = launch.pointer<Word>(1);
  const auto count = launch.value<Long>(2);
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i < count) std::copy_n(from + i * kWords, kWords, to + i * kWords);
  });
}

void total(const Launch& launch) {
  const auto* x = launch.pointer<Word>(0);
  auto* part = launch.pointer<Long>(1);
  const auto count = launch.value<Long>(2);
  const auto items = launch.value<Word>(3);
  for_each(launch, [&](std::size_t i, std::size_t) {
    for (Long k = i; i < items && k < count; k += items) part[i] += x[k];
  });
}

// ---- of gantry bench pipeline --------------------------------------------------------------

void vector_add(const Launch& launch) {
  const auto *x = launch.pointer<float>(0), *y = launch.pointer<float>(1);
  auto* z = launch.pointer<float>(2);
  const auto count = launch.value<Long>(3);
  for_each(launch, [&](std::size_t i, std::size_t) {
    if (i < count) z[i] = x[i] + y[i];
  });
}

// Until the test opens it.
void gate(const Launch&) {
  std::unique_lock lock(stub().mutex);
  ++stub().gate_entered;
  stub().changed.notify_all();
  stub().changed.wait(lock, [] { return stub().gate_is_open; });
}

}  // namespace

const std::map<std::string, StubKernel>& kernels() {
  static const auto& all = *new std::map<std::string, StubKernel>{
      {"add", {{8, 4, 4}, {0}, add}},
      {"axpy", {{8, 8, 4, 4}, {0, 1}, axpy}},
      {"place", {{8, 4, 4}, {0}, place}},
      {"sums", {{8, 8, 4}, {0, 1}, sums}},
      {"hold", {{8, 4}, {0}, hold}},
      {"k", {{8}, {0}, write_define}},
      {"gate", {{}, {}, gate}},
      {"weigh", {{8, 8, 8, 8}, {0, 1, 2}, weigh}},
      {"twice", {{8, 8, 8}, {0}, twice}},
      {"stencil", {{8, 8, 8, 4, 4, 4}, {0, 1}, stencil}},
      {"rows", {{8, 8, 8, 8, 8, 4, 4}, {0, 1, 2, 3}, rows}},
      {"total", {{8, 8, 8, 4}, {0, 1}, total}},
      {"copy_words", {{8, 8, 8}, {0, 1}, copy_words}},
      {"i32", {{8, 8, 8, 32, 48}, {0, 1, 2}, multiply_i32}},
      {"i64", {{8, 8, 8, 32, 48}, {0, 1, 2}, multiply_i64}},
      {"vector_add", {{8, 8, 8, 8}, {0, 1, 2}, vector_add}},
  };
  return all;
}

}  // namespace cuda_stub
