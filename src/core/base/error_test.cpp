#include <gmock/gmock.h>

#include <memory>

#include "core/base/result.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

Result<int> half(int value) {
  if (value % 2 != 0) return fail(Code::invalid_argument, fmt::format("{}: odd", value), "add 1");
  return value / 2;
}

Result<int> quarter(int value) {
  GANTRY_ASSIGN(const int once, half(value));
  GANTRY_TRY(half(once));
  return *half(once);
}

TEST(Error, IsPassedOnWithMessageAndHint) {
  EXPECT_EQ(*quarter(12), 3);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::invalid_argument);
  EXPECT_EQ(to_string(failed.error()), "3: odd; add 1");
}

TEST(Error, WithoutHintHasNoSemicolon) {
  EXPECT_EQ(to_string(Error{Code::system, "disk: full", ""}), "disk: full");
}

TEST(Error, OfTheKernelKeepsItsKind) {
  EXPECT_EQ(fail_errno("x", EACCES).value().code, Code::permission_denied);
  EXPECT_EQ(fail_errno("x", ENOENT).value().code, Code::not_found);
  EXPECT_EQ(fail_errno("x", EIO).value().code, Code::system);
  EXPECT_THAT(fail_errno("file f", ENOSPC).value().message, HasSubstr("file f: "));
}

TEST(Must, HandsTheValueOn) {
  EXPECT_EQ(must(quarter(12)), 3);
  EXPECT_EQ(*must(Result<std::unique_ptr<int>>(std::make_unique<int>(7))), 7);
  must(Result<void>());
}

TEST(MustDeathTest, SaysTheErrorAndItsHintAndExits) {
  EXPECT_EXIT(must(quarter(6)), testing::ExitedWithCode(1), "^gantry: 3: odd; add 1\n$");
  EXPECT_EXIT(must(Result<void>(tl::unexpected(Error{Code::system, "disk: full", ""}))),
              testing::ExitedWithCode(1), "^gantry: disk: full\n$");
}

TEST(Deadline, SaturatesInsteadOfWrapping) {
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds::max()).is_never());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_TRUE(Deadline::now().passed());
  EXPECT_EQ(Deadline::now().left().count(), 0);
  EXPECT_GT(Deadline::after(std::chrono::hours(1)).left(), std::chrono::minutes(59));
}

}  // namespace
}  // namespace gantry
