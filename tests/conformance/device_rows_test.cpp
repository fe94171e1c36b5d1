#include <gmock/gmock.h>

#include <limits>

#include "device_suite.hpp"

// Copies of rows on every device: each byte of both sides, and what is refused.
namespace gantry {
namespace {

using testing::HasSubstr;
using DeviceRows = DeviceConformance;
using Memory = std::vector<std::byte>;

constexpr Bytes kFar = std::numeric_limits<Bytes>::max();

Bytes end_of(const CopyRows& rows, Bytes stride) {
  return rows.is_empty() ? 0 : (rows.rows - 1) * stride + rows.row_bytes;
}

/// What lies at the destination when all is over.
Memory after(Memory to, Bytes to_offset, const Memory& from, Bytes from_offset,
             const CopyRows& rows) {
  for (Bytes row = 0; row < rows.rows; ++row)
    for (Bytes i = 0; i < rows.row_bytes; ++i)
      to[to_offset + row * rows.to_stride + i] = from[from_offset + row * rows.from_stride + i];
  return to;
}

// Odd ones; dense on one side and on both; a single one; none; strides of CUDA's own making; more
// than the cpu device does by itself.
const CopyRows kCases[] = {{5, 7, 7, 11},        {5, 7, 11, 7},          {3, 1, 4, 2},
                           {17, 33, 40, 64},     {4, 16, 16, 16},        {1, 100, 0, 3},
                           {0, 8, 8, 8},         {9, 0, 8, 8},           {6, 100, 512, 1024},
                           {300, 500, 512, 512}, {129, 1025, 1030, 2048}};

class RowsInMemory {
 public:
  RowsInMemory(const CopyRows& rows, Bytes to_offset, Bytes from_offset)
      : rows_(rows),
        to_offset_(to_offset),
        from_offset_(from_offset),
        to_(random_bytes(to_offset + end_of(rows, rows.to_stride) + 9, 1)),
        from_(random_bytes(from_offset + end_of(rows, rows.from_stride) + 9, 2)) {}
  [[nodiscard]] const Memory& to() const { return to_; }
  [[nodiscard]] const Memory& from() const { return from_; }
  [[nodiscard]] Memory wanted() const {
    return rows_.is_empty() ? to_ : after(to_, to_offset_, from_, from_offset_, rows_);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} rows of {}, {} apart to {} apart, from {} to {}", rows_.rows,
                       rows_.row_bytes, rows_.from_stride, rows_.to_stride, from_offset_,
                       to_offset_);
  }

 private:
  CopyRows rows_;
  Bytes to_offset_;
  Bytes from_offset_;
  Memory to_;
  Memory from_;
};

TEST_P(DeviceRows, OfEachKindLandWhereTheyBelongAndNowhereElse) {
  for (const CopyRows& rows : kCases)
    for (const Bytes offset : {Bytes{0}, Bytes{5}}) {
      const RowsInMemory memory(rows, offset, 2 * offset);
      const auto from = std::span(memory.from());
      const DeviceBuffer there = buffer(memory.to().size());
      const DeviceBuffer here = buffer(memory.from().size());
      Memory in(memory.to().size()), within(memory.to().size()), out = memory.to();
      ok(in_->copy_in(here, 0, from));
      ok(in_->copy_in(there, 0, memory.to()));
      ok(in_->copy_in_rows(there, offset, from.subspan(2 * offset), rows));
      ok(in_->copy_out(there, 0, in));
      ok(in_->copy_in(there, 0, memory.to()));
      ok(in_->copy_rows(there, offset, here, 2 * offset, rows));
      ok(in_->copy_out(there, 0, within));
      ok(in_->copy_out_rows(here, 2 * offset, std::span(out).subspan(offset), rows));
      ok(in_->drain());
      EXPECT_EQ(in, memory.wanted()) << "copy-in of " << memory.text();
      EXPECT_EQ(within, memory.wanted()) << "copy of " << memory.text();
      EXPECT_EQ(out, memory.wanted()) << "copy-out of " << memory.text();
    }
}

TEST_P(DeviceRows, OfOneBufferGoToOtherColumnsAndRows) {
  constexpr Bytes kStride = 40;
  const Memory before = random_bytes(20 * kStride, 3);
  const DeviceBuffer there = buffer(before.size());
  struct Case {
    Bytes to, from;
    CopyRows rows;
  };
  for (const Case& one : {Case{20, 0, {20, 20, kStride, kStride}},  // the right half
                          Case{0, 20, {20, 20, kStride, kStride}},
                          Case{60, 0, {10, 20, kStride, kStride}},      // a row further down
                          Case{35, 7, {19, 12, kStride, kStride}},      // beyond the row's end
                          Case{400, 0, {10, 40, kStride, kStride}}}) {  // the lower half
    Memory back(before.size());
    ok(in_->copy_in(there, 0, before));
    ok(in_->copy_rows(there, one.to, there, one.from, one.rows));
    ok(in_->copy_out(there, 0, back));
    ok(in_->drain());
    EXPECT_EQ(back, after(before, one.to, before, one.from, one.rows)) << one.to << " " << one.from;
  }
  const auto refusal = [&](Bytes to, Bytes from, const CopyRows& rows) {
    return error_of(in_->copy_rows(there, to, there, from, rows)).message;
  };
  EXPECT_THAT(refusal(19, 0, {20, 20, kStride, kStride}), HasSubstr("the rows overlap"));
  EXPECT_THAT(refusal(21, 0, {19, 20, kStride, kStride}), HasSubstr("the rows overlap"));
  EXPECT_THAT(refusal(40, 0, {10, 20, kStride, kStride}), HasSubstr("the rows overlap"));
  EXPECT_THAT(refusal(0, 0, {1, 1, 0, 0}), HasSubstr("the rows overlap"));
  EXPECT_THAT(refusal(400, 0, {10, 20, kStride, 20}), HasSubstr("20 apart to 40 apart"));
  ok(in_->drain());
}

TEST_P(DeviceRows, ThatCannotBeAreRefusedWithTheNumbers) {
  const DeviceBuffer there = buffer(100);
  Memory host(100);
  const auto refusals = [&](const CopyRows& rows) {
    const CopyRows turned{rows.rows, rows.row_bytes, rows.from_stride, rows.to_stride};
    const DeviceBuffer other = buffer(100);
    std::string all;
    for (const Error& error : {error_of(in_->copy_in_rows(there, 1, host, rows)),
                               error_of(in_->copy_out_rows(there, 1, host, turned)),
                               error_of(in_->copy_rows(there, 1, other, 0, rows))}) {
      EXPECT_EQ(error.code, Code::invalid_argument) << error.message;
      EXPECT_THAT(error.message, HasSubstr(device_->facts().name));
      all += error.message + "\n";
    }
    return all;
  };
  EXPECT_THAT(refusals({2, 10, 9, 10}), HasSubstr("a stride is shorter than a row"));
  EXPECT_THAT(refusals({2, 10, 90, 10}), HasSubstr("in a buffer of 100 bytes"));  // one too many
  EXPECT_THAT(refusals({3, 10, kFar / 2, 10}), HasSubstr("beyond all memory"));
  EXPECT_THAT(refusals({kFar, 2, 2, 2}), HasSubstr("beyond all memory"));
  EXPECT_THAT(refusals({2, kFar, kFar, kFar}), HasSubstr("beyond all memory"));
  const CopyRows wide{2, 10, 10, 91};
  EXPECT_THAT(error_of(in_->copy_in_rows(there, 0, host, wide)).message,
              HasSubstr("take 101 bytes of host memory, there are 100"));
  EXPECT_THAT(error_of(in_->copy_in_rows(there, 0, {}, wide)).message, HasSubstr("address 0"));
  EXPECT_EQ(error_of(in_->copy_in_rows({}, 0, host, {1, 1, 1, 1})).code, Code::invalid_argument);
  ok(in_->drain());
}

// Memory of the caller's that the device works on where it lies: copies to the same place move
// nothing and make it visible.
TEST_P(DeviceRows, InPlaceStayWhereTheyAre) {
  const Bytes alignment = device_->facts().in_place_alignment;
  if (alignment == 0) GTEST_SKIP() << "it has memory of its own only";
  const Bytes size = (Bytes{4096} + alignment - 1) / alignment * alignment;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(alignment, size)), std::free);
  const Memory sent = random_bytes(size, 4);
  std::ranges::copy(sent, memory.get());
  const ByteSpan all(memory.get(), size);
  const auto made = device_->over(all);
  ASSERT_TRUE(made) << to_string(made.error());
  const CopyRows rows{10, 30, 64, 64};
  ok(in_->copy_in_rows(*made, 128, all.subspan(128), rows));
  ok(in_->fill(*made, 128, 1, std::byte{0x5a}));
  ok(in_->copy_out_rows(*made, 128, all.subspan(128), rows));
  ok(in_->drain());
  Memory wanted = sent;
  wanted[128] = std::byte{0x5a};
  EXPECT_EQ(Memory(all.begin(), all.end()), wanted);
}

/// A queue that knows no rows.
class PlainQueue final : public DeviceQueue {
 public:
  explicit PlainQueue(DeviceQueue& queue) : queue_(queue) {}
  [[nodiscard]] QueueRole role() const noexcept override { return queue_.role(); }
  [[nodiscard]] Result<DeviceEvent> copy_in(const DeviceBuffer& to, Bytes offset,
                                            ConstByteSpan from, KeepAlive keep) override {
    return queue_.copy_in(to, offset, from, std::move(keep));
  }
  [[nodiscard]] Result<DeviceEvent> copy_out(const DeviceBuffer& from, Bytes offset, ByteSpan to,
                                             KeepAlive keep) override {
    return queue_.copy_out(from, offset, to, std::move(keep));
  }
  [[nodiscard]] Result<DeviceEvent> copy(const DeviceBuffer& to, Bytes to_offset,
                                         const DeviceBuffer& from, Bytes from_offset,
                                         Bytes size) override {
    return queue_.copy(to, to_offset, from, from_offset, size);
  }
  [[nodiscard]] Result<DeviceEvent> fill(const DeviceBuffer& to, Bytes offset, Bytes size,
                                         std::byte value) override {
    return queue_.fill(to, offset, size, value);
  }
  [[nodiscard]] Result<DeviceEvent> launch(const Kernel& kernel,
                                           std::span<const KernelArgument> arguments,
                                           const LaunchRange& range) override {
    return queue_.launch(kernel, arguments, range);
  }
  [[nodiscard]] Result<DeviceEvent> record() override { return queue_.record(); }
  [[nodiscard]] Result<void> wait_for(const DeviceEvent& event) override {
    return queue_.wait_for(event);
  }
  [[nodiscard]] Result<void> drain(Deadline deadline) override { return queue_.drain(deadline); }
  void cancel() noexcept override { queue_.cancel(); }

 private:
  DeviceQueue& queue_;
};

TEST_P(DeviceRows, OfAQueueThatKnowsNoneGoOneByOne) {
  PlainQueue plain(*in_);
  for (const CopyRows& rows : {CopyRows{5, 7, 11, 9}, CopyRows{1, 9, 0, 0}, CopyRows{0, 9, 9, 9}}) {
    const RowsInMemory memory(rows, 3, 4);
    const auto from = std::span(memory.from());
    const DeviceBuffer there = buffer(memory.to().size());
    const DeviceBuffer here = buffer(memory.from().size());
    Memory in(memory.to().size()), within(memory.to().size()), out = memory.to();
    ok(in_->copy_in(here, 0, from));
    ok(in_->copy_in(there, 0, memory.to()));
    ok(plain.copy_in_rows(there, 3, from.subspan(4), rows));
    ok(in_->copy_out(there, 0, in));
    ok(in_->copy_in(there, 0, memory.to()));
    ok(plain.copy_rows(there, 3, here, 4, rows));
    ok(in_->copy_out(there, 0, within));
    ok(plain.copy_out_rows(here, 4, std::span(out).subspan(3), rows));
    ok(in_->drain());
    for (const Memory* const got : {&in, &within, &out})
      EXPECT_EQ(*got, memory.wanted()) << memory.text();
  }
  Memory host(10);
  const DeviceBuffer there = buffer(100);
  EXPECT_EQ(error_of(plain.copy_in_rows(there, 0, host, {2, 6, 6, 6})).code,
            Code::invalid_argument);
  EXPECT_EQ(error_of(plain.copy_out_rows(there, 0, host, {2, 6, 6, 6})).code,
            Code::invalid_argument);
  EXPECT_EQ(error_of(plain.copy_rows(there, 0, there, 50, {2, 6, 5, 6})).code,
            Code::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceRows, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace gantry
