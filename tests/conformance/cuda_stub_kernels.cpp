// cuda_stub_kernels.cpp: what the stub's device can compute: the suite's kernels, by name.

#include <algorithm>
#include <cstdlib>

#include "cuda_stub.hpp"

namespace cuda_stub {
namespace {

using Word = std::uint32_t;

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
      {"add", {{8, 4, 4}, {0}, add}},     {"axpy", {{8, 8, 4, 4}, {0, 1}, axpy}},
      {"place", {{8, 4, 4}, {0}, place}}, {"sums", {{8, 8, 4}, {0, 1}, sums}},
      {"hold", {{8, 4}, {0}, hold}},      {"k", {{8}, {0}, write_define}},
      {"gate", {{}, {}, gate}},
  };
  return all;
}

}  // namespace cuda_stub
