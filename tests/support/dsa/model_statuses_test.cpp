#include "support/dsa/test_model.hpp"

// What the device refuses, each status by the shortest way to it.
namespace gantry::dsa {
namespace {

using enum Flags;

class ModelStatuses : public testing::Test {
 protected:
  void expect_refused(Status status) {
    EXPECT_EQ(run(*model_, order_), status) << to_string(status_in(load_status(order_.record)));
    EXPECT_EQ(destination_, Buffer(kBytes)) << "nothing is done";
  }
  // Where there can be no record.
  void expect_software_error(Status status) {
    order_.record = {};
    submit(*model_, order_.descriptor);
    model_->await_idle();
    const auto error = model_->take_software_error();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, status) << to_string(error->status);
    EXPECT_EQ(error->descriptor.completion, order_.descriptor.completion);
    EXPECT_FALSE(order_.answered());
  }
  void plain(Opcode opcode) {
    order_.descriptor = {};
    order_.set(opcode);
    order_.of(source_.data(), destination_.data(), 100);
  }

  static constexpr Bytes kBytes = 20'000;
  std::unique_ptr<DeviceModel> model_ = make_model({.limits = {.max_transfer_bytes = 10'000}});
  const Buffer source_ = random_bytes(kBytes, 1);
  Buffer destination_ = Buffer(kBytes);
  Order order_;
};

TEST_F(ModelStatuses, BadOpcode) {
  for (const int raw : {0x02, 0x05, 0x06, 0x07, 0x08, 0x09, 0x10, 0x11, 0x12, 0x20, 0xff}) {
    plain(static_cast<Opcode>(raw));
    expect_refused(Status::bad_opcode);
  }
}

TEST_F(ModelStatuses, BadFlagsAndWhich) {
  struct Refused {
    Opcode opcode;
    Flags flags;
    Flags bad;
  };
  for (const auto& [opcode, flags, bad] : {
           Refused{Opcode::memmove, kAnswered | fence, fence},  // for batches only
           Refused{Opcode::memmove, kAnswered | check_result, check_result},
           Refused{Opcode::noop, kAnswered | block_on_fault, block_on_fault},
           Refused{Opcode::memfill, kAnswered | static_cast<Flags>(0x800200),
                   static_cast<Flags>(0x800200)},
       }) {
    plain(opcode);
    order_.set(opcode, flags);
    expect_refused(Status::bad_flags);
    EXPECT_EQ(order_.record.extra[0], static_cast<std::uint32_t>(bad))
        << static_cast<unsigned>(opcode);
  }
}

TEST_F(ModelStatuses, RecordRequestedWithoutAnAddressForIt) {
  order_.set(Opcode::noop, request_completion);
  expect_software_error(Status::bad_flags);
}

TEST_F(ModelStatuses, ReservedFieldNotZero) {
  const auto expect = [this](auto spoil) {
    plain(Opcode::memmove);
    spoil(order_.descriptor);
    expect_refused(Status::reserved_not_zero);
  };
  expect([](Descriptor& d) { d.owner = 1u << 20; });
  expect([](Descriptor& d) { d.reserved = 1; });
  expect([](Descriptor& d) { d.extra[0] = 1; });
  expect([](Descriptor& d) { d.extra[2] = 1; });
}

TEST_F(ModelStatuses, SizeOutOfRange) {
  for (const Opcode opcode : {Opcode::memmove, Opcode::memfill})
    for (const std::uint32_t size : {0u, 10'001u, ~0u}) {
      plain(opcode);
      order_.descriptor.size = size;
      expect_refused(Status::size_out_of_range);
    }
  plain(Opcode::memmove);
  order_.descriptor.size = 10'000;
  EXPECT_EQ(run(*model_, order_), Status::success);
}

TEST_F(ModelStatuses, BatchCountOutOfRangeAndListMisaligned) {
  alignas(64) std::array<Descriptor, 40> list{};
  for (const unsigned version : {1u, 2u}) {
    model_ = make_model({.limits = {.version = version, .max_batch = 20}});
    for (const std::uint32_t count : {0u, 21u}) {
      plain(Opcode::batch);
      order_.of(list.data(), nullptr, count);
      expect_refused(Status::count_out_of_range);
    }
    order_.of(list.data(), nullptr, 1);
    EXPECT_EQ(run(*model_, order_), version == 1 ? Status::count_out_of_range : Status::success);
  }
  order_.of(reinterpret_cast<const std::byte*>(list.data()) + 32, nullptr, 2);
  expect_refused(Status::list_misaligned);
}

TEST_F(ModelStatuses, InterruptThatNobodyGave) {
  plain(Opcode::memmove);
  order_.also(request_interrupt);
  expect_refused(Status::bad_interrupt_handle);
}

TEST_F(ModelStatuses, CompletionMisaligned) {
  plain(Opcode::memmove);
  order_.descriptor.completion += 16;
  expect_software_error(Status::completion_misaligned);
  EXPECT_EQ(destination_, Buffer(kBytes));
}

TEST_F(ModelStatuses, CompletionNotTranslated) {
  const Pages pages(1);
  for (const int protection : {PROT_READ, PROT_NONE}) {
    pages.protect(0, protection);
    plain(Opcode::memmove);
    order_.descriptor.completion = address_of(pages.at(64));
    expect_software_error(Status::completion_not_translated);
  }
  order_.descriptor.completion = 0;
  expect_software_error(Status::completion_not_translated);
  EXPECT_EQ(destination_, Buffer(kBytes)) << "nothing is done";
}

TEST_F(ModelStatuses, TheFirstSoftwareErrorStaysUntilTaken) {
  order_.set(kUnknown, none);
  submit(*model_, order_.descriptor);
  order_.set(Opcode::noop, fence);
  submit(*model_, order_.descriptor);
  model_->await_idle();
  EXPECT_EQ(model_->take_software_error()->status, Status::bad_opcode);
  EXPECT_FALSE(model_->take_software_error());
  EXPECT_EQ(model_->counts().software_errors, 2u);
}

TEST_F(ModelStatuses, ARecordOnSuccessOnlyWhenRequested) {
  plain(Opcode::memmove);
  order_.set(Opcode::memmove, completion_valid);
  submit(*model_, order_.descriptor);
  model_->await_idle();
  EXPECT_FALSE(order_.answered());
  EXPECT_EQ(std::memcmp(destination_.data(), source_.data(), 100), 0);
  order_.descriptor.size = 0;
  EXPECT_EQ(run(*model_, order_), Status::size_out_of_range) << "on failure always";
}

TEST_F(ModelStatuses, EveryFlagThatIsPossible) {
  plain(Opcode::memmove);
  order_.also(cache_control | destination_readback | block_on_fault);
  EXPECT_EQ(run(*model_, order_), Status::success);
}

}  // namespace
}  // namespace gantry::dsa
