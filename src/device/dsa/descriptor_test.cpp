#include "device/dsa/descriptor.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#if __has_include(<linux/idxd.h>)
#include <linux/idxd.h>
#define GANTRY_HAVE_IDXD_H
#endif

// The formats against the kernel's own header, where it is installed, and in words.
namespace gantry::dsa {
namespace {

TEST(Descriptor, SaysEveryStatusInWordsOfItsOwn) {
  std::set<std::string_view> seen;
  for (const int raw : {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14,
                        0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b})
    EXPECT_TRUE(seen.insert(to_string(static_cast<Status>(raw))).second) << raw;
  EXPECT_FALSE(seen.contains(to_string(static_cast<Status>(0x7f))));
  EXPECT_EQ(to_string(status_in(0x83)), to_string(Status::page_fault));
}

#ifdef GANTRY_HAVE_IDXD_H
constexpr bool same(auto ours, auto theirs) {
  return static_cast<std::uint64_t>(ours) == static_cast<std::uint64_t>(theirs);
}
static_assert(same(Opcode::noop, DSA_OPCODE_NOOP));
static_assert(same(Opcode::batch, DSA_OPCODE_BATCH));
static_assert(same(Opcode::memmove, DSA_OPCODE_MEMMOVE));
static_assert(same(Opcode::memfill, DSA_OPCODE_MEMFILL));

static_assert(same(Flags::fence, IDXD_OP_FLAG_FENCE));
static_assert(same(Flags::block_on_fault, IDXD_OP_FLAG_BOF));
static_assert(same(Flags::completion_valid, IDXD_OP_FLAG_CRAV));
static_assert(same(Flags::request_completion, IDXD_OP_FLAG_RCR));
static_assert(same(Flags::request_interrupt, IDXD_OP_FLAG_RCI));
static_assert(same(Flags::check_result, IDXD_OP_FLAG_CR));
static_assert(same(Flags::cache_control, IDXD_OP_FLAG_CC));
static_assert(same(Flags::destination_readback, IDXD_OP_FLAG_DRDBK));

static_assert(same(Status::none, DSA_COMP_NONE));
static_assert(same(Status::success, DSA_COMP_SUCCESS));
static_assert(same(Status::success_with_predicate, DSA_COMP_SUCCESS_PRED));
static_assert(same(Status::page_fault, DSA_COMP_PAGE_FAULT_NOBOF));
static_assert(same(Status::page_fault_unresolved, DSA_COMP_PAGE_FAULT_IR));
static_assert(same(Status::batch_failed, DSA_COMP_BATCH_FAIL));
static_assert(same(Status::batch_page_fault, DSA_COMP_BATCH_PAGE_FAULT));
static_assert(same(Status::bad_opcode, DSA_COMP_BAD_OPCODE));
static_assert(same(Status::bad_flags, DSA_COMP_INVALID_FLAGS));
static_assert(same(Status::reserved_not_zero, DSA_COMP_NOZERO_RESERVE));
static_assert(same(Status::size_out_of_range, DSA_COMP_XFER_ERANGE));
static_assert(same(Status::count_out_of_range, DSA_COMP_DESC_CNT_ERANGE));
static_assert(same(Status::overlap, DSA_COMP_OVERLAP_BUFFERS));
static_assert(same(Status::dualcast_misaligned, DSA_COMP_DCAST_ERR));
static_assert(same(Status::list_misaligned, DSA_COMP_DESCLIST_ALIGN));
static_assert(same(Status::bad_interrupt_handle, DSA_COMP_INT_HANDLE_INVAL));
static_assert(same(Status::completion_not_translated, DSA_COMP_CRA_XLAT));
static_assert(same(Status::completion_misaligned, DSA_COMP_CRA_ALIGN));
static_assert(same(kStatusMask, DSA_COMP_STATUS_MASK));
static_assert(same(kStatusWrite, DSA_COMP_STATUS_WRITE));

static_assert(sizeof(Descriptor) == sizeof(dsa_hw_desc));
static_assert(offsetof(Descriptor, completion) == offsetof(dsa_hw_desc, completion_addr));
static_assert(offsetof(Descriptor, source) == offsetof(dsa_hw_desc, src_addr));
static_assert(offsetof(Descriptor, source) == offsetof(dsa_hw_desc, pattern));
static_assert(offsetof(Descriptor, source) == offsetof(dsa_hw_desc, desc_list_addr));
static_assert(offsetof(Descriptor, destination) == offsetof(dsa_hw_desc, dst_addr));
static_assert(offsetof(Descriptor, destination) == offsetof(dsa_hw_desc, src2_addr));
static_assert(offsetof(Descriptor, size) == offsetof(dsa_hw_desc, xfer_size));
static_assert(offsetof(Descriptor, size) == offsetof(dsa_hw_desc, desc_count));
static_assert(offsetof(Descriptor, interrupt_handle) == offsetof(dsa_hw_desc, int_handle));
static_assert(offsetof(Descriptor, extra) == offsetof(dsa_hw_desc, expected_res));
static_assert(offsetof(Descriptor, extra) == offsetof(dsa_hw_desc, dest2));
static_assert(offsetof(Descriptor, extra) == offsetof(dsa_hw_desc, crc_seed));
static_assert(sizeof(CompletionRecord) == sizeof(dsa_completion_record));
static_assert(offsetof(CompletionRecord, result) == offsetof(dsa_completion_record, result));
static_assert(offsetof(CompletionRecord, bytes_completed) ==
              offsetof(dsa_completion_record, bytes_completed));
static_assert(offsetof(CompletionRecord, fault_address) ==
              offsetof(dsa_completion_record, fault_addr));
static_assert(offsetof(CompletionRecord, extra) == offsetof(dsa_completion_record, crc_val));

TEST(Descriptor, PutsOpcodeAndFlagsWhereTheKernelsHeaderHasThem) {
  Descriptor ours;
  ours.owner = 1u << 31 | 0x5'4321;
  ours.set(Opcode::memmove, Flags::fence | Flags::destination_readback);
  dsa_hw_desc theirs{};
  std::memcpy(&theirs, &ours, sizeof theirs);
  EXPECT_EQ(theirs.pasid, 0x5'4321u);
  EXPECT_EQ(theirs.rsvd, 0u);
  EXPECT_EQ(theirs.priv, 1u);
  EXPECT_EQ(theirs.flags, static_cast<unsigned>(IDXD_OP_FLAG_FENCE | IDXD_OP_FLAG_DRDBK));
  EXPECT_EQ(theirs.opcode, static_cast<unsigned>(DSA_OPCODE_MEMMOVE));
  EXPECT_EQ(ours.opcode(), Opcode::memmove);
  EXPECT_EQ(ours.flags(), Flags::fence | Flags::destination_readback);
}
#endif

}  // namespace
}  // namespace gantry::dsa
