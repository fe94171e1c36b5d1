#include "core/base/os/populate.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <vector>

#include "core/base/sizes.hpp"
#include "core/base/test_refusals.hpp"

namespace gantry {
namespace {

const auto kPage = page_bytes();
constexpr Bytes kPages = 16;
constexpr std::uint32_t kPopulateRead = 22, kPopulateWrite = 23;

class Mapping {
 public:
  explicit Mapping(int protection, int flags = MAP_PRIVATE | MAP_ANONYMOUS)
      : at_(::mmap(nullptr, kPages * kPage, protection, flags, -1, 0)) {}
  ~Mapping() { ::munmap(at_, kPages * kPage); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] ByteSpan bytes() const { return {static_cast<std::byte*>(at_), kPages * kPage}; }
  [[nodiscard]] std::ptrdiff_t present() const {
    std::array<unsigned char, kPages> pages{};
    ::mincore(at_, kPages * kPage, pages.data());
    return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
  }

 private:
  void* at_;
};

long minor_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// 0: what populate() promises holds.
int pages_are_made() {
  const Mapping fresh(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  if (populate(fresh.bytes(), PageAccess::write) != 0) return 1;
  if (fresh.present() != kPages) return 2;
  const long before = minor_faults();
  for (Bytes i = 0; i < kPages; ++i) fresh.bytes()[i * kPage] = std::byte{1};
  return minor_faults() - before < static_cast<long>(kPages) ? 0 : 3;
}

int contents_stay() {
  const Mapping used(PROT_READ | PROT_WRITE);
  const ByteSpan bytes = used.bytes();
  for (Bytes i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  for (const PageAccess access : {PageAccess::read, PageAccess::write})
    if (populate(bytes.subspan(100, bytes.size() - 200), access) != 0) return 1;
  for (Bytes i = 0; i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>(i % 251)) return 2;
  return 0;
}

int what_cannot_be_is_an_error() {
  const Mapping read_only(PROT_READ);
  if (populate(read_only.bytes(), PageAccess::read) != 0) return 1;
  if (const int error = populate(read_only.bytes(), PageAccess::write);
      error != EFAULT && error != EINVAL)
    return 2;
  const Mapping none(PROT_NONE);
  if (populate(none.bytes(), PageAccess::read) == 0) return 3;
  ByteSpan gone;
  {
    const Mapping short_lived(PROT_READ | PROT_WRITE);
    gone = short_lived.bytes();
  }
  return populate(gone, PageAccess::write) == 0 ? 4 : 0;
}

// With the kernel's own advice, on a kernel without it, and where a container refuses it.
class Populate : public testing::TestWithParam<int> {
 protected:
  static int run(int (*work)()) {
    return test::in_child([&] {
      const int error = GetParam();
      const std::vector<test::Refusal> refused{{SYS_madvise, error, true, 2, kPopulateRead},
                                               {SYS_madvise, error, true, 2, kPopulateWrite}};
      if (error != 0 && !test::refuse_calls(refused)) return test::kNoFilters;
      return work();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Populate, testing::Values(0, EINVAL, EPERM, ENOSYS));

TEST_P(Populate, MakesPages) {
  EXPECT_EQ(run(pages_are_made), 0);
}

TEST_P(Populate, ChangesNothing) {
  EXPECT_EQ(run(contents_stay), 0);
}

TEST_P(Populate, SaysWhatCannotBe) {
  EXPECT_EQ(run(what_cannot_be_is_an_error), 0);
}

}  // namespace
}  // namespace gantry
